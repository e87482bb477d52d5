# SPDX-License-Identifier: Apache-2.0
#
# Dumps for a directory that cannot hold mapped files are staged on the node, and come home one way or the other.
# Must not live here: a real second host (a wrapper plays ssh).
import os
import pathlib
import subprocess
import uuid

import pytest

import jobs

COLLECT = jobs.ROOT / "scripts" / "commtap-collect"


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


def write_stub(directory, number, **says):
    lines = "".join(f"{key}={value}\n" for key, value in says.items())
    (directory / f"commtap.run.{number:016x}.stub").write_text(lines)


def test_collect_asks_hosts_and_reports_what_is_missing(tmp_path):
    here = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    out, node = tmp_path / "out", tmp_path / "node with a blank"
    out.mkdir()
    node.mkdir()
    (node / "first").write_text("first dump")
    asked = tmp_path / "asked"
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$1" >>"{asked}"\nshift\nexec sh -c "$*"\n')
    ssh.chmod(0o755)
    gone = 4194304  # above any pid
    write_stub(out, 1, host="local", boot_id=here, path=node / "first", pid=gone, rank=0)
    write_stub(out, 2, host="local", boot_id=here, path=node / "second", pid=gone, rank=1)
    write_stub(out, 3, host="far1", boot_id=uuid.uuid4(), path=node / "first", pid=gone, rank=2)
    write_stub(out, 4, host="-oProxyCommand=harm", boot_id=uuid.uuid4(), path=node / "first", pid=gone, rank=3)
    done = subprocess.run([str(COLLECT), "--ssh", str(ssh), str(out)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "1 of 4" in done.stdout
    assert (out / "commtap.run.0000000000000001.ct").read_text() == "first dump"
    assert sorted(path.name[-6:] for path in out.glob("*.stub")) == ["2.stub", "3.stub", "4.stub"]
    for rank in (1, 2, 3):
        assert f"rank {rank} on" in done.stderr
    assert "rebooted" in done.stderr
    assert all(not host.startswith("-") for host in asked.read_text().splitlines())
    assert (node / "first").exists()


def test_collect_without_stubs_is_fine(tmp_path):
    assert subprocess.run([str(COLLECT), str(tmp_path)]).returncode == 0
    assert subprocess.run([str(COLLECT), str(tmp_path / "nowhere")], capture_output=True).returncode == 2
