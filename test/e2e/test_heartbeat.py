# SPDX-License-Identifier: Apache-2.0
#
# Jobs that hang and are killed without `commtap run`: what is said of them afterwards, with the heartbeat and without.
# Must not live here: made-up notes (test/unit/test_beats.c), who takes them (test/unit/test_heartbeat.c).
import contextlib
import os
import pathlib
import signal
import struct
import time

import pytest

import jobs

pytestmark = pytest.mark.hangs

RANKS = 3
STAND = 1.5  # seconds that all are noted to have hung: far more than such calls took before
SECTIONS_AT, SECTION_BYTES, BEATS, ROW_BYTES = 1608, 32, 18, 32  # shim/format.h


def beats(dump):
    """Rows of who was alive when: (dump, seen_ns, gone_ns, pid)."""
    data = dump.read_bytes()
    for at in range(SECTIONS_AT, SECTIONS_AT + 160 * SECTION_BYTES, SECTION_BYTES):
        kind, _, offset, _, count, size = struct.unpack_from("<IIQQII", data, at)
        if kind == BEATS:
            assert size == ROW_BYTES
            rows = (struct.unpack_from("<QQQq", data, offset + i * size) for i in range(count))
            return [row for row in rows if row[0]]
    return []


def wait_until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_noted(where, since, pids, ranks=RANKS):
    """Whether some process noted that these lived since then, and for a second since all others were found gone."""
    for dump in jobs.dumps(where):
        rows = {pid: (seen, gone) for _, seen, gone, pid in beats(dump)}
        lived = min((seen for pid, (seen, _) in rows.items() if pid in pids), default=0)
        others = [gone for pid, (_, gone) in rows.items() if pid not in pids]
        if len(rows) == ranks and lived >= since and all(0 < gone < lived - 1e9 for gone in others):
            return True
    return False


def gaps(where, pid, count=2, seconds=60):
    """Between that many beats of a process and the next ones, in seconds."""
    dump = next(dump for dump in jobs.dumps(where) if [row for row in beats(dump)[:1] if row[3] == pid])
    seen, end = [], time.monotonic() + seconds
    while len(seen) < count + 1:
        assert time.monotonic() < end
        now = beats(dump)[0][1]
        seen += [now] if now not in seen else []
        time.sleep(0.05)
    return [(after - before) / 1e9 for before, after in zip(seen, seen[1:])]


def beating(pid):
    """Threads of a process that note it."""
    names = [path.read_text().strip() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/comm")]
    return names.count("commtap-beat")


class Job:
    """Of "skip", rank 1 goes its own way, the others wait for it in an Allreduce."""

    def __init__(self, mpi, where, heartbeat="on", mode="skip", ranks=RANKS, **knobs):
        line = jobs.job_line(mpi, ranks, [jobs.program(mpi, "hang"), mode], where,
                             knobs={"COMMTAP_RING": "16", "COMMTAP_HEARTBEAT": heartbeat, **knobs})
        self.where, self.ranks, self.launcher = where, ranks, jobs.start(line)

    def come_to_hang(self):
        assert self.launcher.stdout.read(self.ranks * len("ready\n")).count("ready") == self.ranks
        rows = jobs.document("check", self.where, codes=(0, 1))["dumps"]
        self.pids = [pid for _, pid in sorted((row["rank"], row["pid"]) for row in rows)]

    def kill(self, *pids, apart=0.0):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            time.sleep(apart)

    def end(self):
        self.kill(*getattr(self, "pids", []), self.launcher.pid)
        jobs.stop(self.launcher)

    def diagnose(self):
        self.end()
        return jobs.document("diagnose", self.where)


@contextlib.contextmanager
def hanging(*jobs_):
    try:
        for job in jobs_:
            job.come_to_hang()
        yield
    finally:
        for job in jobs_:
            job.end()


def blamed(result):
    return {culprit["rank"]: culprit["state"] for culprit in result["culprits"]}


def test_that_it_stood_is_certain_however_it_was_killed(mpi, tmp_path):
    """Everything at once, the launcher first; or rank after rank, those first that note who lives."""
    at_once, in_turn, off = (Job(mpi, tmp_path / name, heartbeat)
                             for name, heartbeat in (("once", "on"), ("turn", "on"), ("off", "off")))
    with hanging(at_once, in_turn, off):
        since = time.monotonic_ns() + int(STAND * 1e9)
        wait_until(lambda: all(is_noted(job.where, since, job.pids) for job in (at_once, in_turn)))
        for job in (at_once, in_turn):
            assert [beating(pid) for pid in job.pids] == [1, 1, 0]
        assert [beating(pid) for pid in off.pids] == [0, 0, 0]
        at_once.kill(at_once.launcher.pid, *reversed(at_once.pids))
        in_turn.kill(*in_turn.pids, in_turn.launcher.pid, apart=0.2)
        off.kill(off.launcher.pid, *off.pids)
    for job in (at_once, in_turn):
        result = job.diagnose()
        assert result["verdict"] == "hang" and result["text"][0].startswith("hang, or a long pause"), result["text"]
        assert blamed(result) == {1: "in_user_code"}
        assert result["standing"]["kind"] == "long" and result["standing"]["seconds"] >= STAND, result["text"]
    result = off.diagnose()
    assert (result["verdict"], result["severity"]) == ("hang", "warning")
    assert result["text"][0].startswith("hang, unless it was killed at work")
    assert "nothing tells how long they went on after that" in " ".join(result["text"])


def test_how_long_a_circle_stood_is_certain(tmp_path):
    """Without the notes it may have been made the moment before all were killed."""
    noted, off = (Job("openmpi", tmp_path / heartbeat, heartbeat, mode="ring") for heartbeat in ("on", "off"))
    with hanging(noted, off):
        since = time.monotonic_ns() + int(STAND * 1e9)
        wait_until(lambda: is_noted(noted.where, since, noted.pids))
    for job, kind in ((noted, "long"), (off, "untold")):
        result = job.diagnose()
        text = " ".join(result["text"])
        assert (result["verdict"], result["severity"]) == ("deadlock", "error"), text
        assert result["standing"]["kind"] == kind, text
        assert (result["standing"]["seconds"] >= STAND) == ("nobody is to blame" not in text) == (kind == "long"), text


def test_who_died_at_work_is_told_by_the_others(tmp_path):
    """The launcher is held, so that it does not end the others; the dead one is one of the two that note who lives.
    A beat that is late on a busy machine makes one gap longer and the next one shorter."""
    job = Job("openmpi", tmp_path / "dumps", mode="moves")
    with hanging(job):
        wait_until(lambda: is_noted(job.where, 0, job.pids))
        between = gaps(job.where, job.pids[0])
        os.kill(job.launcher.pid, signal.SIGSTOP)
        job.kill(job.pids[1])
        wait_until(lambda: is_noted(job.where, 0, [job.pids[0], job.pids[2]]))
        job.kill(*job.pids)
    result = job.diagnose()
    assert (result["verdict"], result["severity"], blamed(result)) == ("dead_rank", "error", {1: "dead"}), result["text"]
    assert 1.2 < sum(between) / len(between) < 3, between


def test_who_died_before_the_first_note_is_told_by_the_others(tmp_path):
    """Beats are at even seconds: started just after one, the job hangs and loses a rank before the next, if the machine is
    not too busy."""
    wait_until(lambda: time.time() % 2 < 0.2)
    job = Job("openmpi", tmp_path / "dumps", mode="moves")
    with hanging(job):
        os.kill(job.launcher.pid, signal.SIGSTOP)
        job.kill(job.pids[1])
        wait_until(lambda: is_noted(job.where, 0, [job.pids[0], job.pids[2]]))
        job.kill(*job.pids)
    result = job.diagnose()
    assert (result["verdict"], result["severity"], blamed(result)) == ("dead_rank", "error", {1: "dead"}), result["text"]


def test_starts_side_by_side_tell_who_died_first(tmp_path):
    """An agent ends the others seconds later, and starts the job again: all of them were killed."""
    starts = [tmp_path / "first", tmp_path / "second"]
    for where in starts:
        job = Job("openmpi", where, mode="moves", COMMTAP_RUN_ID="again")
        with hanging(job):
            os.kill(job.launcher.pid, signal.SIGSTOP)
            if where == starts[0]:
                job.kill(job.pids[1])
                wait_until(lambda: is_noted(where, 0, [job.pids[0], job.pids[2]]))
            job.kill(*job.pids)
    first, second = jobs.document("report", *starts)["generations"]
    assert (first["dead_rank"], first["dead_after"], second["dead_rank"]) == (1, "replaced", None), (first, second)
    assert "died first" in jobs.commtap("report", *starts).stdout


def test_others_take_over_when_both_are_gone(tmp_path):
    """Both that note who lives die at once, the others hang for as long as nobody ends them: which of them died, and that
    the others went on, is told by those that come after."""
    job = Job("openmpi", tmp_path / "dumps", mode="moves", ranks=4)
    with hanging(job):
        wait_until(lambda: all({row[3] for row in beats(dump)} >= set(job.pids[:2]) for dump in jobs.dumps(job.where)))
        os.kill(job.launcher.pid, signal.SIGSTOP)
        job.kill(*job.pids[:2])
        wait_until(lambda: [beating(pid) for pid in job.pids[2:]] == [1, 1])
        wait_until(lambda: is_noted(job.where, 0, job.pids[2:], 4))
        job.kill(*job.pids)
    result = job.diagnose()
    assert (result["verdict"], result["severity"]) == ("dead_rank", "error"), result["text"]
    assert set(blamed(result)) <= {0, 1} and "dead" in blamed(result).values(), result["text"]
