# SPDX-License-Identifier: Apache-2.0
#
# commtap-mpi: several processes come to what commtap comes to, see when they cannot, and are recorded by nobody.
# Lives here: both MPIs, one real job, one generated. Must not live here: what a command says of a job.
import glob
import os
import shutil
import subprocess
import threading
import time

import pytest

import jobs

MPIS = ["openmpi", "mpich"]
# COMMTAP_MPI_COUNTS="1 2 3 4 8" tries all commands with all these numbers of processes: a few minutes.
COUNTS = [int(count) for count in os.environ.get("COMMTAP_MPI_COUNTS", "").split()]
COMMANDS = {
    "report": ["report", "--format", "json"],
    "summary": ["summary"],
    "stragglers": ["stragglers", "--format", "json"],
    "steps": ["steps", "--format", "json"],
    "diagnose": ["diagnose", "--format", "json"],
    "links": ["links", "--format", "json"],
    "calls": ["calls"],
}
# Each launch takes most of a second: together they see each command, each number of processes and each MPI.
FEW = [("openmpi", "report", 2, "real"), ("mpich", "report", 3, "generated"), ("mpich", "stragglers", 2, "real"),
       ("openmpi", "steps", 3, "real"), ("mpich", "steps", 3, "generated"), ("mpich", "summary", 3, "real"),
       ("openmpi", "diagnose", 1, "real")]
ALL = [(mpi, command, count, job) for mpi in MPIS for command in COMMANDS for count in COUNTS
       for job in ("real", "generated")]


def run_team(mpi, *parts, environment=None, timeout=60):
    """commtap-mpi as (processes, words) in each of `parts`, all in one job."""
    jobs.need_mpi(mpi)
    line = [f"mpirun.{mpi}"]
    for count, words in parts:
        line += ([":"] if len(line) > 1 else []) + ["-n", str(count), str(jobs.BUILD / f"commtap-mpi.{mpi}"), *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=timeout, check=False,
                          env={**jobs.clean_environment(), **(environment or {})})


@pytest.fixture(scope="module", name="dumps")
def _dumps(tmp_path_factory):
    jobs.need_mpi("mpich")
    folder = tmp_path_factory.mktemp("team")
    real, generated = folder / "real", folder / "generated"
    jobs.run("mpich", 4, [jobs.program("mpich", "ordered")], real)
    generated.mkdir()
    subprocess.run([str(jobs.BUILD / "test" / "bench" / "dumps"), str(generated), "5", "4096"], check=True,
                   capture_output=True, timeout=60)
    return {"real": real, "generated": generated}


@pytest.mark.parametrize("mpi,command,count,job", ALL or FEW)
def test_several_processes_write_what_one_writes(dumps, mpi, command, count, job):
    words = [*COMMANDS[command], str(dumps[job])]
    alone = jobs.commtap(*words)
    team = run_team(mpi, (count, words))
    assert (team.returncode, team.stderr) == (alone.returncode, alone.stderr)
    assert team.stdout == alone.stdout


def is_mapped(path):
    for maps in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(maps, encoding="utf-8", errors="replace") as lines:
                if any(str(path) in line for line in lines):
                    return True
        except OSError:
            continue
    return False


def truncate_while_read(path):
    """As soon as a process has it before it, which reads it from one end to the other."""
    end = time.monotonic() + 30
    while not is_mapped(path) and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.1)
    os.truncate(path, 70000)


@pytest.mark.parametrize("mpi,count", [("openmpi", 2), ("mpich", 3)])
def test_a_dump_that_is_truncated_while_processes_read_it_is_read_again(tmp_path, mpi, count):
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    subprocess.run([str(jobs.BUILD / "test" / "bench" / "dumps"), str(dumps), "8", "65536"], check=True,
                   capture_output=True, timeout=60)
    vandal = threading.Thread(target=truncate_while_read, args=(sorted(dumps.glob("*.ct"))[5],))
    vandal.start()
    team = run_team(mpi, (count, ["report", str(dumps)]))
    vandal.join()
    assert team.returncode == 0, team.stderr
    assert "was truncated while it was read: everything is read again" in team.stderr
    assert team.stdout == jobs.commtap("report", str(dumps)).stdout


@pytest.mark.parametrize("mpi", MPIS)
def test_processes_that_see_different_dumps_say_so(dumps, tmp_path, mpi):
    fewer = tmp_path / "fewer"
    shutil.copytree(dumps["real"], fewer)
    spoilt = sorted(fewer.glob("*.ct"))[0]
    os.truncate(spoilt, 100)
    team = run_team(mpi, (1, ["report", str(dumps["real"])]), (1, ["report", str(fewer)]))
    assert team.returncode == 3 and team.stdout == ""
    assert "the processes see different dumps" in team.stderr
    assert "process 0 on " in team.stderr and " sees 4 dumps" in team.stderr and " sees 3 dumps" in team.stderr
    assert spoilt.name in team.stderr  # which one it could not read


def test_one_process_that_fails_ends_all(dumps, tmp_path):
    nowhere = str(tmp_path / "nowhere")
    team = run_team("mpich", (1, ["report", str(dumps["real"])]), (2, ["report", nowhere]))
    assert team.returncode == 3 and team.stdout == ""
    assert "process 1 on " in team.stderr and f"{nowhere}: No such file" in team.stderr
    assert "memory" not in team.stderr


def test_what_is_for_one_process_is_refused(dumps):
    team = run_team("mpich", (2, ["pack", str(dumps["real"])]))
    assert team.returncode == 2 and team.stderr.count("pack is for one process: commtap pack") == 1
    assert not list(dumps["real"].glob("*.ctz"))


@pytest.mark.parametrize("mpi", MPIS)
def test_it_is_never_recorded(tmp_path, mpi):
    team = run_team(mpi, (2, ["--version"]),
                    environment={"LD_PRELOAD": str(jobs.SHIM), "COMMTAP_DIR": str(tmp_path / "record")})
    assert team.returncode == 0 and team.stdout.startswith("commtap-mpi ") and team.stdout.count("\n") == 1
    assert " 2 processes, " in team.stdout
    assert not list(tmp_path.rglob("*.ct*"))
