# SPDX-License-Identifier: Apache-2.0
#
# Dumps for a directory that cannot hold mapped files are staged on the node, and come home one way or the other.
# Must not live here: stubs made by hand (test_collect.py).
import os
import pathlib
import re
import shlex
import subprocess
import time

import pytest

import jobs
from staged import COLLECT



@pytest.fixture
def shared(tmp_path):
    """A directory on a file system commtap does not map files on: ramfs plays the parallel file system."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    place = tmp_path / "shared"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "ramfs", "ramfs", str(place)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here: " + mounted.stderr.strip())
    yield place
    for stub in stubs(place / "dumps").values():
        pathlib.Path(stub["path"]).unlink(missing_ok=True)
    subprocess.run(["umount", "-l", str(place)], check=True)


def stubs(directory):
    """Path of each stub -> what it says."""
    found = {}
    for path in pathlib.Path(directory).glob("commtap.*.stub"):
        found[path] = dict(line.split("=", 1) for line in path.read_text().splitlines())
    return found


def test_copied_at_exit(mpi, shared):
    jobs.run(mpi, 2, [jobs.program(mpi, "ending"), "proper"], shared / "dumps")
    assert len(jobs.dumps(shared / "dumps")) == 2
    assert jobs.report(shared / "dumps")["job"]["ranks_seen"] == 2


def test_killed_job_leaves_stubs_that_collect_brings_home(mpi, shared):
    where = shared / "dumps"
    jobs.run(mpi, 2, [jobs.program(mpi, "ending"), "kill"], where, check=False)
    left = stubs(where)
    assert left
    for stub in left.values():
        assert stub["boot_id"] == pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert pathlib.Path(stub["path"]).is_file()
    done = jobs.commtap("report", where, codes=(0, 3))
    assert "collect" in done.stdout + done.stderr  # says what is still to be fetched
    subprocess.run([str(COLLECT), "--remove", str(where)], check=True, capture_output=True, timeout=60)
    assert stubs(where) == {}
    assert not any(pathlib.Path(stub["path"]).exists() for stub in left.values())
    result = jobs.report(where)
    assert result["job"]["ranks_seen"] == 2
    assert sum(row["count"] for row in result["summary"] if row["op"] == "MPI_Allreduce") == 2 * 50


def test_commtap_run_brings_a_killed_job_home(mpi, shared):
    where = shared / "dumps"
    jobs.run(mpi, 2, [jobs.program(mpi, "ending"), "kill"], where, way="run", check=False)
    assert len(jobs.dumps(where)) == 2
    assert jobs.report(where)["job"]["ranks_seen"] == 2


def test_commtap_run_says_what_it_could_not_collect(mpi, shared):
    """Directories stand where the dumps belong: what was staged stays there, and is not taken for a job without MPI."""
    where = shared / "dumps"
    line = jobs.job_line(mpi, 2, [jobs.program(mpi, "ending"), "kill"], where, way="run")
    after = line.index("--") + 1
    block = f"for stub in {where}/*.stub; do mkdir ${{stub%.stub}}.ct ${{stub%.stub}}.ct/in; done"
    process = jobs.start([*line[:after], "sh", "-c", f"{shlex.join(map(str, line[after:]))}; {block}"])
    said = process.communicate(timeout=120)[1]
    assert "no process called MPI" not in said
    assert "2 left where they were staged" in said and "next: commtap collect" in said
    assert [f["code"] for f in jobs.report(where)["findings"]].count("uncollected") == 1
    assert "2 dumps lie where they were staged" in jobs.commtap("check", where, codes=(1,)).stdout
    assert len(stubs(where)) == 2


def test_live_job_is_collected_and_delivers_all_the_same(mpi, shared):
    """Ranks hang and are collected; then they are killed and collected again: the later copy is in the earlier's place."""
    where = shared / "dumps"
    process = jobs.start(jobs.job_line(mpi, 2, [jobs.program(mpi, "ending"), "hang"], where))
    try:
        deadline = time.monotonic() + 60
        while len(stubs(where)) < 2 or not all(stub.get("rank", "") for stub in stubs(where).values()):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        for _ in range(2):
            done = subprocess.run([str(COLLECT), "--remove", str(where)], check=True, capture_output=True, timeout=60, text=True)
            assert "2 of them are still written to" in done.stdout
            assert len(stubs(where)) == 2 and len(jobs.dumps(where)) == 2
        assert jobs.report(where)["job"]["ranks_seen"] == 2
    finally:
        jobs.stop(process)
    deadline = time.monotonic() + 20
    while stubs(where) and time.monotonic() < deadline:  # ranks may outlive their launcher for a moment
        subprocess.run([str(COLLECT), "--remove", str(where)], check=True, capture_output=True, timeout=60)
    assert stubs(where) == {} and len(jobs.dumps(where)) == 2
    assert jobs.report(where)["job"]["ranks_seen"] == 2


def test_dumps_that_nothing_points_to_are_found_by_run(tmp_path):
    """On a disk without a single free block the dumps are staged, and there is no room for a pointer to them either."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    jobs.need_mpi("mpich")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", place], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here: " + mounted.stderr.strip())
    try:
        (place / "dumps").mkdir()
        with pytest.raises(OSError), open(place / "full", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        line = jobs.launch_line("mpich", 2, [jobs.program("mpich", "ending"), "proper"], {})
        said = subprocess.run([jobs.COMMTAP, "run", "-o", place / "dumps", "--", *line], capture_output=True, text=True,
                              env=jobs.clean_environment(), timeout=120).stderr
        told = re.search(r"2 of this job are in (\S+) of this host; next: commtap (report --run \S+ \S+)\n", said)
        assert told, said
        words = told[2].split()
        assert jobs.document(*words)["job"]["ranks_seen"] == 2
        assert "commtap collect" not in jobs.commtap(*words).stdout  # there is nothing that it could go by
        for path in pathlib.Path(told[1]).glob(f"commtap.{words[2]}.*"):
            path.unlink()
    finally:
        subprocess.run(["umount", "-l", place], check=True)
