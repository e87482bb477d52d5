# SPDX-License-Identifier: Apache-2.0
#
# However a job ends, what it did before is on disk and sound.
# Must not live here: torn writes at random moments (test/crash*).
import os
import signal
import time

import pytest

import jobs

RANKS = 3
CALLS = 50  # Allreduces before the end


def wait_until(condition, seconds=30):
    """Waits for something another process does; false when it never comes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def wait_for_all_ranks(process):
    """Each rank prints "ready" when it has made its calls; launchers may mix the lines of several ranks."""
    said = process.stdout.read(RANKS * len("ready\n"))
    assert sorted(said) == sorted(RANKS * "ready\n")


def allreduces(result):
    return sum(row["count"] for row in result["summary"] if row["op"] == "MPI_Allreduce")


def assert_nothing_was_lost(where, ranks=RANKS):
    assert len(jobs.dumps(where)) == ranks
    assert jobs.commtap("check", where).returncode == 0
    result = jobs.report(where)
    assert result["job"]["ranks_seen"] == result["job"]["ranks_expected"] == ranks
    assert allreduces(result) == ranks * CALLS


@pytest.mark.parametrize("ending", ["proper", "kill", "terminate", "segv", "exit-now", "exit", "abort", "no-finalize"])
def test_all_calls_survive(mpi, ending, where):
    done = jobs.run(mpi, RANKS, [jobs.program(mpi, "ending"), ending], where, check=ending == "proper")
    assert_nothing_was_lost(where)
    if ending in ("exit-now", "no-finalize"):  # a process that leaves so looks like a killed one: it is said to be either
        killed = [finding["text"] for finding in jobs.report(where)["findings"] if finding["code"] == "killed"]
        assert killed and all("killed, crashed or left by _exit()" in text for text in killed)


def test_commtap_run_keeps_the_exit_code(mpi, where):
    without = jobs.run(mpi, RANKS, [jobs.program(mpi, "ending"), "abort"], None, way="none", check=False)
    done = jobs.run(mpi, RANKS, [jobs.program(mpi, "ending"), "abort"], where, way="run", check=False)
    assert done.returncode == without.returncode != 0
    assert_nothing_was_lost(where)


def test_a_hung_job_killed_from_outside(mpi, where):
    process = jobs.start(jobs.job_line(mpi, RANKS, [jobs.program(mpi, "ending"), "hang"], where))
    wait_for_all_ranks(process)
    jobs.stop(process)
    assert_nothing_was_lost(where)


def test_hang_in_init_leaves_a_dump(mpi, where):
    line = jobs.job_line(mpi, RANKS, [jobs.program(mpi, "ending"), "hang-in-init", "2"], where)
    process = jobs.start(line)
    try:
        assert wait_until(lambda: len(jobs.dumps(where)) == RANKS - 1)
    finally:
        jobs.stop(process)
    assert len(jobs.dumps(where)) == RANKS - 1  # rank 2 never came to MPI_Init
    jobs.commtap("check", where)
    result = jobs.report(where)
    assert result["job"]["ranks_seen"] == RANKS - 1
    assert result["job"]["ranks_expected"] == RANKS
    assert "MPI_Init" in jobs.commtap("report", where).stdout


def test_one_rank_killed_from_outside(where):
    """A SIGKILL from outside at a moment nobody chose: the rank waits in a barrier or sleeps."""
    line = jobs.job_line("mpich", RANKS, [jobs.program("mpich", "ending"), "hang"], where)
    process = jobs.start(line)
    wait_for_all_ranks(process)
    ranks = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_rank_of(pid, where)]
    os.kill(ranks[0], signal.SIGKILL)
    process.communicate(timeout=60)
    assert_nothing_was_lost(where)


def is_rank_of(pid, where):
    try:
        with open(f"/proc/{pid}/environ", "rb") as variables, open(f"/proc/{pid}/cmdline", "rb") as command:
            return f"COMMTAP_DIR={where}".encode() in variables.read() and b"/ending\0" in command.read()
    except OSError:
        return False


def test_ranks_that_all_return_from_main_without_finalize_are_not_dead(where):
    """Nobody waited for anybody: what the program lacks is MPI_Finalize, which is said. Hydra kills who is still there
    when the first process goes so, perhaps in its last call: a shell stays for each until both have returned."""
    jobs.need_mpi("mpich")
    returns = f"{jobs.program('mpich', 'ending')} return; sleep 2"
    jobs.run("mpich", 2, ["sh", "-c", returns], where, check=False)
    codes = {finding["code"] for finding in jobs.report(where)["findings"]}
    assert "no_finalize" in codes and "dead_rank" not in codes
    result = jobs.document("diagnose", where, codes=range(6))
    assert result["verdict"] == "unknown" and result["culprits"] == [], result
    assert "all processes exited, not all of them by way of MPI_Finalize" in result["text"][0]
