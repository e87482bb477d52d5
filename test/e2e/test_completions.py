# SPDX-License-Identifier: Apache-2.0
#
# A call that sees a thousand operations complete, in threads that write among each other: more completions follow each
# other than the analyzer keeps while it looks for their Wait call.
# Must not live here: the limits themselves, number by number (test/unit/test_match_messages.c).
import pytest

import jobs


# 12 threads are more than a dump has rings: some write their completions among the calls of others
@pytest.mark.parametrize("threads", [4, 12])
def test_a_thousand_sends_of_each_thread_at_once(mpi, threads, tmp_path):
    ledgers, where = tmp_path / "ledgers", tmp_path / "dumps"
    ledgers.mkdir()
    jobs.run(mpi, 2, [jobs.program(mpi, "ibsends"), str(threads)], where, environment={"EXPECT_DIR": str(ledgers)})
    assert jobs.seen(jobs.report(where)) == jobs.ledger(ledgers)[0]
    for command in "report", "stragglers", "steps":
        one, two = (jobs.commtap(command, where, "--format", "json", "--threads", n).stdout for n in "12")
        assert one == two
