# SPDX-License-Identifier: Apache-2.0
#
# commtap top on real jobs that run, hang and have ended; its keys, and the terminal given back however it ends.
# Must not live here: figures of made-up readings (test/unit/test_live.c).
import contextlib
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

import jobs
import staged
from test_staging import shared, stubs  # noqa: F401

pytestmark = pytest.mark.hangs

RANKS = 4


@contextlib.contextmanager
def running(mpi, where, program, *words):
    process = jobs.start(jobs.job_line(mpi, RANKS, [jobs.program(mpi, program), *words], where))
    try:
        yield process
    finally:
        jobs.stop(process)


@contextlib.contextmanager
def hanging(mpi, where, mode="skip"):
    with running(mpi, where, "hang", mode) as process:
        assert process.stdout.read(RANKS * len("ready\n")).count("ready") == RANKS
        yield process


def top(where, *options, interval=1):
    return jobs.document("top", "--once", "--interval", interval, *options, where)


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def by_rank(result):
    return {row["rank"]: row for row in result["ranks"]}


# ---- real jobs


def test_a_job_that_runs(mpi, where):
    with running(mpi, where, "train", "--steps", "100000", "--slow-rank", "2", "--slow-ms", "300"):
        wait_for(lambda: len(jobs.dumps(where)) == RANKS)
        wait_for(lambda: top(where, interval=0.5)["ranks_moved"] == RANKS)
        rates = top(where, interval=2)
        # in most moments the others wait for the slow rank
        seen = [by_rank(top(where, interval=0.1)) for _ in range(8)]
    assert rates["ranks_alive"] == rates["ranks_moved"] == RANKS
    assert rates["verdict"] in (None, "ok") and rates["standing_seconds"] is None
    rows = by_rank(rates)
    assert all(1 < rows[rank]["calls_per_s"] < 20 for rank in rows)
    assert all(rows[0]["bytes_per_s"] == pytest.approx(rows[rank]["bytes_per_s"], rel=0.5) for rank in rows)
    assert all(rows[rank]["wait_share"] > 0.6 for rank in (0, 1, 3)) and rows[2]["wait_share"] < 0.5
    for_slow = [rows for rows in seen if rows[2]["state"] == "computing" and rows[0]["waits_for"] == [2]]
    assert len(for_slow) > len(seen) / 2
    assert all(rows[2]["call"] is None and rows[2]["behind"] == 1 and rows[2]["waited_by"] >= 1 for rows in for_slow)


def test_a_job_that_hangs(mpi, where):
    with hanging(mpi, where):
        result = top(where)
        text = jobs.commtap("top", "--once", where).stdout
        told = jobs.document("diagnose", where)
    rows = by_rank(result)
    assert (result["verdict"], result["culprits"]) == ("hang", [{"rank": 1, "state": "in_user_code"}])
    assert told["verdict"] == result["verdict"] and [c["rank"] for c in told["culprits"]] == [1]
    assert result["ranks_moved"] == 0 and result["standing_seconds"] > 0
    assert (rows[1]["state"], rows[1]["doing"], rows[1]["behind"], rows[1]["waited_by"]) == ("computing", "computing", 1, 3)
    for rank in (0, 2, 3):
        assert (rows[rank]["call"], rows[rank]["waits_for"], rows[rank]["behind"]) == ("MPI_Allreduce", [1], 0)
        assert rows[rank]["since_seconds"] >= result["standing_seconds"] and rows[rank]["wait_share"] > 0.99
        assert rows[rank]["calls_per_s"] == 0
    assert "nothing has moved" in text and "hang, or a long pause: rank 1 is in its own code" in text and "3 wait for rank 1" in text


def test_what_a_paused_recording_does_not_tell_is_not_shown_as_nothing(mpi, where):
    with running(mpi, where, "train", "--steps", "100000"):
        wait_for(lambda: len(jobs.dumps(where)) == RANKS)
        wait_for(lambda: top(where, interval=0.5)["ranks_moved"] == RANKS)
        for order in ("pause", "resume"):
            jobs.commtap("ctl", where, order)
            assert {row["calls_per_s"] is None for row in top(where)["ranks"]} == {order == "pause"}
            text = jobs.commtap("top", "--once", where).stdout
            assert (f"recording is paused by commtap ctl on {RANKS} ranks" in text) == (order == "pause")


def test_another_job_in_the_directory_is_named(where):
    with hanging("openmpi", where):
        only = jobs.commtap("top", "--once", "--interval", "0.1", where)
        assert only.stderr == ""
        with hanging("openmpi", where):
            for words in (["top", "--once", "--interval", "0.1", where], ["ctl", where]):
                said = jobs.commtap(*words, codes=(0, 1)).stderr
                named = rf"commtap {words[0]}: this is (\S+); --run takes what else runs there: (\S+)\n"
                shown, other = re.fullmatch(named, said).groups()
                assert shown != other and jobs.commtap(*words, "--run", other, codes=(0, 1)).stderr == ""


def test_a_job_that_has_ended(mpi, where):
    jobs.run(mpi, RANKS, [jobs.program(mpi, "train"), "--steps", "3"], where)
    result = top(where)
    assert {row["state"] for row in result["ranks"]} == {"finished"} and result["ranks_alive"] == 0
    assert result["interval_seconds"] is None and result["verdict"] == "ok"
    assert {row["calls_per_s"] for row in result["ranks"]} == {None}
    text = jobs.commtap("top", where).stdout  # no terminal: once
    assert "none of its ranks is at work any more" in text and text.count("finished") == RANKS


def test_rows_are_sorted_and_chosen(where):
    with hanging("openmpi", where):
        assert [row["rank"] for row in top(where, "--sort", "waited_by")["ranks"]][0] == 1
        assert [row["rank"] for row in top(where, "--rank", "0,3")["ranks"]] == [0, 3]
        nobody = jobs.commtap("top", "--once", "--interval", "0.1", "--rank", "77", where, codes=(3,))
        assert "no process has one of these ranks" in nobody.stderr
    for words in (["--sort", "nothing"], ["--interval", "0"], ["--interval", "nan"], ["--rank", "x"]):
        assert jobs.commtap("top", *words, where, codes=(2,)).stdout == ""
    assert jobs.commtap("top", where.parent, "--once", codes=(0, 3)).returncode == 0
    (where.parent / "empty").mkdir()
    jobs.commtap("top", where.parent / "empty", codes=(3,))


# ---- other hosts


def test_ranks_on_another_host(shared, tmp_path):  # noqa: F811
    """Rank 3 is made one of another host, which has our /dev/shm and a boot id of its own."""
    where = shared / "dumps"
    ssh, boot_id = staged.play_another_host(tmp_path)
    with hanging("openmpi", where):
        staged.move_rank(stubs(where), 3, boot_id)
        unasked, text = top(where), jobs.commtap("top", "--once", where).stdout
        asked = top(where, "--ssh", ssh)
        refused = top(where, "--ssh", "/bin/false")
        left = sorted(path.name for path in where.iterdir())
    for result in (unasked, refused):
        row = by_rank(result)[3]
        assert (row["state"], row["host"], row["calls_per_s"]) == ("not_reachable", "far1", None)
        assert (result["ranks_seen"], result["ranks_missing"]) == (RANKS - 1, 0)
    assert "on far1, not reachable" in text and "--ssh ssh" in text
    row = by_rank(asked)[3]
    assert (row["state"], row["call"], row["waits_for"]) == ("waiting", "MPI_Allreduce", [1])
    assert asked["ranks_seen"] == RANKS and row["since_seconds"] is not None
    assert asked["ranks_alive"] == RANKS and asked["verdict"] == "hang"
    assert not [name for name in left if name.endswith(".ct")]  # the job's directory is as it was
    assert not list(pathlib.Path("/tmp").glob("commtap-top-*/commtap.*"))


# ---- the terminal


class Screen:
    """commtap top on a terminal of its own."""

    def __init__(self, *words, rows=24, columns=110, shell=()):
        self.ours, self.theirs = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.theirs)
        self.text = b""
        self.process = subprocess.Popen([*shell, str(jobs.COMMTAP), "top", *map(str, words)], stdin=self.theirs, stdout=self.theirs,
                                        stderr=self.theirs, env=jobs.clean_environment(), preexec_fn=self.take)

    def take(self):
        os.setsid()
        fcntl.ioctl(self.theirs, termios.TIOCSCTTY, 0)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):  # what a shell in the background or nohup ignores
            signal.signal(number, signal.SIG_DFL)

    def resize(self, rows, columns):
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        if select.select([self.ours], [], [], seconds)[0]:
            self.text += os.read(self.ours, 65536)

    def until(self, *words, seconds=20):
        """The first frame from now on that has all of these words."""
        end = time.monotonic() + seconds
        while True:
            frames = self.text.split(b"\033[H")
            for frame in frames[1:]:
                if b"\033[J" in frame and all(word.encode() in frame for word in words):
                    self.text = b""
                    return frame.decode()
            assert time.monotonic() < end, (words, self.text[-3000:].decode())
            self.read(0.2)

    def press(self, keys):
        self.text = b""
        os.write(self.ours, keys.encode())

    def end(self):
        """Exit status; the terminal is as it was, and shows what it showed before."""
        wait_for(lambda: self.read(0.05) or self.process.poll() is not None)
        while select.select([self.ours], [], [], 0.2)[0]:
            self.read(0)
        assert termios.tcgetattr(self.theirs) == self.before
        assert self.text.rstrip().endswith(b"\033[?7h\033[?25h\033[?1049l"), self.text[-200:]
        os.close(self.ours)
        os.close(self.theirs)
        return self.process.returncode


@pytest.fixture(scope="module")
def stuck(tmp_path_factory):
    where = tmp_path_factory.mktemp("top") / "dumps"
    with hanging("openmpi", where):
        yield where


def ranks_in(frame):
    return [int(line.split()[0]) for line in frame.split("awaited by")[1].splitlines()[1:] if line.split()[:1] and line.split()[0].isdigit()]


def test_keys(stuck):
    screen = Screen("--interval", "0.5", stuck)
    assert "\033[?1049h" in screen.text.decode() or screen.until("by rank")
    frame = screen.until("nothing has moved", "hang, or a long pause: rank 1")  # within seconds
    assert ranks_in(frame) == [0, 1, 2, 3]
    screen.press("r")
    assert ranks_in(screen.until("by rank reversed")) == [3, 2, 1, 0]
    screen.press("rsss")  # host, doing, since
    screen.until("by since ")
    screen.press("SSS")
    screen.until("by rank ")
    screen.press("/0,2\r")
    assert ranks_in(screen.until("only '0,2'")) == [0, 2]
    screen.press("\033")
    screen.until("by rank ")
    screen.press("/comput\r")
    assert ranks_in(screen.until("only 'comput'")) == [1]
    screen.press("\033")
    screen.until("by rank ")
    screen.press("h")
    screen.until("Esc back", "calls/s")
    screen.press("\033")
    screen.until("by rank ")
    screen.press("d")
    screen.until("hang, or a long pause: the others wait for rank 1", "never entered")
    screen.press("d")
    screen.until("by rank ")
    screen.press("d")
    screen.until("never entered")
    screen.press("\033")
    screen.until("by rank ")
    screen.press("q")
    assert screen.end() == 0


@pytest.mark.parametrize("there", [True, False])
def test_waits_for_a_job_that_has_not_begun(there, tmp_path):
    where = tmp_path / "dumps"
    if there:
        where.mkdir()
    screen = Screen("--interval", "0.2", where)
    wait_for(lambda: screen.read(0.1) or b"waiting for a job" in screen.text)
    with hanging("openmpi", where):
        assert ranks_in(screen.until("by rank", "nothing has moved")) == [0, 1, 2, 3]
        screen.press("q")
        assert screen.end() == 0
    (tmp_path / "file").write_text("")
    jobs.commtap("top", "--once", tmp_path / "none", codes=(3,))
    assert "is not a directory" in jobs.commtap("top", tmp_path / "file", codes=(3,)).stderr


def lines_of(frame):
    return frame.split("\n")


def test_other_sizes(stuck):
    screen = Screen("--interval", "0.5", "--color", "never", stuck, rows=30, columns=120)
    assert len(lines_of(screen.until("by rank"))) == 30
    screen.resize(8, 40)
    wait_for(lambda: len(lines_of(screen.until("by rank"))) == 8)
    frame = screen.until("by rank")
    assert [line for line in lines_of(frame) if len(re.sub("\033\\[.|\r", "", line)) > 40] == []
    assert ranks_in(screen.until("by rank").replace("doin", "awaited by", 1)) == [0, 1, 2]
    screen.press("\033[B")  # one line down
    wait_for(lambda: ranks_in(screen.until("by rank").replace("doin", "awaited by", 1)) == [1, 2, 3])
    screen.press("q")
    assert screen.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV, signal.SIGABRT])
def test_signals_leave_the_terminal_as_it_was(number, stuck):
    screen = Screen("--interval", "0.5", stuck)
    screen.until("by rank")
    screen.process.send_signal(number)
    assert screen.end() == -number


# What a shell does: the program is a job of its own in front. Of one without a parent in its session nothing stops.
SHELL = """
import os, signal, sys
child = os.fork()
if child == 0:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
sys.exit(os.WTERMSIG(os.waitpid(child, 0)[1]))
"""


def test_ctrl_c_and_ctrl_z(stuck):
    screen = Screen("--interval", "0.5", stuck, shell=[jobs.PYTHON, "-c", SHELL])
    screen.until("by rank")
    job = os.tcgetpgrp(screen.ours)
    screen.press("\x1a")
    wait_for(lambda: screen.read(0.05) or screen.text.endswith(b"\033[?1049l"))
    wait_for(lambda: pathlib.Path(f"/proc/{job}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    assert termios.tcgetattr(screen.theirs) == screen.before
    screen.text = b""
    os.killpg(job, signal.SIGCONT)
    screen.until("by rank")
    assert termios.tcgetattr(screen.theirs) != screen.before
    screen.press("\x03")
    assert screen.end() == signal.SIGINT
