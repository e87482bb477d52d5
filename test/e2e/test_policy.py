# SPDX-License-Identifier: Apache-2.0
#
# Jobs that are recorded because all are: the operator's policy, who overrules whom, shares of the jobs, short jobs, silence,
# the files for Slurm, several jobs of one node.
# Must not live here: lines and files one by one, quotas of one job (test/unit/test_policy.c, test_footprint.py), listing and
# pruning (test_fleet.py).
import json
import os
import pathlib
import shlex
import subprocess
import tempfile

import pytest

import jobs
import schema

PACKAGING = jobs.ROOT / "packaging"
SHARE, THREADS = 400 << 10, 7 * (16 << 10)  # half of what `growing` takes; beyond it its threads take that


@pytest.fixture
def policy(tmp_path):
    """Writes the policy of a test; its path."""
    def write(*lines, mode=0o644):
        path = tmp_path / "policy"
        path.write_text("".join(f"{line}\n" for line in lines))
        path.chmod(mode)
        return str(path)
    return write


def run(where, path, mpi="openmpi", mode="proper", ranks=2, check=True, **environment):
    """A job of which nothing but the preload and the policy is set."""
    variables = {"LD_PRELOAD": str(jobs.SHIM), "COMMTAP_POLICY": path, **environment}
    line = jobs.launch_line(mpi, ranks, [jobs.program(mpi, "ending"), mode], variables)
    where.mkdir(exist_ok=True)
    process = jobs.start(line, cwd=where)
    out, err = process.communicate(timeout=120)
    assert not check or process.returncode == 0, out + err
    return err


def commtaps(err):
    return [line for line in err.splitlines() if "commtap" in line]


def env(**variables):
    done = subprocess.run([str(jobs.COMMTAP), "env", "--format", "json"], capture_output=True, text=True, check=True,
                          env={**jobs.clean_environment(), **variables})
    schema.check(["env", "--format", "json"], done.stdout)
    document = json.loads(done.stdout)
    return document, {row["name"]: (row["value"], row["source"]) for row in document["knobs"]}, done.stderr


# ---- several jobs of one node ------------------------------------------------------------------


@pytest.mark.parametrize("told", [False, True])
def test_jobs_that_share_a_node_keep_its_quota_together(mpi, told, policy, tmp_path):
    """Two jobs at once have the node's processors between them, a process each where no batch system tells (`told`:
    Slurm does). Each would take more than its part by itself."""
    online = os.cpu_count()
    if online < 2:
        pytest.skip("two jobs have two processors at least")
    ranks, quota = (2, 4 * SHARE) if told else (online // 2, online * SHARE)
    environment = {"SLURM_CPUS_ON_NODE": str(online // 2)} if told else {}
    path = policy(f"fixed COMMTAP_NODE_QUOTA={quota}")

    def start(name):
        variables = {"LD_PRELOAD": str(jobs.SHIM), "COMMTAP_POLICY": path, "COMMTAP_DIR": str(tmp_path / name), **environment}
        return jobs.start(jobs.launch_line(mpi, ranks, [jobs.program(mpi, "growing"), str(path), "10"], variables))

    processes = [start(name) for name in ("one", "two")]
    said = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    taken = [[dump.stat().st_blocks * 512 for dump in jobs.dumps(tmp_path / name)] for name in ("one", "two")]
    assert [len(dumps) for dumps in taken] == [ranks, ranks]
    assert sum(map(sum, taken)) <= quota + 2 * ranks * THREADS
    for name in ("one", "two"):
        assert jobs.document("check", tmp_path / name)["losses"]["quota_refusals"] > 0  # there was more to keep


# ---- who overrules whom ------------------------------------------------------------------------


def test_the_library_does_what_env_shows(mpi, policy, tmp_path):
    path = policy("# of all jobs", f"COMMTAP_DIR={tmp_path}/%j", "fixed COMMTAP_RING=32", "COMMTAP_ARGV=off", "COMMTAP_MODE=0640")
    set_by_user = {"COMMTAP_POLICY": path, "COMMTAP_RING": "1024", "COMMTAP_MODE": "0600", "SLURM_JOB_ID": "4711"}
    document, values, said = env(**set_by_user)
    assert document["policy"] == path
    assert values["COMMTAP_DIR"] == (f"{tmp_path}/%j", "policy") and values["COMMTAP_ARGV"] == ("off", "policy")
    assert values["COMMTAP_RING"] == ("32", "fixed") and values["COMMTAP_MODE"] == ("0600", "environment")
    assert values["COMMTAP_STACK"] == ("full", "default")
    assert said == "commtap: COMMTAP_RING=1024 is overruled by the policy: 32 is used\n"
    lines = commtaps(run(tmp_path / "cwd", path, mpi, COMMTAP_RING="1024", COMMTAP_MODE="0600", SLURM_JOB_ID="4711"))
    assert lines == ["commtap: the policy fixes another value: COMMTAP_RING=1024"]
    dumps = jobs.dumps(tmp_path / "4711")
    assert len(dumps) == 2 and {dump.stat().st_mode & 0o777 for dump in dumps} == {0o600}
    assert len(jobs.records(tmp_path / "4711")) <= 2 * 32 * 4  # of 50 calls and more; records may be packed
    assert "proper" not in jobs.report(tmp_path / "4711")["job"]["command"]


def test_a_bad_line_is_said_once_and_skipped(policy, tmp_path):
    path = policy(f"COMMTAP_DIR={tmp_path}/dumps", "COMMTAP_RIGN=64", "COMMTAP_RING=many", "LD_PRELOAD=/x",
                  "COMMTAP_RING = 64", "COMMTAP_STACK=maybe")
    err = run(tmp_path / "cwd", path, ranks=3)
    assert sorted(commtaps(err)) == sorted([
        f"commtap: {path} line 2: unknown variable COMMTAP_RIGN (did you mean COMMTAP_RING?)",
        f"commtap: {path} line 3: value not understood, the line is skipped: COMMTAP_RING=many",
        f"commtap: {path} line 4: it is no COMMTAP_NAME=VALUE",
        f"commtap: {path} line 5: it is no COMMTAP_NAME=VALUE",
        f"commtap: {path} line 6: value not understood, none of off, site, native, python, full; full is used: "
        "COMMTAP_STACK=maybe"])
    assert len(jobs.dumps(tmp_path / "dumps")) == 3
    _, values, said = env(COMMTAP_POLICY=path)
    assert said.splitlines() == [f"commtap: {path} line 2: no knob is called COMMTAP_RIGN (maybe: COMMTAP_RING?)",
                                 f"commtap: {path} line 3: COMMTAP_RING=many is not understood: 16384 is used",
                                 f"commtap: {path} line 4: it is no COMMTAP_NAME=VALUE",
                                 f"commtap: {path} line 5: it is no COMMTAP_NAME=VALUE",
                                 f"commtap: {path} line 6: COMMTAP_STACK=maybe is not understood: full is used"]
    assert values["COMMTAP_RING"] == ("16384", "default")
    with_quiet = policy(f"COMMTAP_DIR={tmp_path}/quiet", "COMMTAP_RIGN=64", "COMMTAP_QUIET=1")
    assert commtaps(run(tmp_path / "cwd", with_quiet)) == [] and len(jobs.dumps(tmp_path / "quiet")) == 2


@pytest.mark.parametrize("why", ["it is a link", "it is no regular file", "others than its owner may write to it",
                                 "it belongs neither to root nor to the user", "it cannot be opened"])
def test_what_others_may_have_written_is_not_used(why, policy, tmp_path):
    path = policy("COMMTAP_ENABLE=0", mode=0o666 if why.startswith("others") else 0o644)
    if why.startswith("it belongs"):
        if os.geteuid() != 0:
            pytest.skip("only root gives files away")
        os.chown(path, 12345, 12345)
    elif why == "it is a link":
        link = tmp_path / "link"
        link.symlink_to(path)
        path = str(link)
    elif why == "it is no regular file":
        path = str(tmp_path / "fifo")
        os.mkfifo(path)
    elif why == "it cannot be opened":
        path = str(tmp_path / "none")
    err = run(tmp_path / "cwd", path, COMMTAP_DIR=str(tmp_path / "dumps"))
    assert commtaps(err) == [f"commtap: {path}: the policy is not used: {why}"]
    assert len(jobs.dumps(tmp_path / "dumps")) == 2
    _, values, said = env(COMMTAP_POLICY=path)
    assert said == f"commtap: {path}: {why}\n" and values["COMMTAP_ENABLE"] == ("1", "default")


@pytest.mark.parametrize("of_directory, of_link, followed", [(0, 65534, False), (0, 0, True), (65534, 65534, True)])
def test_nobody_elses_link_is_followed_where_all_may_write(of_directory, of_link, followed, tmp_path):
    """/scratch/commtap/%u may be taken before the user comes: by a link to where the dumps would be in other hands."""
    if os.geteuid() != 0:
        pytest.skip("only root can leave links of other users")
    everybody, elsewhere = tmp_path / "everybody", tmp_path / "elsewhere"
    everybody.mkdir()
    elsewhere.mkdir()
    os.chown(everybody, of_directory, of_directory)
    everybody.chmod(0o1777)
    (everybody / "ada").symlink_to(elsewhere)
    os.lchown(everybody / "ada", of_link, of_link)
    said = jobs.run("openmpi", 2, [jobs.program("openmpi", "ending"), "proper"], everybody / "ada" / "7").stderr
    assert len(jobs.dumps(elsewhere / "7")) == (2 if followed else 0)
    assert ("behind a link that another user has put there" in said) == (not followed)
    assert list(elsewhere.iterdir()) == ([elsewhere / "7"] if followed else [])


def test_a_policy_with_a_byte_that_is_zero_is_refused(policy, tmp_path):
    """What stands behind it would hold for nobody, and nobody would notice."""
    path = policy("COMMTAP_QUIET=0\0", "fixed COMMTAP_ENABLE=0")
    why = "its byte at offset 15 is zero, and a policy is text"
    err = run(tmp_path / "cwd", path, ranks=1, COMMTAP_DIR=str(tmp_path / "dumps"))
    assert commtaps(err) == [f"commtap: {path}: the policy is not used: {why}"]
    _, values, said = env(COMMTAP_POLICY=path)
    assert said == f"commtap: {path}: {why}\n" and values["COMMTAP_ENABLE"] == ("1", "default")


def test_no_policy_is_none(policy, tmp_path):
    assert commtaps(run(tmp_path / "cwd", "off", COMMTAP_DIR=str(tmp_path / "dumps"))) == []
    assert len(jobs.dumps(tmp_path / "dumps")) == 2
    document, values, said = env(COMMTAP_POLICY="off")
    assert document["policy"] is None and said == "" and {source for _, source in values.values()} == {"default", "environment"}
    assert env()[1]["COMMTAP_POLICY"] == ("/etc/commtap.conf", "default")


# ---- which jobs leave dumps --------------------------------------------------------------------


def test_all_ranks_agree_whether_a_job_is_recorded(policy, tmp_path):
    path = policy(f"COMMTAP_DIR={tmp_path}/dumps/%j", "COMMTAP_SHARE=50")
    counts = []
    for job in range(100, 104):
        assert commtaps(run(tmp_path / "cwd", path, ranks=3, SLURM_JOB_ID=str(job))) == []
        counts.append(len(jobs.dumps(tmp_path / "dumps" / str(job))))
    assert set(counts) == {0, 3}
    left = sorted(path.name for path in (tmp_path / "dumps").iterdir())
    assert len(left) == counts.count(3)  # who is not recorded leaves no directory either
    assert list((tmp_path / "cwd").iterdir()) == []


@pytest.fixture(params=["/dev/shm", "/var/tmp"])
def place(request):
    """Memory and a disk; where a dump cannot be mapped it is staged, or kept in memory."""
    with tempfile.TemporaryDirectory(prefix="commtap-test-", dir=request.param) as directory:
        yield pathlib.Path(directory)


def test_a_short_job_leaves_nothing(mpi, policy, place, tmp_path):
    path = policy(f"COMMTAP_DIR={place}/%u/%j", "COMMTAP_MIN_SECONDS=600")
    assert commtaps(run(tmp_path / "cwd", path, mpi, USER="ada", SLURM_JOB_ID="1")) == []
    assert [file.name for file in place.rglob("*")] == ["ada"]


def test_one_that_ended_badly_is_kept(policy, tmp_path):
    path = policy(f"COMMTAP_DIR={tmp_path}/%j", "COMMTAP_MIN_SECONDS=600")
    run(tmp_path / "cwd", path, mode="exit", check=False, SLURM_JOB_ID="1")
    found = list((tmp_path / "1").glob("commtap.*"))  # dumps, or what points to them
    assert len({file.name.split(".")[2] for file in found}) == 2


def test_a_long_one_is_kept(policy, tmp_path):
    jobs.need("python3-mpi4py")
    path = policy(f"COMMTAP_DIR={tmp_path}/dumps", "COMMTAP_MIN_SECONDS=1")
    script = "import time; from mpi4py import MPI; time.sleep(1); MPI.COMM_WORLD.Barrier()"
    variables = {"LD_PRELOAD": str(jobs.SHIM), "COMMTAP_POLICY": path}
    process = jobs.start(jobs.launch_line("openmpi", 2, [jobs.PYTHON, "-c", script], variables))
    process.communicate(timeout=120)
    assert process.returncode == 0 and len(jobs.dumps(tmp_path / "dumps")) == 2


def test_what_a_python_program_raised_is_kept(policy, tmp_path):
    """It finalises MPI and exits all the same, with a status."""
    jobs.need("python3-mpi4py")
    path = policy(f"COMMTAP_DIR={tmp_path}/dumps", "COMMTAP_MIN_SECONDS=600")
    script = "from mpi4py import MPI; MPI.COMM_WORLD.Barrier(); raise SystemExit(7)"
    variables = {"LD_PRELOAD": str(jobs.SHIM), "COMMTAP_POLICY": path}
    process = jobs.start(jobs.launch_line("openmpi", 1, [jobs.PYTHON, "-c", script], variables))
    process.communicate(timeout=120)
    assert process.returncode == 7 and len(jobs.dumps(tmp_path / "dumps")) == 1


def test_who_runs_a_job_under_commtap_gets_its_dumps(policy, tmp_path):
    path = policy("COMMTAP_SHARE=0", "COMMTAP_MIN_SECONDS=600", "COMMTAP_QUIET=1", "fixed COMMTAP_MODE=0640")
    done = jobs.run("openmpi", 2, [jobs.program("openmpi", "ending"), "proper"], tmp_path / "dumps", way="run",
                    knobs={"COMMTAP_POLICY": path, "COMMTAP_MODE": "0600"})
    assert len(jobs.dumps(tmp_path / "dumps")) == 2
    assert {dump.stat().st_mode & 0o777 for dump in jobs.dumps(tmp_path / "dumps")} == {0o640}
    assert f"commtap run: COMMTAP_MODE=0640, as {path} fixes it, and not 0600\n" in done.stderr


def test_commtap_run_goes_where_the_policy_says(policy, tmp_path):
    """Unless the environment says something, and not where the policy leaves all jobs out for good."""
    program = jobs.program("openmpi", "ending")
    def started(path, **variables):
        return subprocess.run([str(jobs.COMMTAP), "run", "--", str(program), "proper"], cwd=tmp_path, text=True, timeout=120,
                              env={**jobs.clean_environment(), **variables, "COMMTAP_POLICY": path}, capture_output=True)
    place = policy(f"COMMTAP_DIR={tmp_path}/of-all")
    assert started(place).returncode == 0 and len(jobs.dumps(tmp_path / "of-all")) == 1
    started(place, COMMTAP_DIR=str(tmp_path / "mine"))
    assert len(jobs.dumps(tmp_path / "mine")) == len(jobs.dumps(tmp_path / "of-all")) == 1
    assert "COMMTAP_SHARE=0 leaves jobs out" in started(policy("fixed COMMTAP_SHARE=0")).stderr
    short = started(policy("fixed COMMTAP_MIN_SECONDS=600")).stderr
    assert "COMMTAP_MIN_SECONDS=600 leaves none of a job that ends well in less" in short


def test_what_the_policy_fixes_is_mended_there(policy):
    path = policy("fixed COMMTAP_ENABLE=0", "fixed COMMTAP_SHARE=10", "fixed COMMTAP_MIN_SECONDS=5")
    done = subprocess.run([str(jobs.COMMTAP), "doctor", "--format", "json"], text=True, capture_output=True, timeout=60,
                          env={**jobs.clean_environment(), "COMMTAP_POLICY": path})
    remedies = [check["remedy"] for check in json.loads(done.stdout)["checks"] if check["subject"] == "knobs"]
    assert remedies == [f"change the policy, which fixes it: {path}"] * 3


def test_quiet_says_nothing_but_what_was_asked_for(policy, tmp_path):
    path = policy(f"COMMTAP_DIR={tmp_path}/dumps", "COMMTAP_QUIET=1")
    (tmp_path / "dumps").write_text("no directory")
    assert commtaps(run(tmp_path / "cwd", path, COMMTAP_RIGN="1")) == []
    assert commtaps(run(tmp_path / "cwd", path, COMMTAP_RIGN="1", COMMTAP_QUIET="0")) != []
    os.remove(tmp_path / "dumps")
    assert "MPI_Allreduce" in run(tmp_path / "cwd", path, COMMTAP_VERBOSE="all")


def test_doctor_knows_the_policy(policy, tmp_path):
    path = policy(f"COMMTAP_DIR={tmp_path}/of-all", "COMMTAP_SHARE=5", "COMMTAP_RIGN=1")
    done = subprocess.run([str(jobs.COMMTAP), "doctor", "--format", "json"], capture_output=True, text=True,
                          env={**jobs.clean_environment(), "COMMTAP_POLICY": path})
    found = json.loads(done.stdout)
    assert found["dumps"]["directory"] == f"{tmp_path}/of-all"
    texts = [check["text"] for check in found["checks"] if (check["subject"], check["state"]) == ("knobs", "part")]
    assert len(texts) == 2 and f"{path} line 3: no knob is called COMMTAP_RIGN" in texts and "5 % of the jobs" in " ".join(texts)


# ---- the files of packaging/ -------------------------------------------------------------------


def test_the_example_is_understood():
    document, values, said = env(COMMTAP_POLICY=str(PACKAGING / "commtap.conf"))
    assert said == "" and document["policy"].endswith("/commtap.conf")
    assert values["COMMTAP_SHARE"] == ("5", "policy") and values["COMMTAP_QUOTA"] == ("20G", "fixed")


def task_prolog(**variables):
    """What Slurm would add to a task's environment."""
    done = subprocess.run(["sh", PACKAGING / "slurm" / "task_prolog"], capture_output=True, text=True, check=True,
                          env={"PATH": os.environ["PATH"], **variables})
    lines = [shlex.split(line) for line in done.stdout.splitlines()]
    assert all(line[0] == "export" and len(line) == 2 for line in lines) and done.stderr == ""
    return dict(line[1].split("=", 1) for line in lines)


def test_slurms_prolog_preloads_the_library(policy, tmp_path):
    there = {"COMMTAP_LIBRARY": str(jobs.SHIM)}
    assert task_prolog(**there) == {"LD_PRELOAD": str(jobs.SHIM)}
    assert task_prolog(**there, LD_PRELOAD="libm.so.6") == {"LD_PRELOAD": f"{jobs.SHIM}:libm.so.6"}
    assert task_prolog(**there, COMMTAP_ENABLE="0") == task_prolog(**there, LD_PRELOAD=str(jobs.SHIM)) == {}
    assert task_prolog(COMMTAP_LIBRARY=str(tmp_path / "none.so")) == {}


def test_slurms_epilog_never_fails(tmp_path):
    for variables in ({}, {"SLURM_JOB_USER": "nobody-of-that-name", "SLURM_JOB_ID": "1"}):
        done = subprocess.run(["sh", PACKAGING / "slurm" / "epilog"], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "COMMTAP_PLACE": str(tmp_path), **variables})
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_slurms_epilog_finds_its_programs_without_a_path(tmp_path):
    """Slurm promises its epilogs no PATH."""
    timeout = tmp_path / "timeout"
    timeout.write_text('#!/bin/sh\nprintf "%s\\n" "$PATH" "$@" >"$COMMTAP_PLACE/called"\n')
    timeout.chmod(0o755)
    subprocess.run(["/bin/sh", PACKAGING / "slurm" / "epilog"], check=True, env={
        "PATH": str(tmp_path), "COMMTAP_PLACE": str(tmp_path), "SLURM_JOB_USER": "ada", "SLURM_JOB_ID": "7"})
    path, *words = (tmp_path / "called").read_text().splitlines()
    assert {"/usr/bin", "/usr/sbin", "/sbin", "/usr/local/bin"} <= set(path.split(":"))
    assert words[-4:] == ["--ssh", "false", "--remove", f"{tmp_path}/ada/7"]
