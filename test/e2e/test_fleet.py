# SPDX-License-Identifier: Apache-2.0
#
# commtap list and prune on what real jobs leave.
# Must not live here: which jobs go, links and exchanged directories (test/unit/test_fleet.c).
import os
import pwd
import re
import shutil
import subprocess

import pytest

import jobs


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    jobs.need_mpi("openmpi")
    top = tmp_path_factory.mktemp("fleet")
    for name in ("one", "two"):
        jobs.run("openmpi", 2, [jobs.program("openmpi", "train"), "--steps", "5"], top / "ada" / name)
    return top


def test_jobs_are_listed_and_pruned(where):
    listed = jobs.document("list", where)["jobs"]
    assert [row["directory"] for row in listed] == [f"{where}/ada/one", f"{where}/ada/two"]
    assert {row["launches"] for row in listed} == {1}
    assert all(row["state"] == "ended" and row["dumps"] == 2 and "train" in row["command"] for row in listed)
    sizes = [row["disk_bytes"] for row in listed]
    assert jobs.document("list", where / "ada", where / "ada" / "two")["jobs"][0]["started"] == listed[0]["started"]
    newest = ("list", "--top", "1", where / "ada" / "two", where / "ada" / "one")
    assert [row["directory"] for row in jobs.document(*newest)["jobs"]] == [f"{where}/ada/two"]
    assert "... and 1 more: --top N" in jobs.commtap(*newest).stdout
    jobs.commtap("list", "--top", "0", where, codes=(2,))

    said = jobs.commtap("prune", "--keep", f"{sizes[1]}B", "--dry-run", where).stdout
    assert "would remove" in said and "ada/one" in said and "ada/two" not in said
    assert len(list(where.glob("ada/*/*.ct"))) == 4

    jobs.commtap("pack", "--delete", where / "ada" / "one")
    packed = jobs.document("list", where / "ada" / "one")["jobs"]
    assert packed == [{**listed[0], "dumps": 0, "packed": 1, "disk_bytes": packed[0]["disk_bytes"]}]

    jobs.commtap("prune", "--shorter-than", "1h", where)
    assert list(where.iterdir()) == []
    jobs.commtap("prune", where, codes=(2,))
    for rule in ("--older-than", "5"), ("--shorter-than", "60"), ("--keep", "500"), ("--older-than", "5x"), ("--keep", "-1G"):
        assert "takes a number with a unit" in jobs.commtap("prune", *rule, where, codes=(2,)).stderr


def test_what_many_threads_removed_is_said_in_order(tmp_path):
    jobs.need_mpi("openmpi")
    jobs.run("openmpi", 1, [jobs.program("openmpi", "train"), "--steps", "5"], tmp_path / "one")
    dump, = (tmp_path / "one").iterdir()
    digits = dump.name.split(".")[-2]
    for number in range(200):
        place = tmp_path / "many" / f"user{number % 7}" / f"job{number}"
        place.mkdir(parents=True)
        shutil.copyfile(dump, place / f"commtap.run{number:03}.{digits}.ct")

    many = tmp_path / "many"
    listed = [row["directory"] for row in jobs.document("list", many)["jobs"]]
    assert listed == sorted(str(path) for path in many.glob("*/*")) and len(listed) == 200  # they began together
    planned = jobs.commtap("prune", "--older-than", "0s", "--dry-run", many).stdout.splitlines()
    removed = jobs.commtap("prune", "--older-than", "0s", many).stdout.splitlines()
    assert [re.match(r"removed (\S+) run ", line).group(1) for line in removed[:-1]] == listed
    assert [line.replace("would remove ", "removed ") for line in planned[:-1]] == removed[:-1]
    assert f"{many}: 200 of 200 jobs removed" in removed[-1] and list(many.iterdir()) == []


def test_who_ran_a_job(tmp_path):
    """Slurm's word comes first, which holds in its prologs and epilogs, too; who has no name in the environment has one."""
    jobs.need_mpi("openmpi")
    for user, environment in (("ada", {"SLURM_JOB_USER": "ada", "USER": "root"}), ("eve", {"USER": "eve"}), ("0", {})):
        clean = {key: value for key, value in jobs.clean_environment().items() if key not in ("USER", "LOGNAME")}
        subprocess.run([jobs.program("openmpi", "pcontrol")], check=True, stdout=subprocess.DEVNULL, timeout=60, env={
            **clean, **environment, "LD_PRELOAD": str(jobs.SHIM), "COMMTAP_DIR": f"{tmp_path}/%u"})
        (job,) = jobs.document("list", tmp_path / user)["jobs"]
        name = pwd.getpwuid(os.getuid()).pw_name if user == "0" else user
        assert job["user"] == name == jobs.report(tmp_path / user)["job"]["user"]
        assert f"by {name}" in jobs.commtap("report", tmp_path / user).stdout
        assert f'user="{name}"' in jobs.commtap("metrics", tmp_path / user).stdout


READING = ["report DIR", "list DIR", "check DIR"]
CHANGING = ["diagnose DIR", "prune --older-than 0s DIR", "pack --delete DIR", "collect DIR", "top --once DIR", "ctl DIR pause"]


@pytest.mark.parametrize("of_link, followed", [(65534, False), (0, True)])
def test_nobody_elses_link_is_followed_where_all_may_write(of_link, followed, tmp_path):
    """The library writes nothing behind it; an operator's `commtap prune /scratch/*` must not delete there either."""
    if os.geteuid() != 0:
        pytest.skip("only root can leave links of other users")
    mine, everybody = tmp_path / "mine", tmp_path / "everybody"
    jobs.run("openmpi", 2, [jobs.program("openmpi", "train"), "--steps", "5"], mine / "job")
    everybody.mkdir()
    everybody.chmod(0o1777)
    for name, place in (("all", mine), ("job", mine / "job"), ("file", next((mine / "job").glob("*.ct")))):
        (everybody / name).symlink_to(place)
        os.lchown(everybody / name, of_link, of_link)
    before = sorted((path, path.stat().st_size) for path in mine.rglob("*"))
    for command in READING if followed else READING + CHANGING:
        for place in (everybody / "job", everybody / "all" / "job"):
            words = [place if word == "DIR" else word for word in command.split()]
            done = subprocess.run([jobs.COMMTAP, *words], capture_output=True, text=True, timeout=60)
            assert ("behind a link that another user has put there" in done.stderr) == (not followed), (command, done)
            assert (done.returncode == 0) == followed, (command, done)
    assert sorted((path, path.stat().st_size) for path in mine.rglob("*")) == before
    linked = tmp_path / "linked"
    linked.mkdir()
    linked.chmod(0o1777)
    (everybody / "file").rename(linked / os.path.basename(next((mine / "job").glob("*.ct"))))
    said = jobs.commtap("report", linked, codes=(0, 3)).stderr
    assert ("behind a link that another user has put there" in said) == (not followed)
