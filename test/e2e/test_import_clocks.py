# SPDX-License-Identifier: Apache-2.0
#
# Flight recorders of hosts whose clocks do not tell who waited: PyTorch's watchdog sees an end within its 100 ms.
import json

import pytest

import jobs

RANKS, OPERATIONS, LATE = 4, 40, 3
PERIOD, REDUCE = 100_000_000, 1_000_000  # ns


def recorded(folder, late, period=PERIOD):
    """One all-reduce per period, to which one rank comes `late` ns after the others, who wait for it."""
    folder.mkdir()
    for rank in range(RANKS):
        entries = []
        for number in range(OPERATIONS):
            begin = 1_700_000_000_000_000_000 + number * period + (late if rank == LATE else 0)
            end = 1_700_000_000_000_000_000 + number * period + late + REDUCE
            entries.append({
                "frames": [], "record_id": number, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": number + 1,
                "p2p_seq_id": 0, "op_id": number + 1, "profiling_name": "nccl:all_reduce", "is_p2p": False, "retired": True,
                "time_created_ns": begin, "time_discovered_started_ns": begin, "time_discovered_completed_ns": end,
                "duration_ms": (end - begin) / 1e6, "input_sizes": [[1 << 20]], "output_sizes": [[1 << 20]], "input_dtypes": ["Float"],
                "output_dtypes": ["Float"], "state": "completed", "timeout_ms": 600000})
        (folder / f"nccl_trace_rank_{rank}").write_text(json.dumps({
            "version": "2.10", "rank": rank, "entries": entries, "pg_status": {},
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(RANKS)))}}}))
    jobs.commtap("import", folder, "-o", folder / "dumps")
    return folder / "dumps"


# the three others wait: a hundredth of the time in all is 333 us of each period
@pytest.mark.parametrize("late, known", [(333_000 // 2, True), (333_000 * 2, False), (20_000_000, False)])
def test_a_path_that_no_clock_tells_is_not_told(late, known, tmp_path):
    dumps = recorded(tmp_path / "recorders", late)
    result, text = jobs.report(dumps), jobs.commtap("report", dumps).stdout
    assert (result["critical_path"]["seconds"] is not None) == known
    assert (result["critical_path"]["sites"] != []) == (result["critical_path"]["ranks"] != []) == known
    assert all((row["caused_seconds"] is not None) == (row["critical_path_seconds"] is not None) == known for row in result["ranks"])
    assert ("not known: nearly all waits are shorter than the error of the hosts' clocks" in text) != known


def test_what_is_longer_than_their_error_is_told(tmp_path):
    """The path leads over the work of the rank that is late."""
    result = jobs.report(recorded(tmp_path / "recorders", 5_000_000_000, period=20_000_000_000))
    on_path = {row["rank"]: row["critical_path_seconds"] for row in result["ranks"]}
    assert on_path[LATE] > 0.9 * sum(on_path.values()), on_path
    assert [one["rank"] for one in result["stragglers"]] == [LATE]
