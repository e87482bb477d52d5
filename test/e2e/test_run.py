# SPDX-License-Identifier: Apache-2.0
#
# commtap run: the environment it makes, launchers, signals, exit status, DeepSpeed configurations, collection.
# Must not live here: what the dumps of a job hold.
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys

import pytest

import jobs
from staged import BOOT_ID, here, run_id, snapshot, without_mark  # noqa: F401

FAKE_LAUNCHER = """#!/bin/sh
case $1 in
--version) echo '{version}' ;;
*) for word; do echo "[$word]"; done ;;
esac
"""


def run(*words, environment=None, cwd=None, **options):
    return subprocess.run([str(jobs.COMMTAP), "run", *map(str, words)], capture_output=True, text=True, timeout=60,
                          env={**jobs.clean_environment(), **(environment or {})}, cwd=cwd, check=False, **options)


def variables(done):
    """What `env` printed."""
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def script(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


# ---- the environment ----------------------------------------------------------------------------------------------


def test_environment_of_the_command(tmp_path):
    done = run("-o", "some/dumps", "-e", "COMMTAP_RING=64", "--", "env", cwd=tmp_path,
               environment={"LD_PRELOAD": "libm.so.6", "COMMTAP_VERBOSE": "off"})
    seen = variables(done)
    assert done.returncode == 0
    assert seen["LD_PRELOAD"] == f"{jobs.SHIM}:libm.so.6"
    assert seen["COMMTAP_DIR"] == str(tmp_path / "some/dumps")
    assert seen["COMMTAP_RING"] == "64" and seen["COMMTAP_VERBOSE"] == "off"
    assert re.fullmatch(r"[\w-]+", seen["COMMTAP_RUN_ID"])


def test_every_run_has_an_id_and_a_directory_of_its_own(tmp_path):
    first, second = (variables(run("env", cwd=tmp_path)) for _ in range(2))
    assert first["COMMTAP_RUN_ID"] != second["COMMTAP_RUN_ID"]
    assert first["COMMTAP_DIR"] == str(tmp_path / f"commtap-{first['COMMTAP_RUN_ID']}")


def test_given_run_id_is_kept_and_made_fit_for_a_file_name(tmp_path):
    assert variables(run("env", cwd=tmp_path, environment={"COMMTAP_RUN_ID": "a.b-c"}))["COMMTAP_RUN_ID"] == "a.b-c"
    assert variables(run("env", cwd=tmp_path, environment={"COMMTAP_RUN_ID": "../x y"}))["COMMTAP_RUN_ID"] == "_._x_y"


def test_nothing_is_left_behind_by_a_command_that_does_not_communicate(tmp_path):
    done = run("-o", "dumps", "true", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == ""
    assert "no dump was written" in done.stderr and not (tmp_path / "dumps").exists()


def test_library_is_looked_for_beside_the_program_then_where_installations_have_it(tmp_path):
    program = tmp_path / "bin/commtap"
    program.parent.mkdir()
    shutil.copy(jobs.COMMTAP, program)
    missing = subprocess.run([program, "run", "env"], capture_output=True, text=True, check=False,
                             env=jobs.clean_environment(), cwd=tmp_path)
    assert missing.returncode == 3 and "libcommtap.so" in missing.stderr and missing.stdout == ""
    for place in ("lib/libcommtap.so", "lib/commtap/libcommtap.so", "bin/libcommtap.so"):
        library = tmp_path / place
        library.parent.mkdir(exist_ok=True)
        shutil.copy(jobs.SHIM, library)
        found = subprocess.run([program, "run", "env"], capture_output=True, text=True, check=False,
                               env=jobs.clean_environment(), cwd=tmp_path)
        assert variables(found)["LD_PRELOAD"] == str(library)


def test_library_may_be_named(tmp_path):
    library = tmp_path / "other.so"
    shutil.copy(jobs.SHIM, library)
    seen = variables(run("env", cwd=tmp_path, environment={"COMMTAP_LIBRARY": str(library)}))
    assert seen["LD_PRELOAD"] == str(library) and "COMMTAP_LIBRARY" not in seen


def test_preload_cannot_name_a_path_with_a_blank(tmp_path):
    library = tmp_path / "a b.so"
    shutil.copy(jobs.SHIM, library)
    done = run("env", cwd=tmp_path, environment={"COMMTAP_LIBRARY": str(library)})
    assert done.returncode == 3 and "blank" in done.stderr


def test_unwritable_directory_shows_before_the_job_starts(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("-o", tmp_path / "file", "--", "echo", "started")
    assert done.returncode == 2 and "started" not in done.stdout and str(tmp_path / "file") in done.stderr


def test_knobs_are_checked(tmp_path):
    done = run("-e", "COMMTAP_RNG=64", "env", cwd=tmp_path)
    assert done.returncode == 0 and "COMMTAP_RING?" in done.stderr
    assert run("-e", "OTHER=1", "true", cwd=tmp_path).returncode == 2
    assert run("-e", "COMMTAP_RING", "true", cwd=tmp_path).returncode == 2
    assert run(cwd=tmp_path).returncode == 2


# ---- exit status and signals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command, status", [
    (["sh", "-c", "exit 7"], 7),
    (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL),
    (["sh", "-c", "kill -SEGV $$"], 128 + signal.SIGSEGV),
    (["no-such-command"], 127),
    (["/"], 126),
])
def test_exit_status(command, status, tmp_path):
    assert run("--", *command, cwd=tmp_path).returncode == status


COUNTS_SIGNALS = """
import signal, sys, time
seen = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda number, frame: seen.append(number))
print("ready", flush=True)
end = time.monotonic() + 20
while not seen and time.monotonic() < end:
    time.sleep(0.01)
time.sleep(0.3)
print(*map(int, seen), flush=True)
sys.exit(9)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_handed_on(number, tmp_path):
    process = subprocess.Popen([jobs.COMMTAP, "run", "--", sys.executable, "-c", COUNTS_SIGNALS], cwd=tmp_path,
                               stdout=subprocess.PIPE, text=True, env=jobs.clean_environment())
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.communicate(timeout=30)[0] == f"{int(number)}\n"
    assert process.returncode == 9


def test_interrupt_from_the_terminal_arrives_once(tmp_path):
    """The terminal signals the whole foreground group; mpirun takes a second ^C for "kill now"."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(jobs.COMMTAP, ["commtap", "run", "--", sys.executable, "-c", COUNTS_SIGNALS],
                  jobs.clean_environment())
    output = b""
    while b"ready" not in output:
        output += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    try:
        while True:
            piece = os.read(terminal, 1000)
            if not piece:
                break
            output += piece
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert re.search(rb"(?<![\d ])2\r?\n", output), output


# ---- launchers --------------------------------------------------------------------------------------------------------


def exported(done):
    """[-x] [NAME] pairs that a fake launcher printed."""
    words = re.findall(r"^\[(.*)\]$", done.stdout, re.M)
    return words, [after for before, after in zip(words, words[1:]) if before == "-x"]


@pytest.mark.parametrize("name, version", [("mpirun", "mpirun (Open MPI) 5.0.3"), ("mpiexec", "mpiexec (OpenRTE) 4.1"),
                                           ("mpirun.openmpi", "x (Open MPI) 4"), ("prterun", "")])
def test_open_mpi_is_told_to_export(name, version, tmp_path):
    launcher = script(tmp_path / name, FAKE_LAUNCHER.format(version=version))
    words, names = exported(run("-o", "d", "-e", "COMMTAP_RING=64", "--", launcher, "-n", "2", "a", ":", "-n", "1", "b",
                                cwd=tmp_path))
    once = {"ASAN_OPTIONS", "COMMTAP_RING", "COMMTAP_DIR", "COMMTAP_RUN_ID", "LD_PRELOAD"}
    assert set(names) == once and len(names) == 2 * len(once)  # once per application context
    assert [word for word in words if word not in once and word != "-x"] == ["-n", "2", "a", ":", "-n", "1", "b"]


def test_what_the_user_exports_through_open_mpi_stays(tmp_path):
    launcher = script(tmp_path / "mpirun", FAKE_LAUNCHER.format(version="mpirun (Open MPI) 5.0.3"))
    _, names = exported(run("-e", "COMMTAP_RING=64", "--", launcher, "-x", "LD_PRELOAD=/their/own.so", "-x",
                            "COMMTAP_RING=128", "-x", "HOME", "a", cwd=tmp_path))
    assert f"LD_PRELOAD={jobs.SHIM}:/their/own.so" in names and "LD_PRELOAD" not in names
    assert "COMMTAP_RING=64" in names and "HOME" in names


def test_other_launchers_are_left_alone(tmp_path):
    launcher = script(tmp_path / "mpirun", FAKE_LAUNCHER.format(version="HYDRA build details:"))
    assert exported(run("--", launcher, "-n", "2", "a", cwd=tmp_path))[0] == ["-n", "2", "a"]
    limited = exported(run("--", launcher, "-genvnone", "-n", "2", "a", cwd=tmp_path))[0]
    assert limited[-4:] == ["-genvnone", "-n", "2", "a"] and limited[limited.index("LD_PRELOAD") - 1] == "-genv"


def handed_on(done):
    """What the last --export of each of a fake srun's components lists."""
    return [words.split(",") for words in re.findall(r"^\[--export=(.*)\]$", done.stdout, re.M)]


OURS = ["ASAN_OPTIONS", "LD_PRELOAD", "COMMTAP_DIR", "COMMTAP_RUN_ID"]


@pytest.mark.parametrize("options", [["--export=NONE"], ["--export", "nil"], ["--export=ALL", "--export=NONE"]])
def test_srun_hands_the_library_on_whatever_the_user_exports(options, tmp_path):
    srun = script(tmp_path / "srun", FAKE_LAUNCHER)
    done = run("-o", "d", "--", srun, *options, "-n", "2", sys.executable, "--export=NONE", cwd=tmp_path)
    ours, program = handed_on(done)
    assert sorted(ours) == sorted(OURS) and program == ["NONE"]  # what is behind the program is the program's
    assert done.stdout.endswith(f"[{sys.executable}]\n[--export=NONE]\n") and "[-n]\n[2]\n" in done.stdout


def test_what_the_user_exports_through_srun_stays(tmp_path):
    srun = script(tmp_path / "srun", FAKE_LAUNCHER)
    [words] = handed_on(run("-o", "d", "-e", "COMMTAP_RING=64", "--", srun,
                            "--export=A=1,LD_PRELOAD=/their/own.so,B='x,COMMTAP_RING=1',COMMTAP_RING=128", "a", cwd=tmp_path))
    assert words[:4] == ["A=1", f"LD_PRELOAD={jobs.SHIM}:/their/own.so", "B='x", "COMMTAP_RING=1'"]
    assert sorted(words[4:]) == sorted({*OURS, "COMMTAP_RING"} - {"LD_PRELOAD"})  # names alone: srun's own are ours


def test_srun_that_is_left_alone_and_one_whose_batch_job_exports_nothing(tmp_path):
    srun = script(tmp_path / "srun", FAKE_LAUNCHER)
    component = ["-n", "1", sys.executable]
    assert handed_on(run("-o", "d", "--", srun, *component, cwd=tmp_path)) == []
    both = handed_on(run("-o", "e", "--", srun, *component, ":", "--export=A", *component, cwd=tmp_path,
                         environment={"SLURM_EXPORT_ENV": "NONE"}))
    assert [sorted(words) for words in both] == [sorted(OURS), sorted(["A", *OURS])]


def test_launchers_that_hand_on_too_little_are_warned_about(tmp_path):
    deepspeed = script(tmp_path / "deepspeed", FAKE_LAUNCHER)
    assert ".deepspeed_env" in run("--", deepspeed, "--hostfile=h", "a", cwd=tmp_path).stderr


def test_open_mpi_ranks_on_other_hosts_get_the_environment(tmp_path):
    agent = script(tmp_path / "agent", '#!/bin/sh\nshift\nexec env -i PATH="$PATH" sh -c "$*"\n')
    done = run("-o", "dumps", "--", "mpirun.openmpi", "--mca", "plm_rsh_agent", agent, "--mca", "rtc", "^hwloc",
               "--host", "other:1", "-n", "1", "env", cwd=tmp_path)
    assert variables(done)["COMMTAP_DIR"] == str(tmp_path / "dumps"), done.stderr
    assert variables(done)["LD_PRELOAD"] == str(jobs.SHIM)


def test_mpich_ranks_get_the_environment_even_when_told_not_to(tmp_path):
    done = run("-o", "dumps", "--", "mpirun.mpich", "-genvnone", "-n", "1", "env", cwd=tmp_path)
    assert variables(done)["COMMTAP_DIR"] == str(tmp_path / "dumps"), done.stderr
    assert variables(done)["LD_PRELOAD"] == str(jobs.SHIM)


# ---- DeepSpeed configurations ------------------------------------------------------------------------------------------


def ds_settings(tmp_path, section, *words, environment=None):
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({"train_batch_size": 8, **section}), encoding="utf-8")
    done = run("--ds-config", path, *words, "--", "env", cwd=tmp_path, environment=environment)
    assert done.returncode == 0, done.stderr
    return variables(done), done.stderr


def test_ds_config_presence_of_the_section_enables_nothing(tmp_path):
    seen, words = ds_settings(tmp_path, {"comms_logger": {}})
    assert seen["COMMTAP_ENABLE"] == "0" and "enabled" in words


def test_ds_config_defaults(tmp_path):
    seen, _ = ds_settings(tmp_path, {"comms_logger": {"enabled": True, "prof_ops": ["all_reduce"]}})
    assert (seen["COMMTAP_ENABLE"], seen["COMMTAP_VERBOSE"], seen["COMMTAP_OPS"]) == ("1", "off", "*")


def test_ds_config_debug_asks_who_called(tmp_path):
    """That is a function of Python, as a rule."""
    for debug, stack in ((True, "python"), (False, "off")):
        seen, words = ds_settings(tmp_path, {"comms_logger": {"enabled": True, "debug": debug}})
        assert seen["COMMTAP_STACK"] == stack and words.count("debug") == 0


def test_ds_config_names_of_operations_become_functions(tmp_path):
    section = {"enabled": True, "verbose": True, "prof_all": False,
               "prof_ops": ["all_reduce", "all_gather", "monitored_barrier", "al_reduce", "dance"]}
    seen, words = ds_settings(tmp_path, {"comms_logger": section})
    functions = seen["COMMTAP_OPS"].split(",")
    assert {"MPI_Allreduce", "MPI_Iallreduce", "MPI_Allreduce_c", "MPI_Allgather", "MPI_Barrier"} <= set(functions)
    assert not {"MPI_Reduce", "MPI_Alltoall", "MPI_Send"} & set(functions)
    assert seen["COMMTAP_VERBOSE"] == "ranks:0"
    assert "'al_reduce' (maybe: all_reduce?)" in words and "'dance'" in words


def test_ds_config_without_any_known_operation_records_none(tmp_path):
    section = {"enabled": True, "prof_all": False, "prof_ops": []}
    assert ds_settings(tmp_path, {"comms_logger": section})[0]["COMMTAP_OPS"] == "!*"


def test_ds_config_gives_way_to_options_and_wins_over_the_environment(tmp_path):
    section = {"comms_logger": {"enabled": True}}
    assert ds_settings(tmp_path, section, environment={"COMMTAP_ENABLE": "0"})[0]["COMMTAP_ENABLE"] == "1"
    assert ds_settings(tmp_path, section, "-e", "COMMTAP_ENABLE=0")[0]["COMMTAP_ENABLE"] == "0"


def test_ds_config_without_the_section_changes_nothing(tmp_path):
    seen, words = ds_settings(tmp_path, {})
    assert "COMMTAP_ENABLE" not in seen and "comms_logger" in words


@pytest.mark.parametrize("text, where", [
    ('{"comms_logger": {"enabled": "yes"}}', "comms_logger.enabled"),
    ('{"comms_logger": []}', "comms_logger"),
    ('{"comms_logger": {"prof_ops": "all_reduce"}}', "comms_logger.prof_ops"),
    ('{"comms_logger": {"prof_ops": [1]}}', "comms_logger.prof_ops"),
    ('{"comms_logger":\n', "ds.json:2"),
])
def test_ds_config_that_cannot_be_read_is_refused(text, where, tmp_path):
    path = tmp_path / "ds.json"
    path.write_text(text, encoding="utf-8")
    done = run("--ds-config", path, "--", "echo", "started", cwd=tmp_path)
    assert done.returncode == 2 and where in done.stderr and "started" not in done.stdout


# ---- afterwards -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def stage(here, run_id, tmp_path):  # noqa: F811
    """Stands for a dump that the library staged: returns (staged file, stub, where the dump belongs)."""
    output = tmp_path / "dumps"
    output.mkdir()
    return lambda number, run=run_id, **how: here.stage(output, run, number, **how)


def test_dumps_staged_on_this_host_are_collected(tmp_path, stage, run_id):  # noqa: F811
    ended = subprocess.Popen(["true"])
    ended.wait()
    staged, stub, dump = stage(1, pid=ended.pid)
    content = staged.read_bytes()
    done = run("-o", tmp_path / "dumps", "-e", f"COMMTAP_RUN_ID={run_id}", "true")
    assert without_mark(dump.read_bytes()) == content and not stub.exists() and not staged.exists()
    assert stat.S_IMODE(dump.stat().st_mode) == 0o600
    assert "1 dump in" in done.stderr and f"commtap report {tmp_path}/dumps" in done.stderr


def test_dumps_that_cannot_be_collected_are_counted_and_kept(tmp_path, stage, run_id):  # noqa: F811
    elsewhere, running, other_run = stage(2), stage(3, pid=os.getpid()), stage(4, run=run_id + ".x")
    elsewhere[1].write_text(elsewhere[1].read_text().replace(BOOT_ID, "00000000-0000-0000-0000-000000000000"))
    done = run("-o", tmp_path / "dumps", "-e", f"COMMTAP_RUN_ID={run_id}", "true")
    for staged, stub, dump in (elsewhere, running, other_run):
        assert staged.exists() and stub.exists() and not dump.exists()
    assert "1 of processes still running" in done.stderr and "1 still on other hosts" in done.stderr


@pytest.mark.parametrize("spoil, reason", [
    (lambda staged, stub, dump: stub.write_text(stub.read_text().replace(str(staged), "/etc/passwd")), "own name"),
    (lambda staged, stub, dump: stub.write_text(""), "is empty"),
    (lambda staged, stub, dump: staged.write_text("the user's own"), "is no dump"),
    (lambda staged, stub, dump: dump.write_text("the user's own"), "no copy of this dump"),
    (lambda staged, stub, dump: dump.symlink_to("elsewhere"), "no copy of this dump"),
], ids=["foreign file", "empty stub", "no dump", "name taken", "name taken by a link"])
def test_stub_that_is_not_sound_is_refused(spoil, reason, tmp_path, stage, run_id):  # noqa: F811
    staged, stub, dump = stage(5)
    spoil(staged, stub, dump)
    before = snapshot(staged, tmp_path / "dumps")
    done = run("-o", tmp_path / "dumps", "-e", f"COMMTAP_RUN_ID={run_id}", "true")
    assert snapshot(staged, tmp_path / "dumps") == before
    assert "was not collected" in done.stderr and reason in done.stderr


def test_why_there_is_no_dump(tmp_path):
    source = tmp_path / "static.c"
    source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
    subprocess.run(["cc", "-static", source, "-o", tmp_path / "static"], check=True)
    assert "is statically linked" in run("--", "env", "./static", cwd=tmp_path).stderr
    assert "COMMTAP_ENABLE=0" in run("-e", "COMMTAP_ENABLE=0", "true", cwd=tmp_path).stderr


def run_ids(directory):
    return {path.name.split(".")[1] for path in pathlib.Path(directory).glob("commtap.*.ct")}


def test_around_a_launcher(mpi, where):
    done = jobs.run(mpi, 2, [jobs.program(mpi, "collectives")], where, way="run",
                    environment={"EXPECT_DIR": str(where.parent)})
    assert re.search(rf"2 dumps in {where}; next: commtap report {where}\n", done.stderr)
    assert len(run_ids(where)) == 1 and len(list(where.glob("*.ct"))) == 2


def under_launcher(mpi, directory, *words):
    inner = [str(jobs.COMMTAP), "run", *words, "--", jobs.program(mpi, "collectives")]
    line = jobs.launch_line(mpi, 2, inner, {"EXPECT_DIR": str(directory)})
    return subprocess.run(line, cwd=directory, env=jobs.clean_environment(), capture_output=True, text=True,
                          timeout=60, check=True)


def test_under_a_launcher_all_ranks_agree_on_the_run(mpi, tmp_path):
    done = under_launcher(mpi, tmp_path, "-o", "dumps")
    assert len(list((tmp_path / "dumps").glob("*.ct"))) == 2 and len(run_ids(tmp_path / "dumps")) == 1
    assert done.stderr.count("commtap report dumps") == 1


def test_under_a_launcher_without_a_directory(mpi, tmp_path):
    done = under_launcher(mpi, tmp_path)
    directory, = tmp_path.glob("commtap-*")
    assert len(list(directory.glob("*.ct"))) == 2
    assert done.stderr.count(f"commtap report {directory.name}") == 1
