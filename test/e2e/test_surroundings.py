# SPDX-License-Identifier: Apache-2.0
#
# A job runs as before whatever its surroundings: full disk, read-only directory, unknown user, odd variables.
# Must not live here: how the job itself ends (test_endings.py).
import os
import pathlib
import resource
import stat
import subprocess
import uuid

import pytest

import jobs

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def tmpfs(tmp_path):
    """Mounts a tmpfs with the options given and hands out its path."""
    place = tmp_path / "tmpfs"

    def mount(options):
        place.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True,
                                 text=True)
        if mounted.returncode != 0:
            pytest.skip("mounting a tmpfs is not allowed here: " + mounted.stderr.strip())
        return place

    yield mount
    if os.path.ismount(place):
        subprocess.run(["umount", "-l", str(place)], check=True)


def assert_job_is_untouched(mpi, where, tmp_path, ranks=2, **how):
    """The job's results are as without, and at most one line was said about the trouble; that line or ''."""
    ledgers = tmp_path / "ledgers"
    ledgers.mkdir()
    command = [jobs.program(mpi, "collectives")]
    done = jobs.run(mpi, ranks, command, where, environment={"EXPECT_DIR": str(ledgers)}, **how)
    assert jobs.ledger(ledgers)[1] == jobs.digests_without(mpi, ranks, tuple(command), str(tmp_path / "without"))
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("commtap")]
    assert len(lines) <= 1, done.stderr
    return lines[0] if lines else ""


@pytest.fixture
def run_id():
    """A run's name by which to find what it staged; removed afterwards."""
    name = f"surroundings-{uuid.uuid4().hex}"
    yield name
    for place in ("/dev/shm", "/tmp", "/var/tmp"):
        for path in pathlib.Path(place).glob(f"commtap.{name}.*"):
            path.unlink()


@needs_root
def test_full_disk(mpi, tmpfs, tmp_path, run_id):
    line = assert_job_is_untouched(mpi, tmpfs("size=48k") / "dumps", tmp_path, knobs={"COMMTAP_RUN_ID": run_id})
    assert run_id in line  # said once, by one rank: where the dumps are


@needs_root
def test_disk_with_room_for_some(mpi, tmpfs, tmp_path, run_id):
    assert_job_is_untouched(mpi, tmpfs("size=8m") / "dumps", tmp_path, ranks=4, knobs={"COMMTAP_RUN_ID": run_id})


def test_directory_that_cannot_be_made(mpi, tmp_path):
    (tmp_path / "file").write_text("in the way\n")
    line = assert_job_is_untouched(mpi, tmp_path / "file" / "dumps", tmp_path)
    assert line
    assert (tmp_path / "file").read_text() == "in the way\n"


@needs_root
def test_read_only_directory(mpi, tmpfs, tmp_path):
    assert assert_job_is_untouched(mpi, tmpfs("ro,size=1m"), tmp_path)


@needs_root
def test_unknown_user(mpi, tmp_path):
    """A uid without a passwd entry, as in many containers; the job's directory is the user's own."""
    home = tmp_path / "home"
    home.mkdir()
    if not all(parent.stat().st_mode & stat.S_IXOTH for parent in [jobs.BUILD, *jobs.BUILD.parents]):
        pytest.skip("the build directory is not reachable for other users")
    for parent in [tmp_path, *tmp_path.parents]:
        parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
    os.chown(home, 54321, 54321)
    line = jobs.job_line(mpi, 2, [jobs.program(mpi, "ending"), "proper"], home / "dumps")
    environment = {**jobs.clean_environment(), "HOME": str(home), "TMPDIR": str(home)}
    done = subprocess.run(line, user=54321, group=54321, extra_groups=[], env=environment, cwd=home, timeout=60,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(jobs.dumps(home / "dumps")) == 2
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in jobs.dumps(home / "dumps"))
    assert jobs.report(home / "dumps")["job"]["ranks_seen"] == 2


def test_processes_that_never_communicate_leave_nothing(mpi, tmp_path):
    place = tmp_path / "cwd"
    place.mkdir()
    environment = {**jobs.clean_environment(), "LD_PRELOAD": str(jobs.SHIM)}
    for command in (["/bin/true"], [jobs.program(mpi, "ending"), "no-init"], ["/bin/sh", "-c", "ls >/dev/null"]):
        done = subprocess.run(command, env=environment, cwd=place, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    assert list(place.iterdir()) == []


def test_default_directory_is_made_beside_the_job(mpi, tmp_path):
    place = tmp_path / "cwd"
    place.mkdir()
    line = jobs.launch_line(mpi, 2, [jobs.program(mpi, "ending")], {"LD_PRELOAD": str(jobs.SHIM)})
    subprocess.run(line, env=jobs.clean_environment(), cwd=place, check=True, capture_output=True, timeout=60)
    made = list(place.iterdir())
    assert len(made) == 1 and made[0].name.startswith("commtap-")
    assert len(jobs.dumps(made[0])) == 2


def test_switched_off(mpi, where, tmp_path):
    line = assert_job_is_untouched(mpi, where, tmp_path, knobs={"COMMTAP_ENABLE": "0"})
    assert line == ""
    assert not where.exists()


def test_unknown_variable_is_warned_about_once(mpi, where, tmp_path):
    line = assert_job_is_untouched(mpi, where, tmp_path, knobs={"COMMTAP_RIGN": "1024"})
    assert "COMMTAP_RIGN" in line and "COMMTAP_RING" in line
    assert len(jobs.dumps(where)) == 2


@pytest.mark.parametrize("knob, value, said", [
    ("COMMTAP_RING", "many", "not understood"),
    ("COMMTAP_RING", "999999999999", "more than 16M"),
    ("COMMTAP_RING", "1000", "power of two"),
    ("COMMTAP_STACK_DEPTH", "0", "from 1 to 1024"),
    ("COMMTAP_OPS", "all*,[[[", "no function"),
    ("COMMTAP_OPS", "all*,!", "no function"),
    ("COMMTAP_VERBOSE", "ranks:zz", "not understood"),
    ("COMMTAP_VERBOSE", "ranks:1-", "not understood"),
    ("COMMTAP_GPU_TIMING", "perhaps", "not understood"),
    ("COMMTAP_REGION", "nvtx:", "not understood"),
    ("COMMTAP_STACK", "deep", "none of")])
def test_bad_values_do_no_harm_and_are_said_once(knob, value, said, mpi, where, tmp_path):
    line = assert_job_is_untouched(mpi, where, tmp_path, knobs={knob: value})
    assert knob in line and said in line and len(line.splitlines()) == 1
    assert len(jobs.dumps(where)) == 2


@pytest.mark.parametrize("knob, value", [("COMMTAP_RING", "16"), ("COMMTAP_RING", "1k"), ("COMMTAP_STACK_DEPTH", "1024"),
                                         ("COMMTAP_OPS", "!all*,,B?ast"), ("COMMTAP_VERBOSE", "ranks:7,8-12"),
                                         ("COMMTAP_VERBOSE", ""), ("COMMTAP_GPU_TIMING", "host")])
def test_good_values_are_not_spoken_of(knob, value, mpi, where, tmp_path):
    assert assert_job_is_untouched(mpi, where, tmp_path, knobs={knob: value}) == ""


def test_small_ring_counts_all_calls_and_says_what_it_lost(mpi, where, tmp_path):
    jobs.run(mpi, 2, [jobs.program(mpi, "communicators"), "500"], where, knobs={"COMMTAP_RING": "64"})
    result = jobs.report(where)
    allreduces = sum(row["count"] for row in result["summary"] if row["op"] == "MPI_Allreduce")
    assert allreduces > 2 * 500
    job = result["job"]
    assert job["events_lost"] > 0
    for finding in result["findings"]:
        coverage = finding["coverage"]
        assert coverage["ranks_seen"] == 2
        if coverage["evidence"] == "events":
            assert coverage["kept"] in ("rings", "rings and windows")
            assert coverage["events_share"] == pytest.approx(1 - job["events_lost"] / job["events"])
            assert "% of the events" in finding["text"]
        else:
            assert coverage["events_share"] is None
    assert "events_lost" in [finding["code"] for finding in result["findings"]]


def run_alone(mpi, where, **how):
    """One rank without a launcher: what becomes of it is what becomes of the process."""
    environment = {**jobs.clean_environment(), "LD_PRELOAD": str(jobs.SHIM), "COMMTAP_DIR": str(where),
                   "COMMTAP_VERBOSE": "all"}
    return subprocess.run([jobs.program(mpi, "pcontrol")], env=environment, stdout=subprocess.DEVNULL, timeout=60, **how)


def test_limit_on_the_size_of_files(mpi, where):
    """Reserving room above the limit brings SIGXFSZ, which ends a process. MPI's own files are smaller."""
    limit = 5000 * 1024
    done = run_alone(mpi, where, stderr=subprocess.DEVNULL,
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert done.returncode == 0


def test_a_limit_that_leaves_no_room_for_a_dump_is_named(where):
    """No file at all may be written. MPICH writes none of its own."""
    jobs.need_mpi("mpich")
    done = run_alone("mpich", where, stderr=subprocess.PIPE, text=True,
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)))
    said = [line for line in done.stderr.splitlines() if "kept in memory" in line]
    assert len(said) == 1 and "limit on the size of files (ulimit -f)" in said[0]


def test_nobody_reads_stderr(mpi, where):
    reader, writer = os.pipe()
    os.close(reader)
    done = run_alone(mpi, where, stderr=writer)
    os.close(writer)
    assert done.returncode == 0


def test_two_jobs_in_one_directory_are_not_mixed_up(mpi, where):
    for run_id in ("first", "second"):
        jobs.run(mpi, 2, [jobs.program(mpi, "ending")], where, knobs={"COMMTAP_RUN_ID": run_id})
    assert len(jobs.dumps(where)) == 4
    assert {path.name.split(".")[1] for path in jobs.dumps(where)} == {"first", "second"}
    result = jobs.report(where)
    assert result["job"]["run_id"] == "second"
    assert result["job"]["ranks_seen"] == 2
    assert sum(row["count"] for row in result["summary"] if row["op"] == "MPI_Allreduce") == 2 * 50
    text = jobs.commtap("report", where).stdout
    assert "2 runs" in text
    for run_id, noted in (([], True), (["--run", "first"], False)):  # the other one may be what hangs
        said = jobs.commtap("diagnose", *run_id, where).stderr
        assert ("2 runs lie here; this is the newest" in said and "--run shows another: first." in said) == noted


def test_a_lost_rank_is_said(mpi, where):
    jobs.run(mpi, 3, [jobs.program(mpi, "ending")], where)
    jobs.dumps(where)[0].unlink()
    result = jobs.report(where)
    assert (result["job"]["ranks_seen"], result["job"]["ranks_expected"]) == (2, 3)
    assert any(finding["text"] for finding in result["findings"])


def test_torn_and_foreign_files_are_named_and_the_rest_is_used(mpi, where):
    jobs.run(mpi, 3, [jobs.program(mpi, "ending")], where)
    torn = jobs.dumps(where)[0]
    with open(torn, "r+b") as file:
        file.truncate(5000)
    (where / "commtap.other.0123456789abcdef.ct").write_text("no dump at all")
    done = jobs.commtap("check", where, codes=(1, 3))
    said = done.stdout + done.stderr
    assert torn.name in said and "commtap.other.0123456789abcdef.ct" in said
    assert jobs.report(where)["job"]["ranks_seen"] == 2


def test_empty_and_missing_directories_are_unusable_input(tmp_path):
    for command in ("report", "summary", "check"):
        assert jobs.commtap(command, tmp_path, codes=(3,)).stderr
        assert jobs.commtap(command, tmp_path / "nowhere", codes=(3,)).stderr
