# SPDX-License-Identifier: Apache-2.0
#
# Dumps on file systems that are full, fill up, or share blocks with a copy: the job is the same as without commtap, and
# what is lost or staged is said. filesystems.py plays the runs; `make check-filesystems RUNS=n` makes more of them.
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import filesystems
import jobs

WHY_NOT = filesystems.why_not()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


def play(kind, phase, mpi, staging="room"):
    """One run; whatever the file system, the job is unharmed and nothing is lost without a word."""
    run = filesystems.runs_of(kind, phase, mpi, staging)[0]
    if "cannot" in run:
        pytest.skip(f"{kind} cannot be mounted here: {run['cannot']}")
    assert filesystems.harm(run) == {}
    assert filesystems.unsaid(run) == []
    assert run["without"]["returncode"] == 0
    return run


def is_staged(run):
    return len(run["staged"]) == 2 and not any(name.endswith(".ct") for name in run["left"])


@pytest.mark.parametrize("kind, mpi", [*((kind, "openmpi") for kind in filesystems.FILE_SYSTEMS), ("btrfs", "mpich"),
                                       ("ext4", "mpich")])
def test_fills_up_while_tables_grow(kind, mpi):
    """In place only where a store needs no new block. Elsewhere all of it stays on the node until there is room."""
    run = play(kind, "growing", mpi)
    suffixes = {pathlib.Path(name).suffix for name in run["present"]}
    if kind in filesystems.IN_PLACE:
        assert suffixes == {".ct"}
        assert run["dumps"]["tables_in_memory"] > 0
        assert len(run["said"]) == 1 and "found no room" in run["said"][0]
    else:
        assert suffixes == {".stub"} and len(run["present"]) == 2
        assert is_staged(run) and len(run["stubs"]) == 2
        assert filesystems.is_whole(run)
        assert len(run["said"]) == 1 and "commtap-collect" in run["said"][0]


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_somebody_empties_the_files_of_a_running_job(mpi):
    """Where dumps are staged nobody writes into what lies in the output directory: nothing is lost."""
    run = play("overlay", "emptied", mpi)
    assert {pathlib.Path(name).suffix for name in run["present"]} == {".stub"}
    assert filesystems.is_whole(run) and run["said"] == []


@pytest.mark.parametrize("kind, mpi", zip(filesystems.SHARES_BLOCKS, ("mpich", "openmpi")))
def test_fills_up_after_a_copy_that_shares_blocks(kind, mpi):
    run = play(kind, "copied", mpi)
    assert is_staged(run) and filesystems.is_whole(run)


@pytest.mark.parametrize("kind, phase", [*((kind, "full") for kind in filesystems.FILE_SYSTEMS), ("btrfs", "nowhere"),
                                         ("ext4", "nowhere")])
def test_full_from_the_start(kind, phase):
    """Room for a stub may be left (btrfs keeps some for names), else the line on stderr is the pointer."""
    run = play(kind, phase, "mpich")
    assert is_staged(run)
    said = "\n".join(run["said"])
    assert len(run["stubs"]) == 2 or any(f"the dump is {path} on " in said for path in run["staged"])
    assert len(run["said"]) == 1


@pytest.mark.parametrize("kind", ["ext4", "btrfs"])
def test_no_room_on_the_node_either(kind):
    """Kept in memory, which is said at the start; with the disk still full at the end, so is the loss."""
    run = play(kind, "full", "mpich", "none")
    assert run["staged"] == [] and run["stubs"] == [] and run["left"] == []
    assert len(run["said"]) == 2
    assert "kept in memory" in run["said"][0] and "it is lost" in run["said"][1]


def test_memory_reaches_the_disk_where_there_is_room_again():
    run = play("overlay", "freed", "mpich", "none")
    assert filesystems.is_whole(run) and len(run["left"]) == 2
    assert len(run["said"]) == 1 and "kept in memory" in run["said"][0]
    assert "kept_in_memory" in run["findings"]


def test_tables_reach_the_dump_where_there_is_room_again():
    run = play("ext4", "freed", "mpich")
    assert {pathlib.Path(name).suffix for name in run["present"]} == {".ct"}
    assert filesystems.is_whole(run) and run["said"] == []


def test_nothing_stays_mounted_when_the_run_is_killed():
    def loops():
        return subprocess.run(["losetup", "--list", "--noheadings", "--output", "NAME"], capture_output=True,
                              text=True, check=True).stdout.split()

    before = loops()
    process = subprocess.Popen([sys.executable, "-c", "import filesystems; filesystems.runs_of('xfs', 'growing', 'mpich',"
                                " 'room', 1000)"], cwd=pathlib.Path(__file__).parent, start_new_session=True)
    for _ in range(300):
        if len(loops()) > len(before):
            break
        time.sleep(0.1)
    assert len(loops()) > len(before)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(300):
        if len(loops()) <= len(before):
            return
        time.sleep(0.1)
    assert loops() == before
