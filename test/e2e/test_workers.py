# SPDX-License-Identifier: Apache-2.0
#
# What commtap says does not depend on how many threads found it out.
# Must not live here: what is said (test_report.py and others).
import subprocess

import pytest

import jobs

THREADS = ("1", "2", "3", "8")
PLAY = jobs.BUILD / "test" / "scenes" / "play"
# stragglers, call sites and links to be mended; messages and collectives; communicators of parts; several hosts
SCENES = {
    "stencil": ["ranks=24", "ranks_per_host=6", "steps=40", "slow_rank=3", "factor=1.5"],
    "pipeline": ["ranks=16", "ranks_per_host=4", "steps=30", "slow_rank=9", "factor=2"],
    "gpu": ["ranks=8", "ranks_per_host=4", "steps=40", "slow_rank=5", "factor=1.5"],
}


@pytest.mark.parametrize("kind", SCENES)
def test_all_of_the_report_is_the_same_for_any_number_of_threads(kind, tmp_path):
    where = tmp_path / "dumps"
    where.mkdir()
    subprocess.run([PLAY, where, kind, *SCENES[kind]], check=True)
    for command in "report", "stragglers", "steps":
        first, *others = (jobs.commtap(command, "--format", "json", "--threads", n, where).stdout for n in THREADS)
        assert len(first) > 1000 and others == [first] * len(others), command
    what_if = jobs.document("report", where)["what_if"]
    assert what_if["slowdown"] > 1 and what_if["even_speedup"] >= what_if["slowdown"]


def test_more_threads_than_work_and_no_threads(tmp_path):
    where = tmp_path / "dumps"
    where.mkdir()
    subprocess.run([PLAY, where, "stencil", "ranks=4", "steps=4"], check=True)
    assert jobs.document("report", where, "--threads", "1000") == jobs.document("report", where)
    assert jobs.commtap("report", "--threads", "0", where, codes=(2,)).returncode == 2
