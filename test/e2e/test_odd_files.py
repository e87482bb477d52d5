# SPDX-License-Identifier: Apache-2.0
#
# What stands where a file is expected may be a FIFO, a device, a directory or a link: no command waits for it or falls
# over it, and what else is there is used.
# Must not live here: stubs that are regular files (test_collect.py).
import os
import subprocess

import pytest

import jobs
from staged import COLLECT, GONE, SECONDS, here, run_id, stub_text  # noqa: F401
from test_collect import make_special

TRACE = jobs.ROOT / "test" / "data" / "traces" / "straggler-ST.json.gz"
KINDS = ["fifo", "socket", "device", "directory", "dangling", "loop", "link to a fifo"]
ANALYSES = ["report", "summary", "stragglers", "steps", "calls", "diagnose", "export"]


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    directory = tmp_path_factory.mktemp("imported")
    jobs.commtap("import", TRACE, "-o", directory)
    return directory


@pytest.fixture
def odd(request, imported, here, run_id, tmp_path):  # noqa: F811
    """Sound dumps, and beside them everything that a command may look for as what `kind` says."""
    kind, where = request.param, tmp_path / "odd"
    where.mkdir()
    for dump in jobs.dumps(imported):
        os.link(dump, where / dump.name)
    run = jobs.dumps(imported)[0].name.split(".")[1]
    make_special(where / f"commtap.{run}.deaths", kind)
    make_special(where / f"commtap.{run_id}.deaths", kind)
    make_special(where / f"commtap.{run_id}.{1:016x}.ct", kind)
    make_special(where / f"commtap.{run_id}.{2:016x}.stub", kind)
    make_special(where / "commtap.stub", kind)
    staged, _, _ = here.stage(where, run_id, 3)
    staged.unlink()
    make_special(staged, kind)
    _, _, dump = here.stage(where, run_id, 4)
    make_special(dump, kind)
    return where


def run(*words, **how):
    """A command that must come to its own end in time."""
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS,
                          stdin=subprocess.DEVNULL, env={**jobs.clean_environment(), "NO_COLOR": "1"}, **how)
    assert done.returncode >= 0, f"killed by signal {-done.returncode}: {done.stderr}"
    return done


@pytest.mark.parametrize("command", ANALYSES)
@pytest.mark.parametrize("odd", KINDS, indirect=True)
def test_analyses(command, odd, run_id):  # noqa: F811
    done = run(jobs.COMMTAP, command, odd)
    assert done.returncode == 0 and done.stdout
    for name in (f"{run_id}.{1:016x}.ct: ", f"{run_id}.{2:016x}.stub: damaged stub", "commtap.stub: damaged stub",
                 f"{run_id}.{3:016x}.ct"):
        assert name in done.stderr, name


@pytest.mark.parametrize("odd", KINDS, indirect=True)
def test_check(odd):
    done = run(jobs.COMMTAP, "check", odd)
    assert done.returncode == 1 and done.stdout.count("not collected: ") == 3


@pytest.mark.parametrize("odd", KINDS, indirect=True)
def test_diff(odd, imported):
    assert run(jobs.COMMTAP, "diff", odd, imported).returncode == 0
    assert run(jobs.COMMTAP, "diff", imported, odd).returncode == 0


@pytest.mark.parametrize("odd", KINDS, indirect=True)
def test_collect(odd):
    done = run(COLLECT, odd)
    assert done.returncode == 1 and "0 of 4" in done.stdout


@pytest.mark.parametrize("odd", KINDS, indirect=True)
def test_run(odd, run_id):  # noqa: F811
    """A process dies by a signal while `commtap run` watches the directory, so that a note is written as well."""
    done = run(jobs.COMMTAP, "run", "-o", odd, "-e", f"COMMTAP_RUN_ID={run_id}", "--", "sh", "-c", "sleep 0.3; kill -9 $$")
    assert done.returncode == 128 + 9 and f"{run_id}.{2:016x}.stub was not collected: damaged stub" in done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_note_of_deaths(kind, where):
    """The note of who died first stands in the way where it is to be written."""
    where.mkdir()
    make_special(where / "commtap.r.deaths", kind)
    line = jobs.job_line("openmpi", 2, [jobs.program("openmpi", "ending"), "kill"], where, way="run",
                         knobs={"COMMTAP_RUN_ID": "r"})
    process = jobs.start(line)
    try:
        _, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        jobs.stop(process)
        raise
    assert "2 dumps in" in err
    assert run(jobs.COMMTAP, "diagnose", where).returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_imported_file(kind, tmp_path):
    make_special(tmp_path / "trace.json", kind)
    done = run(jobs.COMMTAP, "import", tmp_path / "trace.json", "-o", tmp_path / "out")
    assert done.returncode == 3 and "trace.json: " in done.stderr and not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_import_writes_through_nothing(kind, tmp_path, imported):
    """Where a dump is to be written something else has its name already."""
    name = jobs.dumps(imported)[0].name
    make_special(tmp_path / name, kind)
    done = run(jobs.COMMTAP, "import", TRACE, "-o", tmp_path)
    assert done.returncode == (4 if kind == "directory" else 0), done.stderr
    assert not list(tmp_path.glob("*.partial"))
    if kind != "directory":
        assert (tmp_path / name).read_bytes() == (imported / name).read_bytes() and not (tmp_path / name).is_symlink()


def test_import_leaves_the_target_of_a_link_alone(tmp_path, imported):
    name, precious = jobs.dumps(imported)[0].name, tmp_path / "precious.txt"
    precious.write_text("mine\n", encoding="utf-8")
    (tmp_path / name).symlink_to(precious)
    assert run(jobs.COMMTAP, "import", TRACE, "-o", tmp_path).returncode == 0
    assert precious.read_text(encoding="utf-8") == "mine\n"


@pytest.mark.parametrize("kind", KINDS)
def test_ds_config(kind, tmp_path):
    make_special(tmp_path / "ds.json", kind)
    done = run(jobs.COMMTAP, "run", "--ds-config", tmp_path / "ds.json", "--", "echo", "started", cwd=tmp_path)
    assert done.returncode == 2 and "ds.json: " in done.stderr and "started" not in done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_skip_list(kind, tmp_path, imported):
    make_special(tmp_path / "skip", kind)
    done = run(jobs.COMMTAP, "calls", "--skip", tmp_path / "skip", imported)
    assert done.returncode == 2 and "skip" in done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_program_that_is_gone(kind, where, tmp_path):
    """Symbols and lines are looked for in the files that the dump names: one of them has become something else."""
    program = tmp_path / "ending"
    program.write_bytes(open(jobs.program("openmpi", "ending"), "rb").read())
    program.chmod(0o755)
    jobs.run("openmpi", 2, [str(program), "proper"], where)
    program.unlink()
    make_special(program, kind)
    assert run(jobs.COMMTAP, "calls", where).returncode == 0
    assert run(jobs.COMMTAP, "report", where).returncode == 0


def test_what_waits_at_a_fifo_is_not_disturbed(imported, tmp_path):
    """Opening has effects, on devices above all: what is no regular file is not even opened."""
    for dump in jobs.dumps(imported):
        os.link(dump, tmp_path / dump.name)
    fifos = [tmp_path / f"commtap.r.{1:016x}.ct", tmp_path / f"commtap.r.{2:016x}.stub"]
    for fifo in fifos:
        os.mkfifo(fifo)
    waiting = [subprocess.Popen(["sh", "-c", f"exec >'{fifo}'; echo harm"]) for fifo in fifos]
    try:
        run(jobs.COMMTAP, "report", tmp_path)
        run(COLLECT, tmp_path)
        assert [process.poll() for process in waiting] == [None, None]
    finally:
        for process in waiting:
            process.kill()
            process.wait()


def test_linked_dumps_are_read(imported, tmp_path):
    """Directories may be put together by links to dumps elsewhere."""
    for dump in jobs.dumps(imported):
        (tmp_path / dump.name).symlink_to(dump)
    assert jobs.report(tmp_path)["job"]["ranks_seen"] == jobs.report(imported)["job"]["ranks_seen"] > 0


def test_stub_counts_until_its_dump_is_really_there(imported, here, run_id, tmp_path):  # noqa: F811
    """An empty file of the dump's name does not make the pointer to it disappear."""
    for dump in jobs.dumps(imported):
        os.link(dump, tmp_path / dump.name)
    name = f"commtap.{run_id}.{1:016x}"
    (tmp_path / f"{name}.stub").write_text(stub_text(host="node7", boot_id="f" * 36, path=f"/dev/shm/{name}.ct", pid=GONE,
                                                     rank=1), encoding="utf-8")
    (tmp_path / f"{name}.ct").touch()
    done = run(jobs.COMMTAP, "report", tmp_path)
    assert f"not collected: node7:/dev/shm/{name}.ct" in done.stderr
