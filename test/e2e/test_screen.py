# SPDX-License-Identifier: Apache-2.0
#
# What commands print on a terminal: lines that fit it, whole columns, colours there and nowhere else.
# Must not live here: what the figures are.
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios

import pytest

import jobs

COMMANDS = [["report"], ["summary"], ["summary", "--by", "op,rank"], ["summary", "--transfers"], ["stragglers"], ["steps"],
            ["steps", "--by", "both"], ["links"], ["check"], ["diagnose"], ["calls"]]
WIDTH = 80


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    where = tmp_path_factory.mktemp("screen") / "dumps"
    jobs.run("openmpi", 4, [jobs.program("openmpi", "train"), "--steps", "40", "--slow-rank", "1", "--slow-ms", "3"], where)
    return where


@pytest.fixture(scope="module")
def many_records(tmp_path_factory):
    """Enough that the walk over them tells how far it is more than once (every 131,072 records)."""
    where = tmp_path_factory.mktemp("many")
    subprocess.run([jobs.BUILD / "test/bench/dumps", where, "64", "4096"], check=True)
    return where


def on_terminal(words, width, progress=False):
    """What a command prints on a terminal of that width; with `progress` what it shows there meanwhile."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen([str(jobs.COMMTAP), *map(str, words)], stdout=subprocess.DEVNULL if progress else theirs,
                               stderr=theirs if progress else subprocess.DEVNULL,
                               env={key: value for key, value in jobs.clean_environment().items() if key != "NO_COLOR"})
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    assert process.wait(60) == 0
    return text.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("words, stages", [(["html", "-o", "report.html"], ["writing"]),
                                           (["export", "--format", "sqlite", "-o", "job.db"], ["writing"]),
                                           (["timeline", "-o", "job.pftrace"], ["reading"])], ids=lambda item: item[0])
def test_who_waits_at_a_terminal_sees_how_far_it_is(words, stages, many_records, tmp_path):
    """Ever larger shares, the line is gone at the end, and nothing of it in a pipe."""
    words = [*words[:-1], tmp_path / words[-1], many_records]
    shown = on_terminal(words, WIDTH, progress=True)
    for stage in stages:
        shares = [int(share) for share in re.findall(rf"\rcommtap: {stage} (\d+) %", shown)]
        assert len(shares) > 1 and shares == sorted(set(shares)) and shares[-1] <= 100, shown
    assert shown.rstrip("\n").endswith("\r\033[K"), shown
    assert "%" not in jobs.commtap(*words[:1], "--force", *words[1:]).stderr


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_lines_fit_a_terminal(words, dumps):
    narrow = on_terminal([*words, "--color", "never", dumps], WIDTH)
    told = str(dumps)
    assert [line for line in narrow.splitlines() if len(line) > WIDTH and told not in line and "programs" not in line] == []
    piped = jobs.commtap(*words, dumps).stdout
    headings = {line for line in piped.splitlines() if line.startswith(("rank  ", "op  ", "kind  ", "call site  "))}
    assert all(word in narrow for line in headings for word in line.split())  # no column is left out


def test_long_command_lines_and_notes_fit_a_terminal(dumps, tmp_path):
    """A program with a long name in a directory with another one, non-blocking calls, which have a note of their own, and
    two runs that are compared."""
    program, directory = tmp_path / ("x" * 150), tmp_path / ("w" * 120)
    shutil.copy(jobs.program("openmpi", "exchange"), program)
    directory.mkdir()
    line = jobs.job_line("openmpi", 2, [program, "halo", "5"], tmp_path / "dumps")
    assert jobs.start(line, cwd=directory).wait(timeout=120) == 0
    assert "in flight: from posting" in jobs.commtap("calls", tmp_path / "dumps").stdout.replace("\n", " ")
    assert all(letter in jobs.commtap("report", tmp_path / "dumps").stdout for letter in ("x" * 150, "w" * 120))
    for words in (["calls", tmp_path / "dumps"], ["report", tmp_path / "dumps"], ["diff", dumps, dumps]):
        shown = on_terminal([*words, "--color", "never"], WIDTH)
        assert [line for line in shown.splitlines() if len(line) > WIDTH and str(tmp_path / "dumps") not in line] == []


def test_leading_columns_come_again(dumps):
    narrow = on_terminal(["steps", "--color", "never", dumps], WIDTH)
    assert narrow.count("\nrank  host") >= 2 or narrow.count("rank  host") >= 2
    assert jobs.commtap("steps", dumps).stdout.count("rank  host") == 1


def test_colours_are_for_terminals(dumps):
    assert "\033[" in on_terminal(["report", dumps], WIDTH)
    assert "\033[" not in jobs.commtap("report", dumps).stdout


def test_top_cuts_and_says_so(dumps):
    for command, rows in (("summary", "summary"), ("stragglers", "ranks"), ("steps", "rows"), ("links", "links")):
        whole = jobs.document(command, dumps)[rows]
        assert jobs.document(command, "--top", "1", dumps)[rows] == whole[:1]
        text = jobs.commtap(command, "--top", "1", dumps).stdout
        assert len(whole) < 2 or f"... and {len(whole) - 1} more" in text, command
        assert "--top takes a number" in jobs.commtap(command, "--top", "0", dumps, codes=(2,)).stderr
