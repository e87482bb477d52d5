# SPDX-License-Identifier: Apache-2.0
#
# Holistic Trace Analysis' figures of one trace, as a line of JSON. Runs where that is installed; main.py starts it.
# Must not live here: commtap, judgements.
import gzip
import json
import logging
import os
import sys

# Times in nanoseconds are left as they are: rounded to microseconds, each kernel loses up to two of them.
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
from hta.analyzers.breakdown_analysis import BreakdownAnalysis  # noqa: E402
from hta.analyzers.communication_analysis import CommunicationAnalysis  # noqa: E402
from hta.trace_analysis import TraceAnalysis  # noqa: E402

logging.disable(logging.CRITICAL)
ON_A_GPU = ("kernel", "Kernel", "gpu_memcpy", "gpu_memset", "Memcpy", "Memset")


def figures(trace):
    times = BreakdownAnalysis.get_temporal_breakdown(trace, visualize=False).iloc[0]
    overlap = CommunicationAnalysis.get_comm_comp_overlap(trace, visualize=False).iloc[0]
    share = float(overlap["comp_comm_overlap_pctg"])
    return {"kernel": float(times["kernel_time(us)"]), "idle": float(times["idle_time(us)"]),
            "compute": float(times["compute_time(us)"]), "other": float(times["non_compute_time(us)"]),
            "overlap": None if share != share else share}


def main(path):
    """All steps but the last, as it does itself where there are several, and each of them alone. "plain" is what it
    says; the rest is without what names a stream and runs on no GPU: the host's synchronisation, operators of Triton."""
    with gzip.open(path) as file:
        told = json.load(file).get("distributedInfo") or {}
    rank = told.get("rank", 0)
    trace = TraceAnalysis(trace_files={rank: path}, trace_dir="").t
    result = {"rank": rank, "plain": figures(trace), "steps": []}
    names = trace.symbol_table.get_sym_table()
    whole = trace.traces[rank]
    whole = whole[whole["stream"].eq(-1) | whole["cat"].map(lambda category: names[category] in ON_A_GPU)]
    trace.traces[rank] = whole
    result["all"] = figures(trace)
    gpu = whole[whole["stream"].ne(-1)]
    numbers = sorted(number for number in gpu["iteration"].dropna().unique() if number >= 0)
    for number in numbers if len(numbers) > 1 else []:
        trace.traces[rank] = whole[whole["iteration"] == number]
        result["steps"].append(figures(trace))
    print(json.dumps(result))


main(sys.argv[1])
