# SPDX-License-Identifier: Apache-2.0
#
# What is said where recording was not whole, or not there: it is so, with its reason, and nobody else is blamed for it.
# Must not live here: full disks (test_filesystems.py, test_surroundings.py), knobs that mean nothing (there, too).
import os
import re
import subprocess

import pytest

import jobs


def run(*words, cwd, environment=None):
    done = subprocess.run([str(jobs.COMMTAP), "run", "-o", "dumps", "--", *map(str, words)], capture_output=True,
                          text=True, timeout=60, cwd=cwd, env={**jobs.clean_environment(), **(environment or {})})
    return done.returncode, [line for line in done.stderr.splitlines() if "no dump was written" in line]


def built(path, source, *options):
    path.with_suffix(".c").write_text(source, encoding="utf-8")
    subprocess.run(["cc", path.with_suffix(".c"), "-o", path, *options], check=True)
    return path


def coverage_line(where):
    text = jobs.commtap("report", where).stdout
    return re.search(r"^Coverage\n((?:  .*\n)+)", text, re.M)[1]


def findings(where):
    return {finding["code"]: finding["text"] for finding in jobs.report(where)["findings"]}


# ---- why there is no dump -------------------------------------------------------------------------------------------


def test_a_library_loaded_with_deepbind_is_not_called_static(mpi, tmp_path):
    jobs.need_mpi(mpi)
    line = jobs.launch_line(mpi, 2, [jobs.program(mpi, "deepbind"), jobs.program(mpi, "deepbind.so")], {})
    status, said = run(*line, cwd=tmp_path)
    assert status == 0 and len(said) == 1
    assert "RTLD_DEEPBIND" in said[0] and "is statically linked" not in said[0]


def test_a_launcher_that_refuses_is_what_is_spoken_of(mpi, tmp_path):
    """Of more ranks than there are slots Open MPI runs none; hydra knows no such option."""
    jobs.need_mpi(mpi)
    wrong = {"openmpi": ["-n", "4", "--host", "localhost:2", "--nooversubscribe"], "mpich": ["--no-such-option"]}[mpi]
    status, said = run(f"mpirun.{mpi}", *wrong, jobs.program(mpi, "ending"), cwd=tmp_path,
                       environment={"OMPI_MCA_rmaps_base_oversubscribe": "0"})
    assert status != 0 and len(said) == 1
    assert f"mpirun.{mpi} ended with exit status {status}" in said[0] and "static" not in said[0]


def test_a_job_that_failed_before_it_communicated(tmp_path):
    assert "'sh' ended" not in run("sh", "-c", "exit 3", cwd=tmp_path)[1][0]
    assert "sh ended with exit status 3" in run("sh", "-c", "exit 3", cwd=tmp_path)[1][0]
    assert "sh was ended by signal 9" in run("sh", "-c", "kill -9 $$", cwd=tmp_path)[1][0]


def test_an_exit_status_above_128_is_no_signal(tmp_path):
    """Open MPI's mpirun exits with 128 + the number of processes that could not be started."""
    status, said = run("sh", "-c", "exit 132", cwd=tmp_path)
    assert status == 132 and "sh ended with exit status 132" in said[0]


@pytest.mark.parametrize("words", [["{program}"], ["env", "A=1", "{program}"], ["nice", "-n", "3", "{program}"],
                                   ["{launcher}", "-n", "2", "--mca", "btl", "self", "-x", "HOME", "{program}"],
                                   ["{launcher}", "--bind-to", "none", "taskset", "-c", "0", "{program}"]])
def test_the_program_is_told_from_the_launchers_words(words, tmp_path):
    """`mpirun` here runs what follows its options; its own kind plays no part."""
    static = built(tmp_path / "static", "int main(void) { return 0; }\n", "-static")
    launcher = tmp_path / "mpirun"
    launcher.write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo 'mpirun (Open MPI) 4.1'\nexit 0\n")
    launcher.chmod(0o755)
    status, said = run(*(word.format(program=static, launcher=launcher) for word in words), cwd=tmp_path)
    assert status == 0 and f"{static} is statically linked" in said[0]


def test_an_argument_that_is_a_static_program_is_not_the_program(tmp_path):
    static = built(tmp_path / "static", "int main(void) { return 0; }\n", "-static")
    dynamic = built(tmp_path / "dynamic", "int main(void) { return 0; }\n")
    status, said = run(dynamic, static, cwd=tmp_path)
    assert status == 0 and "is statically linked" not in said[0] and str(static) not in said[0]


def test_a_program_that_has_mpi_in_it(tmp_path):
    program = built(tmp_path / "whole", "int PMPI_Init(void) { return 0; }\nint main(void) { return PMPI_Init(); }\n")
    assert f"{program} has MPI linked into it statically" in run(program, cwd=tmp_path)[1][0]


def test_a_program_that_calls_pmpi_alone(mpi, tmp_path):
    jobs.need_mpi(mpi)
    source = "#include <mpi.h>\nint main(void) { PMPI_Init(0, 0); return PMPI_Finalize(); }\n"
    (tmp_path / "direct.c").write_text(source)
    subprocess.run([f"mpicc.{mpi}", tmp_path / "direct.c", "-o", tmp_path / "direct"], check=True)
    _, said = run(*jobs.launch_line(mpi, 2, [str(tmp_path / "direct")], {}), cwd=tmp_path)
    assert f"{tmp_path}/direct calls PMPI functions itself" in said[0]


def test_commtap_mpi_is_not_recorded_and_that_is_all_there_is_to_say(mpi, tmp_path):
    jobs.need_mpi(mpi)
    program = jobs.BUILD / f"commtap-mpi.{mpi}"
    _, said = run(*jobs.launch_line(mpi, 2, [str(program), "--version"], {}), cwd=tmp_path)
    assert f"{program} is a part of commtap, which is never recorded" in said[0]
    checked = subprocess.run([jobs.COMMTAP, "doctor", program], text=True, stdout=subprocess.PIPE)
    told = " ".join(checked.stdout.split())
    assert "is a part of commtap, which is never recorded" in told and "itself" not in told


# ---- what a dump does not hold --------------------------------------------------------------------------------------


def test_calls_behind_the_programs_own_functions_are_counted_and_said(mpi, where):
    jobs.run(mpi, 2, [jobs.program(mpi, "own")], where)
    ops = jobs.without_size(jobs.seen(jobs.summary(where)))
    assert "MPI_Allreduce" not in ops and ops["MPI_Bcast"] == 2 * 30
    said = findings(where)["pmpi_calls"]
    assert said.startswith("60 calls of 2 ranks") and "PMPI_Allreduce" in said
    assert "PMPI" in coverage_line(where) and "hold every call" not in coverage_line(where)


def test_calls_that_the_library_makes_itself_are_not_taken_for_the_programs(mpi, where):
    """MPI's own libraries call PMPI functions, also outside of any call that is intercepted."""
    jobs.run(mpi, 2, [jobs.program(mpi, "collectives")], where)
    assert "pmpi_calls" not in findings(where)


def test_a_tool_in_front_hides_calls_and_a_tool_behind_does_not(mpi, where, tmp_path):
    command, tool = [jobs.program(mpi, "train"), "--steps", "20"], jobs.program(mpi, "tool.so")
    jobs.run(mpi, 2, command, where, environment={"LD_PRELOAD": f"{tool}:{jobs.SHIM}"})
    jobs.run(mpi, 2, command, tmp_path / "behind", environment={"LD_PRELOAD": f"{jobs.SHIM}:{tool}"})
    said = findings(where)
    assert said["pmpi_calls"].startswith("84 calls of 2 ranks")  # Init, 40 Allreduce, Finalize
    assert "PMPI_Init" in said["pmpi_calls"] and "no_finalize" not in said
    assert "pmpi_calls" not in findings(tmp_path / "behind")


def test_a_filter_in_force_is_said_and_the_totals_claim_no_more(mpi, where, tmp_path):
    command = [jobs.program(mpi, "collectives")]
    jobs.run(mpi, 2, command, where, knobs={"COMMTAP_OPS": "all*,!allgather*"})
    assert "all*,!allgather*" in findings(where)["filtered"]
    assert "COMMTAP_OPS" in coverage_line(where) and "hold every call" not in coverage_line(where)
    assert "these totals hold the functions that COMMTAP_OPS names" in jobs.commtap("summary", where).stdout
    assert jobs.summary(where)["coverage"]["totals_complete"] is False
    jobs.run(mpi, 2, command, tmp_path / "all", knobs={"COMMTAP_OPS": "*"})
    assert "filtered" not in findings(tmp_path / "all") and "hold every call" in coverage_line(tmp_path / "all")
    assert "these totals" not in jobs.commtap("summary", tmp_path / "all").stdout
    assert jobs.summary(tmp_path / "all")["coverage"]["totals_complete"] is True


def test_a_region_in_force_is_said_and_the_totals_claim_no_more(mpi, where):
    jobs.run(mpi, 2, [jobs.program(mpi, "pcontrol")], where, knobs={"COMMTAP_REGION": "pcontrol"})
    said = findings(where)
    assert said["region"].startswith("2 ranks") and "COMMTAP_REGION=pcontrol" in said["region"]
    assert "paused" not in said
    assert "COMMTAP_REGION" in coverage_line(where) and "hold every call" not in coverage_line(where)
    assert jobs.summary(where)["coverage"]["totals_complete"] is False


def test_pauses_are_said(mpi, where):
    jobs.run(mpi, 2, [jobs.program(mpi, "pcontrol")], where)
    assert "MPI_Pcontrol(0) paused recording" in findings(where)["paused"]
    assert "hold every call" not in coverage_line(where)


# ---- who comes late to the end ---------------------------------------------------------------------------------------

LATE = """#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 1 && rank == 1)
        sleep(3);
    return MPI_Finalize();
}
"""


def test_who_comes_late_to_finalize_is_said_and_not_accused(mpi, tmp_path):
    """Once, so that nobody is slow for it; who writes what was found is mostly the only one that knows."""
    jobs.need_mpi(mpi)
    (tmp_path / "late.c").write_text(LATE, encoding="utf-8")
    subprocess.run([f"mpicc.{mpi}", tmp_path / "late.c", "-o", tmp_path / "late"], check=True)
    jobs.run(mpi, 3, [str(tmp_path / "late"), "late"], tmp_path / "dumps")
    said = findings(tmp_path / "dumps")
    assert re.match(r"ranks 0, 2 waited in MPI_Finalize for rank 1, which came \d\.\d+ s after all others",
                    said["late_finalize"])
    assert "straggler" not in said
    assert "late_finalize" not in findings_of_a_part(tmp_path / "dumps", "--to", "0.001")


def findings_of_a_part(where, *options):
    return {finding["code"] for finding in jobs.document("report", *options, where)["findings"]}


# ---- more ranks than processors -------------------------------------------------------------------------------------


def test_ranks_that_outnumber_their_processors_are_said(mpi, where, tmp_path):
    command, one = [jobs.program(mpi, "ending"), "proper"], {min(os.sched_getaffinity(0))}
    pinned = {"preexec_fn": lambda: os.sched_setaffinity(0, one)}
    assert jobs.start(jobs.job_line(mpi, 3, command, where), **pinned).wait(60) == 0
    said = findings(where)["oversubscribed"]
    assert re.match(r"3 ranks share the 1 processor that they may run on", said) and "may be more than is said" in said
    assert jobs.start(jobs.job_line(mpi, 1, command, tmp_path / "alone"), **pinned).wait(60) == 0
    assert "oversubscribed" not in findings(tmp_path / "alone")
