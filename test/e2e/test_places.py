# SPDX-License-Identifier: Apache-2.0
#
# Where dumps go, who may read them, and what they tell of whose job it was: COMMTAP_DIR with %, COMMTAP_MODE,
# COMMTAP_ARGV, job, user, date, directory, library.
# Must not live here: staging and collection (test_staging.py, test_collect.py), `commtap run` (test_run.py).
import datetime
import os
import pwd
import re
import shutil
import socket
import stat
import subprocess
import time

import pytest

import jobs
from staged import here, run_id  # noqa: F401


def ending(mpi, where, ranks=2, knobs=None, environment=None):
    return jobs.run(mpi, ranks, [jobs.program(mpi, "ending"), "proper"], where, knobs=knobs, environment=environment)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# ---- COMMTAP_DIR with % -------------------------------------------------------------------------------------------------


def test_job_user_host_and_rank_are_parts_of_the_directory(mpi, tmp_path):
    ending(mpi, tmp_path / "%j" / "%u" / "%h-%r", environment={"SLURM_JOB_ID": "4711", "USER": "ada"})
    below = tmp_path / "4711" / "ada"
    host = socket.gethostname()
    assert sorted(path.name for path in below.iterdir()) == [f"{host}-0", f"{host}-1"]
    assert all(len(jobs.dumps(path)) == 1 for path in below.iterdir())


def test_each_process_may_have_a_directory(mpi, tmp_path):
    ending(mpi, tmp_path / "of-%p")
    made = list(tmp_path.glob("of-*"))
    assert len(made) == 2 and all(path.name.removeprefix("of-").isdigit() for path in made)
    pids = {row["pid"] for path in made for row in jobs.document("check", path)["dumps"]}
    assert {f"of-{pid}" for pid in pids} == {path.name for path in made}


def test_what_is_not_known_is_x_or_a_number_and_two_percent_signs_are_one(mpi, tmp_path):
    unknown = {name: "" for name in ("USER", "LOGNAME", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")}
    ending(mpi, tmp_path / "%j-%u-100%%", environment=unknown)
    assert [path.name for path in tmp_path.iterdir()] == [f"x-{os.getuid()}-100%"]


def test_what_the_environment_says_cannot_lead_elsewhere(mpi, tmp_path):
    ending(mpi, tmp_path / "in" / "%u", environment={"USER": "../../etc", "SLURM_JOB_ID": "1"})
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["_._.._etc"]


def test_another_percent_sign_is_said_once_and_the_default_directory_is_used(mpi, tmp_path):
    line = jobs.job_line(mpi, 3, [jobs.program(mpi, "ending"), "proper"], tmp_path / "%q")
    process = jobs.start(line, cwd=tmp_path)
    _, errors = process.communicate(timeout=60)
    said = [text for text in errors.splitlines() if text.startswith("commtap")]
    assert process.returncode == 0 and len(said) == 1, errors
    assert "stands for nothing" in said[0] and "%q" in said[0] and "./commtap-" in said[0]
    made, = tmp_path.iterdir()
    assert made.name.startswith("commtap-") and len(jobs.dumps(made)) == 3


# ---- who may read them ---------------------------------------------------------------------------------------------------


def test_directories_and_files_are_the_users_alone(mpi, tmp_path):
    ending(mpi, tmp_path / "a" / "b")
    assert [mode(tmp_path / "a"), mode(tmp_path / "a" / "b")] == [0o700, 0o700]
    assert {mode(path) for path in (tmp_path / "a" / "b").iterdir()} == {0o600}


def test_the_group_may_read_them_whatever_the_umask(mpi, tmp_path):
    line = jobs.job_line(mpi, 2, [jobs.program(mpi, "ending"), "proper"], tmp_path / "a" / "b",
                         knobs={"COMMTAP_MODE": "0640"})
    process = jobs.start(["sh", "-c", 'umask 077; exec "$@"', "sh", *line])
    assert process.wait(60) == 0
    assert [mode(tmp_path / "a"), mode(tmp_path / "a" / "b")] == [0o750, 0o750]
    assert {mode(path) for path in (tmp_path / "a" / "b").iterdir()} == {0o640}


def test_a_directory_keeps_the_groups_bit(mpi, tmp_path):
    """Below a directory with the set-group-id bit files belong to the project's group: that is what they are opened for."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project").chmod(0o2750)
    ending(mpi, tmp_path / "project" / "dumps", knobs={"COMMTAP_MODE": "0640"})
    assert mode(tmp_path / "project" / "dumps") == 0o2750


def test_a_directory_that_was_there_is_left_as_it_is(mpi, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o711)
    ending(mpi, tmp_path / "mine", knobs={"COMMTAP_MODE": "0640"})
    assert mode(tmp_path / "mine") == 0o711


# ---- whose job it was ------------------------------------------------------------------------------------------------------


def test_arguments_may_be_left_out(mpi, tmp_path):
    command = [jobs.program(mpi, "train"), "--steps", "12"]
    for value, shown in (("off", command[0]), ("on", " ".join(command))):
        jobs.run(mpi, 2, command, tmp_path / value, knobs={"COMMTAP_ARGV": value})
        assert jobs.report(tmp_path / value)["job"]["command"] == shown
        for dump in jobs.dumps(tmp_path / value):
            assert (b"--steps" in dump.read_bytes()) == (value == "on")


# ---- commtap run and the other writers -------------------------------------------------------------------------------------


def run(mpi, place, *words, environment=None):
    jobs.need_mpi(mpi)
    line = jobs.launch_line(mpi, 2, [jobs.program(mpi, "ending"), *words], {})
    return subprocess.run([jobs.COMMTAP, "run", "-o", place, "--", *line], capture_output=True, text=True, timeout=60,
                          env={**jobs.clean_environment(), **(environment or {})}, cwd=jobs.BUILD)


def test_run_knows_where_the_dumps_will_be(mpi, tmp_path):
    done = run(mpi, tmp_path / "%j" / "%h", "proper", environment={"PBS_JOBID": "12.server"})
    below = tmp_path / "12.server"
    assert len(jobs.dumps(below / socket.gethostname())) == 2
    assert f"2 dumps in {below}; next: commtap report {below}" in done.stderr
    assert jobs.report(below)["job"]["job_id"] == "12.server"


@pytest.mark.parametrize("place, said", [("rank-%r", True), ("%h", False)])
def test_run_says_that_deaths_are_not_noted_in_directories_apart(mpi, tmp_path, place, said):
    """Of a job that fails: of one that does not, nobody misses it."""
    line = "commtap: who died first is not noted where each process has a directory of its own (%p, %r)"
    assert (line in run(mpi, tmp_path / "bad" / place, "kill").stderr) is said
    assert line not in run(mpi, tmp_path / "good" / place, "proper").stderr


def test_run_finds_dumps_that_lie_apart(mpi, tmp_path):
    done = run(mpi, tmp_path / "out" / "rank-%r", "proper")
    assert f"2 dumps in {tmp_path}/out; next: commtap report {tmp_path}/out" in done.stderr
    assert jobs.report(tmp_path / "out")["job"]["ranks_seen"] == 2


def test_run_refuses_another_percent_sign_before_the_job_starts(mpi, tmp_path):
    done = run(mpi, tmp_path / "%d", "proper")
    assert done.returncode == 2 and "'%d' stands for nothing" in done.stderr and not list(tmp_path.iterdir())


def test_a_percent_sign_in_the_way_to_the_job_is_one(mpi, tmp_path):
    (tmp_path / "100%j").mkdir()
    line = jobs.launch_line(mpi, 2, [jobs.program(mpi, "ending"), "proper"], {})
    done = subprocess.run([jobs.COMMTAP, "run", "-o", "dumps", "--", *line], capture_output=True, text=True, timeout=60,
                          env=jobs.clean_environment(), cwd=tmp_path / "100%j")
    assert len(jobs.dumps(tmp_path / "100%j" / "dumps")) == 2, done.stderr


@pytest.mark.parametrize("value, file, directory", [(None, 0o600, 0o700), ("0640", 0o640, 0o750)])
def test_what_lies_beside_dumps_may_be_read_by_those_who_may_read_them(value, file, directory, mpi, tmp_path):
    run(mpi, tmp_path / "dumps", "kill", environment={"COMMTAP_MODE": value} if value else {})
    note, = (tmp_path / "dumps").glob("*.deaths")
    symbols, = (tmp_path / "dumps").glob("*.symbols")
    assert mode(note) == mode(symbols) == file and mode(tmp_path / "dumps") == directory
    assert {mode(path) for path in jobs.dumps(tmp_path / "dumps")} == {file}


@pytest.mark.parametrize("value, file, directory", [(None, 0o600, 0o700), ("0640", 0o640, 0o750)])
def test_imported_dumps_follow_the_mode(value, file, directory, tmp_path):
    trace = jobs.ROOT / "test" / "data" / "traces" / "straggler-ST.json.gz"
    environment = {**jobs.clean_environment(), **({"COMMTAP_MODE": value} if value else {})}
    subprocess.run([jobs.COMMTAP, "import", trace, "-o", tmp_path / "a" / "b"], env=environment, check=True,
                   capture_output=True)
    assert [mode(tmp_path / "a"), mode(tmp_path / "a" / "b")] == [directory, directory]
    assert {mode(path) for path in jobs.dumps(tmp_path / "a" / "b")} == {file}


@pytest.mark.parametrize("of_stub, of_copy", [(0o600, 0o600), (0o640, 0o640), (0o644, 0o600)])
def test_a_collected_dump_may_be_read_by_those_who_may_read_its_stub(of_stub, of_copy, here, run_id, tmp_path):  # noqa: F811
    for number, place in enumerate(("a", "b")):
        (tmp_path / place).mkdir()
        _, stub, dump = here.stage(tmp_path / place, run_id, number + 1)
        stub.chmod(of_stub)
        assert not dump.exists()
    jobs.commtap("collect", tmp_path)  # the parent of both
    assert [mode(path) for path in sorted(tmp_path.glob("*/*.ct"))] == [of_copy, of_copy]


def test_whose_job_it_was(mpi, tmp_path):
    jobs.run(mpi, 2, [jobs.program(mpi, "ending"), "proper"], tmp_path / "d",
             environment={"SLURM_JOB_ID": "4711", "USER": "ada"})
    job = jobs.report(tmp_path / "d")["job"]
    assert (job["job_id"], job["user"], job["working_directory"]) == ("4711", "ada", str(jobs.BUILD))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", job["started"])
    assert abs(datetime.datetime.fromisoformat(job["started"][:-1] + "+00:00").timestamp() - time.time()) < 600
    library = job["mpi_library"]
    assert library["name"] == {"openmpi": "Open MPI", "mpich": "MPICH"}[mpi]
    version = subprocess.run([f"mpirun.{mpi}", "--version"], capture_output=True, text=True).stdout
    assert library["version"] in version and re.fullmatch(r"\d+\.\d+(\.\d+)?\w*", library["version"])
    assert jobs.LIBRARY[mpi].partition(".")[0] in library["path"] and job["nccl_library"] is None
    text = jobs.commtap("report", tmp_path / "d").stdout
    assert f"job 4711, by ada, {library['name']} {library['version']}, in {jobs.BUILD}" in text


def test_who_nobody_named_has_the_name_of_the_number(mpi, tmp_path):
    unknown = {name: "" for name in ("USER", "LOGNAME", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")}
    jobs.run(mpi, 1, [jobs.program(mpi, "ending"), "proper"], tmp_path / "d", environment=unknown)
    job = jobs.report(tmp_path / "d")["job"]
    assert job["job_id"] is None and job["user"] == pwd.getpwuid(os.getuid()).pw_name


@pytest.mark.parametrize("name", [b"a b'c", b"d\xe9\x1b[31mx", b"$(touch made);&", "donn\u00e9es \\".encode(), b"~", b"-x y"])
def test_what_comes_next_can_be_pasted(name, tmp_path):
    jobs.need_mpi("mpich")
    plain = tmp_path / "plain"
    jobs.run("mpich", 2, [jobs.program("mpich", "ending"), "proper"], plain)
    where = os.fsencode(tmp_path) + b"/" + name
    shutil.copytree(os.fsencode(plain), where)
    told = subprocess.run([jobs.COMMTAP, "report", where, plain], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    command = told.stdout.splitlines()[-1]
    assert command.startswith(b"next: commtap summary ") and not re.search(rb"[\x00-\x1f\x7f]", command)
    words = subprocess.run(["bash", "-c", b"printf '%s\\0' " + command.removeprefix(b"next: ")], cwd=tmp_path, stdout=subprocess.PIPE)
    assert words.stdout.split(b"\0")[:-1] == [b"commtap", b"summary", where, os.fsencode(plain)]
