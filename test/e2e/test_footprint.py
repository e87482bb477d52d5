# SPDX-License-Identifier: Apache-2.0
#
# What a rank leaves behind on the disk: little, where it made few calls, however it ended and wherever its dump lies.
# Must not live here: full disks (test_filesystems.py).
import pathlib
import subprocess
import tempfile
import time

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


# ---- bounds that the user sets ---------------------------------------------------------------------------------------


def test_totals_alone(mpi, tmp_path):
    """The same sums with and without records; what cannot be told without is said, and nothing is made up."""
    reports = {}
    for keep in ("all", "summary"):
        jobs.run(mpi, 2, [jobs.program(mpi, "train"), "--steps", "100"], tmp_path / keep, knobs={"COMMTAP_KEEP": keep})
        reports[keep] = jobs.report(tmp_path / keep)
    assert jobs.seen(reports["summary"]) == jobs.seen(reports["all"])
    assert reports["all"]["job"]["events"] > 0 and reports["summary"]["job"]["events"] == 0
    assert jobs.records(tmp_path / "summary") == []
    codes = {keep: {finding["code"] for finding in reports[keep]["findings"]} for keep in reports}
    assert "records_not_kept" in codes["summary"] and "records_not_kept" not in codes["all"]
    assert "no_collectives" not in codes["summary"] and reports["summary"]["stragglers"] == []
    assert all(row["wait_seconds"] is None for row in reports["summary"]["ranks"])
    for command in ("summary", "stragglers", "steps", "calls", "diagnose", "check"):
        jobs.document(command, tmp_path / "summary")
        jobs.commtap(command, tmp_path / "summary")


def test_a_hang_is_named_from_totals_alone(mpi, tmp_path):
    line = jobs.job_line(mpi, 4, [jobs.program(mpi, "churn"), "hang", "5"], tmp_path, knobs={"COMMTAP_KEEP": "summary"})
    process = jobs.start(line)
    try:
        verdict = wait_for_hang(tmp_path, 4)
    finally:
        jobs.stop(process)
    assert [culprit["rank"] for culprit in verdict["culprits"]] == [1]


def wait_for_hang(where, ranks):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if len(jobs.dumps(where)) == ranks:
            verdict = jobs.document("diagnose", where, codes=(0, 1))
            if verdict["verdict"] == "hang" and verdict["culprits"]:  # not one that has no processor for a second
                return verdict
        time.sleep(0.3)
    raise AssertionError("no hang was seen")


def test_a_quota_is_shared_by_the_ranks(mpi, tmp_path):
    quota = 400 << 10
    jobs.run(mpi, 2, [jobs.program(mpi, "churn"), "self", "15000"], tmp_path / "free")
    jobs.run(mpi, 2, [jobs.program(mpi, "churn"), "self", "15000"], tmp_path / "bound", knobs={"COMMTAP_QUOTA": "400K"})
    free, bound = ([on_disk(dump) for dump in jobs.dumps(tmp_path / way)] for way in ("free", "bound"))
    assert sum(free) > quota and sum(bound) <= quota and max(bound) <= quota // 2
    said = [jobs.report(tmp_path / way) for way in ("free", "bound")]
    assert jobs.seen(said[0]) == jobs.seen(said[1])
    checks = [jobs.document("check", tmp_path / way)["losses"] for way in ("free", "bound")]
    assert checks[0]["quota_refusals"] == 0 < checks[1]["quota_refusals"]
    assert "COMMTAP_QUOTA" in jobs.commtap("report", tmp_path / "bound").stdout


def test_a_quota_counts_what_makes_the_dump_grow(mpi, tmp_path):
    """Ever new sizes, communicators, stacks: each table that is added takes a page for its length, too. A thread that
    comes when the quota is used up gets 16 KB: growing has seven more than the first, the shared lane's included."""
    go = tmp_path / "go"
    go.touch()
    jobs.run(mpi, 2, [jobs.program(mpi, "growing"), str(go), "10"], tmp_path / "d", knobs={"COMMTAP_QUOTA": "800K"})
    for dump in jobs.dumps(tmp_path / "d"):
        assert on_disk(dump) <= (400 + 7 * 16) << 10


def test_calls_without_room_are_said_to_be_in_no_total(mpi, tmp_path):
    """A quota that is far too small: the user reads it on stderr, and as the report's finding."""
    done = jobs.run(mpi, 2, [jobs.program(mpi, "churn"), "self", "2000"], tmp_path, knobs={"COMMTAP_QUOTA": "4K"})
    lost = jobs.document("check", tmp_path)["losses"]["operations_lost"]
    assert lost > 0 and done.stderr.count("calls are in no total") == 1 and "COMMTAP_QUOTA" in done.stderr
    found = [finding for finding in jobs.report(tmp_path)["findings"] if finding["code"] == "totals_incomplete"]
    assert len(found) == 1 and f"{lost} calls are in no total" in found[0]["text"]


def test_children_leave_no_more_dumps_than_allowed(mpi, tmp_path):
    done = jobs.run(mpi, 1, [jobs.program(mpi, "children"), "forked", "8"], tmp_path, knobs={"COMMTAP_CHILDREN": "3"})
    assert len(jobs.dumps(tmp_path)) == 1 + 3
    assert done.stderr.count("COMMTAP_CHILDREN") == 1
    assert jobs.document("check", tmp_path)["losses"]["children_unrecorded"] == 8 - 3


def test_children_that_only_fork_leave_nothing(mpi, tmp_path):
    jobs.run(mpi, 1, [jobs.program(mpi, "children"), "cloned", "20"], tmp_path)
    assert len(jobs.dumps(tmp_path)) == 1
