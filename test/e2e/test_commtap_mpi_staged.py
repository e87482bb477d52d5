# SPDX-License-Identifier: Apache-2.0
#
# commtap-mpi on several hosts reads dumps where they were staged: what it says is what commtap says where it has all.
# Lives here: hosts in mount name spaces. Must not live here: several processes in general (test_commtap_mpi.py),
# collecting (test_collect.py).
import os
import subprocess
import time

import pytest

import jobs
from hosts import Hosts
from test_commtap_mpi import COMMANDS, COUNTS, MPIS

ALONE = {"check": ["check"], "records": ["export"], "check-json": ["check", "--format", "json"]}
# COMMTAP_MPI_COUNTS="1 2 3 4" tries all commands with all these numbers of processes.
FEW = [("openmpi", "report", "a b", "real"), ("mpich", "report", "b a b a", "generated"), ("mpich", "stragglers", "a b b", "real"),
       ("openmpi", "steps", "b a", "generated"), ("mpich", "summary", "b a", "real"), ("openmpi", "diagnose", "a b b", "real"),
       ("openmpi", "calls", "a b", "real"), ("mpich", "check", "a b", "real"), ("openmpi", "records", "b a", "real")]
ALL = [(mpi, command, " ".join("ab"[i % 2] for i in range(count)), job) for mpi in MPIS for command in {**COMMANDS, **ALONE}
       for count in COUNTS if count > 1 for job in ("real", "generated")]


@pytest.fixture(scope="module", name="jobs_dumps")
def _jobs_dumps(tmp_path_factory):
    jobs.need_mpi("mpich")
    folder = tmp_path_factory.mktemp("staged")
    real, killed, generated = folder / "real", folder / "killed", folder / "generated"
    jobs.run("mpich", 4, [jobs.program("mpich", "ordered")], real)
    jobs.run("mpich", 3, [jobs.program("mpich", "ending"), "kill"], killed, check=False)
    generated.mkdir()
    subprocess.run([str(jobs.BUILD / "test" / "bench" / "dumps"), str(generated), "5", "4096"], check=True,
                   capture_output=True, timeout=60)
    return {"real": real, "generated": generated, "killed": killed}


@pytest.fixture
def hosts(tmp_path):
    return Hosts(tmp_path / "hosts", "a", "b", "c")


def hosts_for(mpi, folder):
    """MPICH's UCX takes two boot ids for two machines and goes by TCP, over which MPI_Finalize of MPICH 4.0 may not return,
    whatever the program: its processes are in containers, which have one boot id."""
    return Hosts(folder, "a", "b", "c", containers=mpi == "mpich")


def run(line, timeout=90):
    return subprocess.run(line, capture_output=True, text=True, timeout=timeout, check=False,
                          env={**jobs.clean_environment(), "NO_COLOR": "1"})


def team(hosts, mpi, where, *words):
    """commtap-mpi, its processes on those hosts: "a b b"."""
    jobs.need_mpi(mpi)
    program = jobs.BUILD / f"commtap-mpi.{mpi}"
    return run([f"mpirun.{mpi}", "-n", str(len(where.split())), *hosts.on(where, program, *words)])


def alone(hosts, *words):
    """commtap on the host that has all."""
    return run(hosts.on("all", jobs.COMMTAP, *words))


def says_the_same(hosts, mpi, where, *words):
    one, several = alone(hosts, *words), team(hosts, mpi, where, *words)
    assert (several.returncode, several.stderr) == (one.returncode, one.stderr)
    assert several.stdout == one.stdout
    return several


@pytest.mark.parametrize("mpi,command,where,job", ALL or FEW)
def test_staged_on_two_hosts(jobs_dumps, tmp_path, mpi, command, where, job):
    """One rank in the shared directory, all others staged."""
    hosts = hosts_for(mpi, tmp_path / "hosts")
    hosts.deal(jobs_dumps[job], ["a", "b", "b", "", "a"])
    done = says_the_same(hosts, mpi, where, *{**COMMANDS, **ALONE}[command], hosts.shared)
    assert done.returncode == 0 and done.stdout
    assert "not collected" not in done.stderr


def test_all_on_one_host(jobs_dumps, hosts):
    """The processes of that host read them in place, the others get them from there."""
    hosts.deal(jobs_dumps["real"], ["b"])
    says_the_same(hosts, "openmpi", "a b b", "report", "--format", "json", hosts.shared)
    says_the_same(hosts, "openmpi", "b", "report", "--format", "json", hosts.shared)


@pytest.mark.parametrize("mpi", MPIS)
def test_a_host_without_a_process(jobs_dumps, tmp_path, mpi):
    hosts = hosts_for(mpi, tmp_path / "hosts")
    dumps = sorted(jobs_dumps["real"].glob("*.ct"))
    for dump, name in zip(dumps, "aabc"):
        hosts.stage(dump, name, seen=name != "c")
    done = says_the_same(hosts, mpi, "a b", "report", "--format", "json", hosts.shared)
    assert f"not collected: c:/var/tmp/{dumps[3].name}" in done.stderr
    done = says_the_same(hosts, mpi, "a b", "check", hosts.shared)
    assert f"not collected: c:/var/tmp/{dumps[3].name}" in done.stdout


def test_one_that_was_removed(jobs_dumps, hosts):
    places = hosts.deal(jobs_dumps["real"], ["a", "b"])
    for home in (places[1].parent, hosts.folder / "all" / "tmp"):
        (home / places[1].name).unlink()
    done = says_the_same(hosts, "openmpi", "a b", "summary", hosts.shared)
    # the stub names this host where all is here: what it says of the rest is the same
    assert f"not collected: b:/var/tmp/{places[1].name}" in done.stderr


@pytest.mark.parametrize("size", [100, 70000, 0])
def test_one_that_was_truncated(jobs_dumps, hosts, size):
    places = hosts.deal(jobs_dumps["real"], ["a", "b"])
    for home in (places[1].parent, hosts.folder / "all" / "tmp"):
        os.truncate(home / places[1].name, size)
    done = says_the_same(hosts, "openmpi", "a b", "summary", hosts.shared)
    assert f"/var/tmp/{places[1].name}" in done.stderr
    assert done.returncode == 0


def test_a_link_in_its_place_is_not_followed(jobs_dumps, hosts):
    places = hosts.deal(jobs_dumps["real"], ["a", "b"])
    secret = hosts.folder / "b" / "tmp" / "secret"
    places[1].rename(secret)
    places[1].symlink_to(secret)
    done = team(hosts, "openmpi", "a b", "summary", hosts.shared)
    assert done.returncode == 0
    assert f"not collected: b:/var/tmp/{places[1].name}" in done.stderr


def give_little_memory(hosts, name):
    (hosts.folder / name / "meminfo").write_text("MemTotal: 900 kB\nMemAvailable:     300 kB\n", encoding="utf-8")


def team_with_tmpdir(hosts, where, tmpdir, *words):
    program = jobs.BUILD / "commtap-mpi.openmpi"
    return run(["mpirun.openmpi", "-n", str(len(where.split())), *hosts.on(where, "env", f"TMPDIR={tmpdir}", program, *words)])


def test_too_much_for_the_memory_of_a_host(jobs_dumps, hosts):
    """/dev/shm is memory, too."""
    jobs.need_mpi("openmpi")
    hosts.deal(jobs_dumps["real"], ["b"])
    give_little_memory(hosts, "a")
    for where in ("a a b", "b a"):
        done = team_with_tmpdir(hosts, where, "/dev/shm", "report", hosts.shared)
        assert done.returncode == 3 and done.stdout == ""
        # two processes of a host read the same copy
        assert "4 dumps are staged on other hosts than " in done.stderr and "where 1 copy of them would take" in done.stderr
        assert "of 307 kB of free memory, and of nothing that is free on a disk below TMPDIR" in done.stderr
        assert "commtap collect" in done.stderr
        assert done.stderr.count("commtap: ") == 2  # they all say the same
    # who has them needs no room
    assert team_with_tmpdir(hosts, "b", "/dev/shm", "report", hosts.shared).returncode == 0


@pytest.mark.parametrize("where", ["a a b", "b a", "a b a b"])
def test_what_memory_is_too_little_for_goes_to_the_disk(jobs_dumps, hosts, where):
    jobs.need_mpi("openmpi")
    disk = jobs.BUILD / "test"
    kind = subprocess.run(["stat", "-f", "-c", "%T", disk], capture_output=True, text=True, check=True).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        pytest.skip("the build lies in memory")
    hosts.deal(jobs_dumps["real"], ["b", "a"])
    for name in "ab":
        give_little_memory(hosts, name)
    before = sorted(disk.iterdir())
    one, several = alone(hosts, "report", hosts.shared), team_with_tmpdir(hosts, where, disk, "report", hosts.shared)
    assert (several.returncode, several.stderr, several.stdout) == (0, one.stderr, one.stdout)
    assert sorted(disk.iterdir()) == before


def test_who_was_killed_is_known_on_all_hosts(jobs_dumps, hosts):
    """Each host's kernel tells of its own processes alone."""
    hosts.deal(jobs_dumps["killed"], ["a", "b", "b"])
    assert "None of the processes is seen to live" in alone(hosts, "diagnose", hosts.shared).stdout
    assert "The processes are gone" in team(hosts, "openmpi", "b a", "diagnose", hosts.shared).stdout


def test_a_job_that_runs_on_one_of_the_hosts(hosts, tmp_path):
    where = tmp_path / "live"
    process = jobs.start(jobs.job_line("mpich", 2, [jobs.program("mpich", "train"), "--steps", "1000000"], where))
    try:
        end = time.monotonic() + 60
        while len(list(where.glob("*.ct"))) < 2:
            assert time.monotonic() < end
            time.sleep(0.1)
        hosts.deal(where, ["b"])
        done = team(hosts, "openmpi", "a b", "report", hosts.shared)
    finally:
        jobs.stop(process)
    assert done.returncode == 3 and done.stdout == ""
    assert "the job runs still" in done.stderr


def test_a_directory_that_is_not_shared(jobs_dumps, hosts, tmp_path):
    hosts.deal(jobs_dumps["real"], ["a", "b"])
    other = tmp_path / "other"
    other.mkdir()
    (hosts.folder / "b" / "shared").mkdir()
    (hosts.folder / "b" / "over").write_text(str(hosts.shared), encoding="utf-8")
    for stub in sorted(hosts.shared.glob("*.stub"))[1:]:
        (hosts.folder / "b" / "shared" / stub.name).write_bytes(stub.read_bytes())
    done = team(hosts, "openmpi", "a b", "summary", hosts.shared)
    assert done.returncode == 3 and done.stdout == ""
    assert "the processes see different dumps" in done.stderr and " that were not collected" in done.stderr


def test_lenders_hear_of_wrong_usage(jobs_dumps, hosts):
    hosts.deal(jobs_dumps["real"], ["a", "b"])
    done = team(hosts, "openmpi", "a b", "timeline", hosts.shared)
    assert done.returncode == 2 and done.stderr.count("needs -o FILE") == 1


def test_who_fails_at_the_meeting_ends_all(jobs_dumps, hosts):
    hosts.deal(jobs_dumps["real"], ["a", "b"])
    jobs.need_mpi("openmpi")
    program, nowhere = jobs.BUILD / "commtap-mpi.openmpi", hosts.folder / "nowhere"
    done = run(["mpirun.openmpi", "-n", "1", *hosts.on("a b", program, "summary", hosts.shared), ":", "-n", "1",
                *hosts.on("a b", program, "summary", nowhere)])
    assert done.returncode == 3 and done.stdout == ""
    assert f"{nowhere}: No such file" in done.stderr
