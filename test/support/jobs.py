# SPDX-License-Identifier: Apache-2.0
#
# Running a program under a real MPI with commtap in front of it, and asking commtap what happened.
# Lives here: launch lines of both MPIs, both ways of using commtap, ledgers of the programs. Must not live here: tests.
import collections
import functools
import json
import os
import pathlib
import signal
import subprocess

import pytest

import schema

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("COMMTAP_BUILD", "build")
SHIM = BUILD / "libcommtap.so"
COMMTAP = BUILD / "commtap"
PROGRAMS = BUILD / "test" / "programs"
PYTHON = "/usr/bin/python3"
LIBRARY = {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}

# Lets Open MPI run as root and with more ranks than cores; MPICH needs none of it.
LAUNCHER_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_mpi_warn_on_fork": "0",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
}
# Calls that a program's ledger leaves out: they move nothing and are no part of a communicator's history.
AUXILIARY = {"MPI_Comm_set_name", "MPI_Type_free", "MPI_Pcontrol", "MPI_Abort"}


def clean_environment():
    """The caller's environment without anything of commtap's, and with what the launchers need."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COMMTAP_") and k != "LD_PRELOAD"}
    return {**kept, **LAUNCHER_ENVIRONMENT}


def program(mpi, name):
    return str(PROGRAMS / mpi / name)


@functools.lru_cache(maxsize=None)
def _lacks(package):
    return subprocess.run([str(ROOT / "scripts" / "install-deps"), "--has", package], stdout=subprocess.DEVNULL,
                          check=False).returncode != 0


def need(*packages):
    """Skips the test where what these packages bring is not here."""
    absent = [package for package in packages if _lacks(package)]
    if absent:
        pytest.skip(f"not here: {' '.join(absent)}")


def need_mpi(mpi):
    need(*{"openmpi": ["openmpi-bin", "libopenmpi-dev"], "mpich": ["mpich", "libmpich-dev"]}[mpi])


def launch_line(mpi, ranks, command, environment):
    """mpirun with `environment` handed to the ranks by the launcher's own means."""
    need_mpi(mpi)
    if command[0] == PYTHON and mpi == "openmpi":  # its programs are mpi4py's
        need("python3-mpi4py")
    if mpi == "openmpi":
        pairs = [word for key, value in environment.items() for word in ("-x", f"{key}={value}")]
        return ["mpirun.openmpi", "-n", str(ranks), *pairs, *command]
    pairs = [word for key, value in environment.items() for word in ("-genv", key, value)]
    return ["mpirun.mpich", "-n", str(ranks), *pairs, *command]


def job_line(mpi, ranks, command, directory, way="preload", knobs=None, environment=None):
    """The words that run `command` on `ranks` ranks with commtap writing to `directory`.

    way: "preload" (LD_PRELOAD and COMMTAP_DIR only), "run" (through `commtap run`), "none" (without commtap).
    """
    knobs, environment = dict(knobs or {}), dict(environment or {})
    if way == "none":
        return launch_line(mpi, ranks, command, environment)
    if way == "preload":
        preload = {"LD_PRELOAD": str(SHIM), "COMMTAP_DIR": str(directory)}
        return launch_line(mpi, ranks, command, {**preload, **environment, **knobs})
    pairs = [word for key, value in knobs.items() for word in ("-e", f"{key}={value}")]
    inner = launch_line(mpi, ranks, command, environment)
    return [str(COMMTAP), "run", "-o", str(directory), *pairs, "--", *inner]


def run(mpi, ranks, command, directory, timeout=120, check=True, **how):
    """Runs a job to its end; the CompletedProcess with text output. A job that hangs is killed as a whole."""
    line = job_line(mpi, ranks, command, directory, **how)
    process = start(line)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        stop(process)
        raise
    done = subprocess.CompletedProcess(line, process.returncode, out, err)
    if check:
        assert done.returncode == 0, f"{line}\n{out}\n{err}"
    return done


def start(line, **popen):
    """A job in a process group of its own, so that stop() reaches all of it."""
    popen = {"env": clean_environment(), "cwd": BUILD, **popen}
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                            text=True, start_new_session=True, **popen)


def stop(process):
    """Kills the launcher and, through it or by its group, the ranks; its output."""
    process.terminate()
    try:
        return process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate(timeout=20)


def end_as_a_scheduler_does(process):
    """SIGTERM to all of a job under `commtap run`. On a busy machine mpirun of Open MPI 4.1 may then stand for ever with
    all its ranks dead, without commtap too: it is killed, and `commtap run` sees its end."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        process.wait(timeout=20)


def commtap(*words, codes=(0,)):
    """Runs a command; what it prints as JSON is what the schema says."""
    words = [str(word) for word in words]
    done = subprocess.run([str(COMMTAP), *words], capture_output=True, text=True, timeout=120,
                          env={**clean_environment(), "NO_COLOR": "1"})
    assert done.returncode in codes, f"commtap {words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    if schema.definition_of(words):
        path = schema.value_of(words, "-o", None)
        text = pathlib.Path(path).read_text() if path and done.returncode in (0, 1) else done.stdout
        if text:
            schema.check(words, text)
    return done


def document(command, *words, **how):
    """What a command prints as JSON."""
    return json.loads(commtap(command, "--format", "json", *words, **how).stdout)


def report(directory):
    return document("report", directory)


def stragglers(result):
    """Those named, but for ranks that take turns: whoever a busy machine keeps from running does, really."""
    return [straggler for straggler in result["stragglers"] if straggler["kind"] != "rotating"]


def persistent(result):
    """Those slow in one part of the run out of twenty at least: calls matched with the wrong ones make a rank late for
    good, a busy machine stops it once or twice, really."""
    return [straggler for straggler in stragglers(result) if straggler["persistence"] >= 0.05]


def summary(directory, *options):
    return document("summary", *options, directory)


def records(directory, *options):
    """Every exported record, or row of another table: one JSON object per line."""
    lines = commtap("export", "--format", "jsonl", *options, directory).stdout.splitlines()
    return [json.loads(line) for line in lines]


def dumps(directory):
    return sorted(pathlib.Path(directory).glob("commtap.*.ct")) if pathlib.Path(directory).is_dir() else []


def seen(result):
    """(op, bytes of one call) -> calls of all ranks, as a summary or a report has them; unknown bytes stay None."""
    table = collections.Counter()
    for row in result["summary"]:
        if row["op"] not in AUXILIARY:
            table[row["op"], row["bytes"]] += row["count"]
    return dict(table)


def without_size(table):
    totals = collections.Counter()
    for (op, _), count in table.items():
        totals[op] += count
    return dict(totals)


def ledger(directory):
    """What the ranks of a program say they did: the same table, and their digests in rank order."""
    table, digests = collections.Counter(), {}
    for path in pathlib.Path(directory).glob("expect.*"):
        for line in path.read_text().splitlines():
            name, first, second = line.split()
            if name == "digest":
                digests[int(second)] = first
            else:
                table[name, int(first)] += int(second)
    return dict(table), [digests[rank] for rank in sorted(digests)]


@functools.lru_cache(maxsize=None)
def digests_without(mpi, ranks, command, directory):
    """Digests of a program's results when commtap is nowhere near."""
    os.makedirs(directory)
    run(mpi, ranks, list(command), None, way="none", environment={"EXPECT_DIR": str(directory)})
    return ledger(directory)[1]
