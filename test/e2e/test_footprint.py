# SPDX-License-Identifier: Apache-2.0
#
# What a rank leaves behind on the disk: little, where it made few calls, however it ended and wherever its dump lies.
# Must not live here: full disks (test_filesystems.py).
import pathlib
import subprocess
import tempfile

import pytest

import filesystems
import jobs

WHY_NO_MOUNTS = filesystems.why_not()
IDLE_MOST = 256 << 10  # bytes of an idle rank's dump


def on_disk(path):
    return path.stat().st_blocks * 512


@pytest.fixture(params=["/dev/shm", "/var/tmp"])
def place(request):
    """Memory and a disk; where a dump cannot be mapped it is a copy made at exit."""
    with tempfile.TemporaryDirectory(prefix="commtap-test-", dir=request.param) as directory:
        yield pathlib.Path(directory)


@pytest.mark.parametrize("ending", ["proper", "kill"])
def test_an_idle_rank_leaves_little(mpi, place, ending):
    jobs.run(mpi, 2, [jobs.program(mpi, "ending"), ending], place / "dumps", check=False)
    dumps = jobs.dumps(place / "dumps")
    if ending == "kill" and not dumps:
        pytest.skip("dumps cannot be mapped there")
    assert len(dumps) == 2
    for dump in dumps:
        assert 0 < on_disk(dump) <= IDLE_MOST
    assert jobs.summary(place / "dumps")["summary"]


@pytest.mark.skipif(WHY_NO_MOUNTS is not None, reason=str(WHY_NO_MOUNTS))
@pytest.mark.parametrize("kind", filesystems.FILE_SYSTEMS)
@pytest.mark.parametrize("ending", ["proper", "kill"])
def test_it_does_so_on_every_file_system(kind, ending):
    """Where dumps are staged: of the copy made at exit, or by commtap-collect."""
    result = filesystems.sizes_of(kind, "mpich", ending)
    if "cannot" in result:
        pytest.skip(f"{kind} cannot be mounted here: {result['cannot']}")
    assert len(result["collected"]) == 2
    assert max(result["left"] + result["staged"] + result["collected"]) <= IDLE_MOST


def test_records_take_what_they_need(tmp_path):
    sizes = {}
    for steps in (10, 1000):
        where = tmp_path / str(steps)
        jobs.run("openmpi", 2, [jobs.program("openmpi", "train"), "--steps", str(steps)], where)
        sizes[steps] = max(on_disk(dump) for dump in jobs.dumps(where))
    assert sizes[10] <= IDLE_MOST and sizes[10] < sizes[1000] < 2 * IDLE_MOST


def test_reading_a_dump_in_memory_does_not_fill_it(place):
    """On tmpfs, reading a hole by a mapping would take a page of memory for good."""
    jobs.run("openmpi", 2, [jobs.program("openmpi", "ending"), "proper"], place / "dumps")
    before = [on_disk(dump) for dump in jobs.dumps(place / "dumps")]
    for command in ("report", "check", "summary"):
        jobs.commtap(command, place / "dumps")
    assert [on_disk(dump) for dump in jobs.dumps(place / "dumps")] == before


def test_a_copy_without_holes_says_the_same(tmp_path):
    """Copies by tools that know no holes are longer, and are read all the same."""
    jobs.run("openmpi", 2, [jobs.program("openmpi", "ending"), "proper"], tmp_path / "dumps")
    (tmp_path / "copies").mkdir()
    for dump in jobs.dumps(tmp_path / "dumps"):
        subprocess.run(["cp", "--sparse=never", dump, tmp_path / "copies"], check=True)
    assert jobs.report(tmp_path / "copies") == jobs.report(tmp_path / "dumps")
