# SPDX-License-Identifier: Apache-2.0
#
# Flight recorders of three ranks, as PyTorch writes them, that disagree about their fifth collective.
# Must not live here: what reads them.


def flight(entries, ranks="[0, 1, 2]"):
    return {"version": "2.9", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}},
            "entries": entries}


def entry(number, state="completed", name="nccl:all_reduce"):
    at = 1_700_000_000_000_000_000 + number * 1_000_000_000
    done = state == "completed"
    return {"process_group": ["0", "default_pg"], "collective_seq_id": number, "p2p_seq_id": 0, "is_p2p": False,
            "profiling_name": name, "time_created_ns": at, "input_sizes": [[4, 8]], "input_dtypes": ["Float"],
            "output_sizes": [[4, 8]], "output_dtypes": ["Float"], "state": state,
            "time_discovered_started_ns": None, "time_discovered_completed_ns": at + 300_000_000 if done else None,
            "duration_ms": 1.5 if done else None}


SAME = {}
# What each of three ranks did as collective 5, and what is to be found there: the verdict, and who is at fault.
DIFFERENCES = {
    "operation": ([SAME, {"profiling_name": "nccl:all_gather"}, SAME], "desync", {1}),
    "barrier and broadcast": ([{"profiling_name": "nccl:broadcast"}, {"profiling_name": "nccl:barrier"},
                               {"profiling_name": "nccl:broadcast"}], "desync", {1}),
    "size": ([SAME, SAME, {"input_sizes": [[4, 9]], "output_sizes": [[4, 9]]}], "desync", {2}),
    "type": ([{"input_dtypes": ["Half"], "output_dtypes": ["Half"]}, SAME, SAME], "desync", {0}),
    "parts of an all-to-all": ([{"profiling_name": "nccl:all_to_all", "input_sizes": [[rank]], "output_sizes": [[1]]}
                                for rank in range(3)],
                               "hang", set()),
    "what the root alone has": ([{"profiling_name": "nccl:scatter", "input_sizes": [[12]] if rank == 0 else [[]]}
                                 for rank in range(3)], "hang", set()),
    "barrier and all-reduce": ([{"profiling_name": "nccl:all_reduce_barrier"}, SAME,
                                {"profiling_name": "nccl:all_reduce_barrier"}], "desync", {1}),
    "two names of one function": ([{"profiling_name": "nccl:_reduce_scatter_base"},
                                   {"profiling_name": "nccl:reduce_scatter_tensor_coalesced"},
                                   {"profiling_name": "nccl:_reduce_scatter_base"}], "desync", {1}),
    "input and output of one": ([SAME, {"output_sizes": [[4, 9]]}, SAME], "desync", {1}),
    "input and output of all": ([{"output_sizes": [[4, 9]]}] * 3, "desync", {0, 1, 2}),
    "sums of an all-to-all": ([{"profiling_name": "nccl:all_to_all", "input_sizes": [[rank]], "output_sizes": [[2]]}
                               for rank in range(3)], "desync", {0, 1, 2}),
    "one has not come": ([SAME, None, SAME], "hang", {1}),
    "one is only scheduled": ([SAME, {"state": "scheduled"}, SAME], "hang", {1}),
    "nobody has started": ([{"state": "scheduled"}] * 3, "hang", set()),
    "one has not ended": ([{"state": "completed"}, SAME, {"state": "completed"}], "hang", set()),
    "nothing": ([SAME, SAME, SAME], "hang", set()),
}


def recorders_that_disagree(what, earliest=(1, 1, 1)):
    """A document per rank; `earliest` is the first collective that its ring still holds."""
    documents = []
    for rank, changes in enumerate(DIFFERENCES[what][0]):
        entries = [{**entry(n), "time_discovered_started_ns": 1} for n in range(earliest[rank], 5)]
        if changes is not None:
            entries.append({**entry(5, "started"), **changes})
        documents.append(flight(entries))
    return documents
