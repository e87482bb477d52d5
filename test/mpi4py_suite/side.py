# SPDX-License-Identifier: Apache-2.0
#
# mpi4py's tests on one cell, with commtap or without: started, watched, killed where they hang, read.
# Must not live here: what is compared with what (compare.py).
#
# A job that dies or hangs in a test is followed by one that goes on behind it: every test has its turn.
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import time
import uuid

import jobs

EMIT = pathlib.Path(__file__).parent / "emit.py"
# A job hangs when no rank begins or ends a test for STALL seconds, in which it either sleeps or had BUSY seconds of
# processor time for each rank: more than any test takes (on a busy machine, tests that wait by spinning take minutes).
# And after LONGEST seconds whatever it does.
STALL, SLEEPING, BUSY, LONGEST = 45, 0.5, 10, 150
MARK = "MPI4PY_SUITE_JOB"  # spawned processes have left the launcher's group; they inherit this
JOBS = 12  # at most, for one side: a library that breaks every test must not take hours


@dataclasses.dataclass
class Side:
    """What the tests gave: (rank, test) -> outcomes in order. What is not a test has rank -1."""

    outcomes: dict = dataclasses.field(default_factory=dict)
    seconds: float = 0
    directories: list = dataclasses.field(default_factory=list)  # of the dumps


def _processes_marked(mark):
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def _kill(process, mark):
    """The launcher first, which takes its ranks along; then whoever is left of the job."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            pass
    for pid in _processes_marked(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def _processor_seconds(mark):
    ticks = 0
    for pid in _processes_marked(mark):
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


def _hangs(stalled, used, ranks):
    """Does a job hang that has not moved for so many seconds and used so much processor time in them?"""
    return stalled > LONGEST or stalled > STALL and not SLEEPING < used < BUSY * ranks


def _watch(process, files, mark):
    """Waits for the end; False when the job hangs."""
    size, since, used_before = -1, 0, None
    while process.poll() is None:
        time.sleep(0.1)
        grown, stalled = sum(path.stat().st_size for path in files if path.exists()), time.monotonic() - since
        if grown != size:
            size, since, used_before = grown, time.monotonic(), None
        elif stalled > 1 and used_before is None:
            used_before = _processor_seconds(mark)
        elif stalled > STALL and _hangs(stalled, _processor_seconds(mark) - used_before, len(files)):
            return False
    return True


def read(lines, how_it_ended):
    """({test: outcomes}, number of the last test begun, did the rank come to its end) from what one rank wrote."""
    found, current, number, finished = {}, None, 0, False
    for event in map(json.loads, lines):
        if "outcome" in event:
            found[event["test"]] = (*found.get(event["test"], ()), event["outcome"])
        if "begin" in event:
            current, number = event["begin"], event["number"]
        elif "end" in event:
            current = None
        finished = finished or "finished" in event
    if current:
        found[current] = (*found.get(current, ()), how_it_ended)
    return found, number, finished


def _job(cell, ranks, directory, preload, selection):
    """({(rank, test): outcomes}, how it ended, the number of the test after which to go on or 0)"""
    directory.mkdir(parents=True)
    files, mark = [directory / f"rank.{rank}" for rank in range(ranks)], uuid.uuid4().hex
    ours = {"LD_PRELOAD": str(jobs.SHIM), "COMMTAP_DIR": str(directory / "dumps")} if preload else {}
    command = [cell.python, str(EMIT), str(cell.tests), str(directory / "rank"), *selection]
    with open(directory / "output", "w") as text:
        process = subprocess.Popen(cell.launch_line(ranks, command, ours), stdin=subprocess.DEVNULL, stdout=text,
                                   stderr=text, cwd=directory, env={**jobs.clean_environment(), **dict(cell.mpi.settings), MARK: mark},
                                   start_new_session=True)
        try:
            ended = _watch(process, files, mark)
        finally:
            _kill(process, mark)
    results = [read(file.read_text().splitlines() if file.exists() else (), "died" if ended else "hung")
               for file in files]
    outcomes = {(rank, test): outcome for rank, result in enumerate(results) for test, outcome in result[0].items()}
    if all(finished for _, _, finished in results):
        return outcomes, f"exit {process.returncode}" if ended else "hung after the last test", 0
    return outcomes, "died before its first test" if ended else "hung before its first test", max(r[1] for r in results)


def run(cell, ranks, directory, preload, selection=()):
    """Runs the tests of a cell; `selection`: more words for emit.py. The dumps lie in directory/N/dumps."""
    side, after, complaints, started = Side(), 0, set(), time.monotonic()
    for number in range(JOBS):
        place = directory / str(number)
        outcomes, end, reached = _job(cell, ranks, place, preload, [*selection, "--after", str(after)])
        side.outcomes.update(outcomes)
        side.directories.append(place / "dumps")
        output = (place / "output").read_text(errors="replace")
        complaints |= {line for line in output.splitlines() if line.startswith("commtap:")}
        if reached <= after:
            break
        after, end = reached, f"given up after {JOBS} jobs"
    side.outcomes[-1, "end of the job"] = (end,)
    side.outcomes[-1, "lines of commtap"] = tuple(sorted(complaints))
    side.seconds = time.monotonic() - started
    return side
