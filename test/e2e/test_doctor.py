# SPDX-License-Identifier: Apache-2.0
#
# commtap doctor on real programs: what it says beforehand is what commtap then sees or not.
# Must not live here: what commtap run itself says (test_run.py).
import ctypes
import json
import os
import resource
import shutil
import subprocess

import pytest

import jobs
import schema

STANDIN = jobs.BUILD / "standin"


def doctor(*command, environment=None, codes=(0,), cwd=None, **options):
    """The document; every one is held against the schema."""
    done = subprocess.run([str(jobs.COMMTAP), "doctor", "--format", "json", "--", *map(str, command)], text=True,
                          capture_output=True, timeout=60, env={**jobs.clean_environment(), **(environment or {})},
                          check=False, cwd=cwd, **options)
    assert done.returncode in codes, done.stdout + done.stderr
    if schema.jsonschema:
        schema.check_document("doctor", json.loads(done.stdout))
    return json.loads(done.stdout)


def said(document, state, subject=None):
    return [check["text"] for check in document["checks"]
            if check["state"] == state and subject in (None, check["subject"])]


def build(tmp_path, text, *words, name="program"):
    source = tmp_path / f"{name}.c"
    source.write_text(text, encoding="utf-8")
    subprocess.run(["cc", source, "-o", tmp_path / name, *map(str, words)], check=True)
    return tmp_path / name


NOTHING = "int main(void) { return 0; }\n"


# ---- what is to be started ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [
    ("mpirun.openmpi", "-n", "2"), ("mpirun.openmpi", "-n2"), ("mpirun.mpich", "-n", "2", "--"), ("nice", "-n", "5"),
    ("env", "A=1"), ("timeout", "10"), ("mpirun.openmpi", "-n", "2", "env", "A=1"),
])
def test_an_argument_is_not_taken_for_the_program(words):
    """The program that is not there is named, though an executable file follows it."""
    if words[0].startswith("mpirun"):
        jobs.need_mpi(words[0].partition(".")[2])
    found = doctor(*words, "no-such-program", shutil.which("true"), codes=(1, 2, 3))
    assert any(text.startswith("no-such-program: there is no such program") for text in said(found, "blocked", "program"))


# ---- MPI ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mpi, name", [("openmpi", "Open MPI"), ("mpich", "MPICH")])
def test_mpi_is_known_as_in_the_report(mpi, name, tmp_path):
    jobs.need_mpi(mpi)
    found = doctor(f"mpirun.{mpi}", "-n", "2", jobs.program(mpi, "train"))
    assert found["state"] == "fine" and found["mpi"]["bound"] == "start" and found["mpi"]["name"] == name
    assert os.path.basename(found["mpi"]["path"]).startswith(jobs.LIBRARY[mpi].partition(".so")[0])
    jobs.run(mpi, 1, [jobs.program(mpi, "train")], tmp_path / "dumps")
    report = jobs.report(tmp_path / "dumps")
    reported = report["job"]["mpi_library"]
    assert (found["mpi"]["name"], found["mpi"]["version"]) == (reported["name"], reported["version"])
    assert "no_calls" not in [one["code"] for one in report["findings"]]


def test_launcher_of_the_other_mpi():
    jobs.need_mpi("openmpi"), jobs.need_mpi("mpich")
    found = doctor("mpirun.mpich", "-n", "2", jobs.program("openmpi", "train"))
    assert "is not the launcher of Open MPI" in said(found, "part", "launcher")[0]


def test_launcher_behind_a_program_that_starts_it():
    jobs.need_mpi("mpich")
    program = jobs.program("mpich", "train")
    found = doctor("timeout", "5", "mpirun.mpich", "-n", "2", program)
    assert found["program"] == str(program) and found["command"][0] == "timeout"
    assert "hands the library on" in said(found, "fine", "launcher")[0]


@pytest.mark.parametrize("words", [("LD_PRELOAD=",), ("-i",), ("-u", "LD_PRELOAD"), ("LD_PRELOAD=/lib/libc.so.6",)])
def test_env_that_takes_the_library_away(words):
    assert "starts without the library" in said(doctor("env", *words, "/bin/true", codes=(1,)), "blocked", "library")[0]
    assert not said(doctor("env", "A=B", "-u", "C", "/bin/true"), "blocked")


@pytest.mark.parametrize("name, state, remedy", [("ssh", "blocked", "ssh HOST commtap run"), ("docker", "blocked", "in the image"),
                                                 ("sbatch", "part", "job's script"), ("apptainer", "part", "--bind")])
def test_what_starts_its_command_elsewhere(name, state, remedy, tmp_path):
    program = tmp_path / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    found = doctor("timeout", "9", program, "x", "/bin/true", codes=(0, 1))
    [check] = [check for check in found["checks"] if check["subject"] == "launcher"]
    assert check["state"] == state and name in check["text"] and remedy in check["remedy"]
    assert not said(found, "part", "program") and not said(doctor(tmp_path / name, codes=(0, 1)), "blocked", "program")


def test_several_programs_of_one_job():
    jobs.need_mpi("openmpi")
    program = jobs.program("openmpi", "train")
    found = doctor("mpirun.openmpi", "-n", "1", program, ":", "-n", "1", "/bin/true")
    assert "what is behind the colon was not looked at" in said(found, "part", "program")[0]
    assert not said(doctor("mpirun.openmpi", "-n", "2", program), "part", "program")


def test_srun_that_hands_nothing_on_is_told_to(tmp_path):
    srun = tmp_path / "srun"
    srun.write_text("#!/bin/sh\n")
    srun.chmod(0o755)
    for export in ("--export=NONE", "--export=ALL"):
        found = doctor(srun, export, "true")
        assert said(found, "fine", "launcher") and not said(found, "part", "launcher")


def test_python_with_mpi4py():
    jobs.need("python3-mpi4py")
    found = doctor(jobs.PYTHON, "train.py")
    assert found["mpi"]["bound"] == "running" and found["mpi"]["name"] in ("Open MPI", "MPICH") and found["mpi"]["version"]


def test_python_script_by_its_first_line(tmp_path):
    jobs.need("python3-mpi4py")
    script = tmp_path / "train"
    script.write_text(f"#! {jobs.PYTHON} -u\n")
    script.chmod(0o755)
    found = doctor(script)
    assert found["program"] == str(script) and found["binary"] == jobs.PYTHON and found["mpi"]["bound"] == "running"
    script.write_text("#!/usr/bin/env -S X=1 true\n")
    assert os.path.basename(doctor(script)["binary"]) == "true"
    script.write_text("#!/nowhere/python\n")
    assert "which is not here" in said(doctor(script, codes=[1]), "blocked")[0]


def test_mpi4py_that_does_not_import(tmp_path):
    package = tmp_path / "mpi4py"
    package.mkdir()
    (package / "__init__.py").write_text("class rc: pass\n")
    (package / "MPI.py").write_text("raise RuntimeError('cannot load MPI library')\n")
    found = doctor(jobs.PYTHON, "x.py", environment={"PYTHONPATH": str(tmp_path)})
    assert "cannot load MPI library" in said(found, "part", "mpi")[0] and found["mpi"] is None


def test_a_shell_hides_what_it_starts(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\nexec true\n")
    script.chmod(0o755)
    assert "was not looked at" in said(doctor(script), "part", "program")[0]


# ---- NCCL ---------------------------------------------------------------------------------------------------------


def nccl(*command, **how):
    return doctor(*command, environment={"LD_LIBRARY_PATH": str(STANDIN), **how.pop("environment", {})}, **how)


def test_nccl_linked_at_start():
    found = nccl(jobs.PROGRAMS / "nccl" / "train")
    assert found["nccl"]["bound"] == "start" and found["nccl"]["path"] == str(STANDIN / "libnccl.so.2")
    assert found["nccl"]["version"].split(".")[0] == "2"


def test_a_library_that_is_not_there(tmp_path):
    library = build(tmp_path, "int nothing;\n", "-shared", "-Wl,-soname,libgone.so.1", name="libgone.so")
    program = build(tmp_path, NOTHING, "-Wl,--no-as-needed", library)
    library.unlink()
    assert "libgone.so.1" in said(doctor(program, codes=[1]), "blocked")[0]


def test_nccl_by_dlopen(tmp_path):
    program = build(tmp_path, '#include <dlfcn.h>\nint main(void) { return dlopen("libnccl.so.2", 1) == 0; }\n', "-ldl")
    found = doctor(program)
    assert found["nccl"] == {"bound": "running", "name": None, "version": None, "path": None}


def test_nccl_linked_statically(tmp_path):
    text = "int ncclAllReduce(void) { return 0; }\nint main(void) { return ncclAllReduce(); }\n"
    found = doctor(build(tmp_path, text), codes=[1])
    assert found["nccl"]["bound"] == "static" and "profiler plugin" in said(found, "blocked", "nccl")[0]


@pytest.mark.parametrize("variable, subject", [("NCCL_PROFILER_PLUGIN", "plugin"), ("NVTX_INJECTION64_PATH", "nvtx")])
def test_a_place_that_is_taken(variable, subject):
    assert f"{variable}=/opt/other.so" in said(doctor(environment={variable: "/opt/other.so"}), "part", subject)[0]
    assert not said(doctor(environment={variable: str(jobs.SHIM)}), "part", subject)
    assert not said(doctor(), "part", subject)


# ---- what keeps the library out -----------------------------------------------------------------------------------


def test_static_program(tmp_path):
    found = doctor(build(tmp_path, NOTHING, "-static"), codes=[1])
    assert found["state"] == "blocked" and "is statically linked" in said(found, "blocked")[0]


def test_setuid_copy_and_a_copy_of_that(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a program of another user")
    program = build(tmp_path, NOTHING)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    assert "is setuid" in said(doctor(program, codes=[1]), "blocked")[0]
    shutil.copyfile(program, tmp_path / "copy")
    (tmp_path / "copy").chmod(0o755)
    assert not said(doctor(tmp_path / "copy"), "blocked")


def test_file_capabilities(tmp_path):
    program = build(tmp_path, NOTHING)
    try:  # struct vfs_cap_data: revision 2, CAP_NET_RAW permitted and effective
        os.setxattr(program, "security.capability", bytes([1, 0, 0, 2, 0, 0x20, 0, 0]) + bytes(12))
    except OSError as error:
        pytest.skip(f"no file capabilities here: {error}")
    assert "has file capabilities" in said(doctor(program, codes=[1]), "blocked")[0]


def test_other_processors_and_no_programs(tmp_path):
    program = build(tmp_path, NOTHING)
    image = bytearray(program.read_bytes())
    image[18:20] = (243).to_bytes(2, "little")  # e_machine: RISC-V
    program.write_bytes(image)
    assert "another processor" in said(doctor(program, codes=[1]), "blocked")[0]
    image[4] = 1  # EI_CLASS: 32 bits
    program.write_bytes(image)
    assert "is no 64-bit program" in said(doctor(program, codes=[1]), "blocked")[0]
    program.write_text("neither\n")
    assert "no program that this kernel starts" in said(doctor(program, codes=[1]), "blocked")[0]


def test_a_program_that_is_cut_off_is_called_so_wherever_it_is_cut(tmp_path):
    program = build(tmp_path, NOTHING)
    image = program.read_bytes()
    for length in (20, 63, 100, 700, 1000, len(image) // 4):
        program.write_bytes(image[:length])
        assert "is cut off" in said(doctor(program, codes=[1]), "blocked")[0], length


def test_a_newline_in_a_name_breaks_no_table(tmp_path):
    program = build(tmp_path, NOTHING).rename(tmp_path / "odd\nname: to do: nothing")
    found = doctor(program)
    texts = [check["text"] for check in found["checks"] if str(program) in check["text"]]
    assert texts and all(check["remedy"] is None or "name: to do: nothing" not in check["remedy"] for check in found["checks"])
    lines = jobs.commtap("doctor", "--", program, codes=(0, 1)).stdout.splitlines()
    assert not [line for line in lines if line.startswith("name")]


def test_static_mpi_and_pmpi_of_its_own(tmp_path):
    text = "int PMPI_Init(void) { return 0; }\nint main(void) { return PMPI_Init(); }\n"
    found = doctor(build(tmp_path, text), codes=[1])
    assert found["mpi"]["bound"] == "static" and said(found, "blocked", "mpi")


@pytest.mark.parametrize("command", [["./nothere"], ["nowhere-in-path", "true"], ["env", "-i"],
                                     ["mpirun.openmpi", "-n", "2", "./nothere"]])
def test_program_that_is_not_there(command, tmp_path):
    if command[0].startswith("mpirun"):
        jobs.need_mpi("openmpi")
    found = doctor(*command, codes=[3], cwd=tmp_path)
    assert found["state"] == "blocked" and found["program"] is None and said(found, "blocked", "program")


def test_a_library_that_is_none(tmp_path):
    wrong = tmp_path / "libcommtap.so"
    wrong.write_text("no library")
    found = doctor("true", environment={"COMMTAP_LIBRARY": str(wrong)}, codes=[1])
    assert "cannot be preloaded" in said(found, "blocked", "library")[0]
    found = doctor("true", environment={"COMMTAP_LIBRARY": str(tmp_path / "none.so")}, codes=[1])
    assert "no readable libcommtap.so" in said(found, "blocked", "library")[0] and found["library"] is None


# ---- knobs, places, limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, value, state, text", [
    ("COMMTAP_ENABLE", "off", "blocked", "switched off"),
    ("COMMTAP_OPS", "!*", "blocked", "leaves no function"),
    ("COMMTAP_OPS", "allreduce,alltwoall", "part", "alltwoall matches no function"),
    ("COMMTAP_RIGN", "64", "part", "no knob is called COMMTAP_RIGN"),
    ("COMMTAP_RING", "100", "part", "128 is used"),
    ("COMMTAP_STACK", "deep", "part", "is not understood"),
    ("COMMTAP_DIR", "/tmp/%x", "part", "'%x' stands for nothing"),
    ("COMMTAP_GPU_TIMING", "off", "part", "switched off"),
])
def test_knobs_that_are_set_wrongly(name, value, state, text):
    found = doctor(environment={name: value}, codes=[int(state == "blocked")])
    assert any(text in one for one in said(found, state))
    assert found["state"] == state


def test_knobs_that_are_set_rightly():
    found = doctor(environment={"COMMTAP_OPS": "allreduce,!bcast", "COMMTAP_RING": "128", "COMMTAP_STACK": "site"})
    assert found["state"] == "fine" and said(found, "fine", "knobs")


def test_where_dumps_go(tmp_path):
    found = doctor(environment={"COMMTAP_DIR": "/dev/shm/%u/x"})["dumps"]
    assert found["mapped"] is True and found["file_system"] == "tmpfs" and found["staged_in"] is None
    assert found["directory"].startswith("/dev/shm/") and not os.path.exists(found["directory"])
    for place in ("/proc/x", "/proc", "/sys/kernel/x"):  # nobody can, though root's rights would allow it
        found = doctor(environment={"COMMTAP_DIR": place}, codes=[1])
        assert found["dumps"]["file_system"] is None and place in said(found, "blocked", "dumps")[0]
    file = tmp_path / "file"
    file.write_text("")
    found = doctor(environment={"COMMTAP_DIR": str(file / "dumps")}, codes=[1])
    assert "Not a directory" in said(found, "blocked", "dumps")[0]


def test_without_a_knob_they_go_here(tmp_path):
    found = doctor(cwd=tmp_path)["dumps"]
    assert found["directory"] == str(tmp_path / "commtap-<run id>") and not list(tmp_path.iterdir())


@pytest.mark.parametrize("megabytes, state", [(2, "part"), (8, "fine")])
def test_limit_of_file_sizes(megabytes, state):
    found = doctor(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (megabytes << 20, megabytes << 20)))
    assert said(found, state, "limits")


def kill_at_bad_signal_masks():
    """A seccomp filter that kills for rt_sigprocmask with an operation that there is not, as the library calls it."""
    def step(code, when, otherwise, value):
        return code.to_bytes(2, "little") + bytes([when, otherwise]) + value.to_bytes(4, "little")
    number = {"x86_64": 14, "aarch64": 135}[os.uname().machine]
    program = b"".join([step(0x20, 0, 0, 0), step(0x15, 0, 3, number), step(0x20, 0, 0, 16), step(0x15, 0, 1, 0xFFFFFFFF),
                        step(0x06, 0, 0, 0x80000000), step(0x06, 0, 0, 0x7FFF0000)])
    libc = ctypes.CDLL(None, use_errno=True)
    steps = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if libc.prctl(22, 2, ctypes.byref(Program(6, ctypes.addressof(steps))), 0, 0) != 0:  # PR_SET_SECCOMP
        os._exit(77)


def test_a_filter_that_kills_for_the_librarys_calls():
    found = doctor(preexec_fn=kill_at_bad_signal_masks, codes=[1])
    assert "a seccomp filter is in force" in said(found, "blocked", "process")[0]


def test_a_tracer_is_named():
    libc = ctypes.CDLL(None, use_errno=True)
    traced = subprocess.Popen([jobs.COMMTAP, "doctor", "--format", "json"], text=True, stdout=subprocess.PIPE,
                              preexec_fn=lambda: libc.ptrace(0, 0, None, None))  # PTRACE_TRACEME
    while os.WIFSTOPPED(status := os.waitpid(traced.pid, 0)[1]):  # at its exec, and at signals such as SIGCHLD
        signal = os.WSTOPSIG(status) if os.WSTOPSIG(status) != 5 else 0
        libc.ptrace(7, traced.pid, None, ctypes.c_void_p(signal))  # PTRACE_CONT
    text = traced.stdout.read()
    assert f"process {os.getpid()} traces this one" in said(json.loads(text), "part", "process")[0]


# ---- the other commands point to it -------------------------------------------------------------------------------


def test_text_says_what_to_do(tmp_path):
    done = jobs.commtap("doctor", "--", build(tmp_path, NOTHING, "-static"), codes=[1]).stdout
    assert done.startswith("blocked  program") and "to do: link it without -static" in " ".join(done.split())
    assert "commtap doctor COMMAND..." in jobs.commtap("doctor").stdout


def test_report_without_dumps_points_to_it(tmp_path):
    assert "commtap doctor COMMAND" in jobs.commtap("report", tmp_path, codes=[3]).stderr


def test_report_of_a_job_without_calls_points_to_it(tmp_path):
    jobs.need_mpi("openmpi")
    source = tmp_path / "silent.c"
    source.write_text("#include <mpi.h>\nint main(void) { MPI_Init(0, 0); return MPI_Finalize(); }\n")
    subprocess.run(["mpicc.openmpi", source, "-o", tmp_path / "silent"], check=True)
    jobs.run("openmpi", 2, [str(tmp_path / "silent")], tmp_path / "dumps")
    found = {one["code"]: one["text"] for one in jobs.report(tmp_path / "dumps")["findings"]}
    assert "commtap doctor COMMAND" in found["no_calls"] and "no_collectives" not in found


# ---- where dumps would go -----------------------------------------------------------------------------------------


def test_what_only_the_job_knows_stays_in_the_name_of_the_directory(tmp_path):
    pattern = f"{tmp_path}/of/%r/100%%"
    assert any(f"they go to {pattern} (COMMTAP_DIR)" in text
               for text in said(doctor(environment={"COMMTAP_DIR": pattern}), "fine", "dumps"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes links of other users")
@pytest.mark.parametrize("behind", ["", "/below"])
def test_a_link_of_another_user_is_not_followed(behind, tmp_path):
    """As the library refuses it, whether or not it leads anywhere."""
    (tmp_path / "public").mkdir()
    (tmp_path / "public").chmod(0o1777)
    link = tmp_path / "public" / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for leads in (False, True):
        if leads:
            (tmp_path / "elsewhere").mkdir()
        os.chown(link, 12345, 12345, follow_symlinks=False)
        found = doctor(environment={"COMMTAP_DIR": f"{link}{behind}"}, codes=(1, 2, 3))
        assert any(f"behind {link}, a link that another user" in text for text in said(found, "blocked", "dumps"))
    os.chown(link, 0, 0, follow_symlinks=False)
    assert said(doctor(environment={"COMMTAP_DIR": f"{link}{behind}"}), "blocked", "dumps") == []


def test_a_share_of_no_jobs_is_no_recording():
    assert any("COMMTAP_SHARE is 0" in text for text in said(doctor("true", environment={"COMMTAP_SHARE": "0"}, codes=(0, 1)),
                                                            "blocked", "knobs"))
    assert any("5 % of the jobs" in text for text in said(doctor("true", environment={"COMMTAP_SHARE": "5"}), "part", "knobs"))
