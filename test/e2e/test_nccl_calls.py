# SPDX-License-Identifier: Apache-2.0
#
# What the shim records of jobs that use NCCL without MPI, on the stand-in: every call, however the job reaches the
# library, against the programs' own books. Must not live here: how long GPU work takes (test_gpu_timing.py).
import collections
import csv
import glob
import io
import json
import re
import subprocess

import pytest

import jobs

STANDIN = jobs.BUILD / "standin"
PROGRAMS = jobs.PROGRAMS / "nccl"
REAL = [path for pattern in ("/usr/local/cuda*/lib*/libnccl.so.2", "/usr/lib/*/libnccl.so.2",
                             "/usr/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2")
        for path in glob.glob(pattern)]


def environment(rank, ranks, directory, preload=True, launcher=True, **more):
    variables = {**jobs.clean_environment(), "LD_LIBRARY_PATH": str(STANDIN), "STANDIN_DEVICES": "4",
                 "NCCL_LIBRARY": "libnccl.so.2", "COMMTAP_DIR": str(directory)}
    if launcher:
        variables.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), MASTER_ADDR="localhost",
                         MASTER_PORT="1234")
    if preload:
        variables["LD_PRELOAD"] = str(jobs.SHIM)
    return {**variables, **more}


def play(scene, ranks, folder, program=(PROGRAMS / "exercise",), **how):
    """Runs the ranks of a scene; the dumps' directory and what all ranks' books say together."""
    directory, ids = folder / "dumps", folder / "ids"
    ids.mkdir()
    running = [subprocess.Popen([*map(str, program), scene, str(rank), str(ranks), str(ids)],
                                env=environment(rank, ranks, directory, **how), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for rank in range(ranks)]
    books = collections.Counter()
    try:
        for process in running:
            out, err = process.communicate(timeout=60)
            assert (process.returncode, err) == (0, "")
            for line in out.splitlines():
                for function, (calls, size) in json.loads(line).items():
                    books[function, "calls"] += calls
                    books[function, "bytes"] += size
    finally:
        for process in running:
            process.kill()
    return directory, books


def recorded(directory):
    """The same from the dumps: the host's rows count every call once."""
    books = collections.Counter()
    for row in jobs.summary(directory)["summary"]:
        if row["source"] == "host":
            books[row["op"], "calls"] += row["count"]
            books[row["op"], "bytes"] += row["bytes_total"]
    return books


def agree(directory, books):
    assert {k: v for k, v in recorded(directory).items() if v} == {k: v for k, v in books.items() if v}
    assert books


def of_kind(directory, *kinds):
    return [record for record in jobs.records(directory) if record["kind"] in kinds]


WAYS = {
    "linked": (PROGRAMS / "exercise",),
    "module": (PROGRAMS / "host", PROGRAMS / "exercise.so"),
    "looked up": (PROGRAMS / "exercise-looked-up",),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_call_is_counted(way, tmp_path):
    directory, books = play("all", 3, tmp_path, WAYS[way])
    agree(directory, books)
    assert jobs.commtap("check", directory).stdout.count(" finalised ") == 3
    assert jobs.report(directory)["job"]["ranks_seen"] == 3


def test_collectives_with_a_configuration_of_their_own(tmp_path):
    """NCCL 2.31's: the operations of ranks that have one and of ranks that have none match."""
    directory, books = play("configured", 2, tmp_path)
    agree(directory, books)
    assert sum(calls for (name, what), calls in books.items() if what == "calls" and name.endswith("Config")) == 8
    report = jobs.report(directory)
    assert report["coverage"]["matched_share"] == 1
    assert not {finding["code"] for finding in report["findings"]} & {"mismatch", "unseen_calls"}
    assert jobs.document("diagnose", directory, codes=(0, 1))["verdict"] == "ok"
    timed = {(row["op"].removesuffix("Config"), row["busbw_gbps"] is None) for row in report["summary"]
             if row["source"] == "gpu-event"}
    assert len(timed) == 8 and not any(unknown for _, unknown in timed)


def gpu_times_of(directory):
    return {(row["op"], row["bytes"]): row["count"] for row in jobs.summary(directory)["summary"]
            if row["source"] == "gpu-event"}


@pytest.mark.parametrize("mode", ["auto", "events"])
def test_no_event_takes_the_overlap_of_launches_on_symmetric_memory(mode, tmp_path):
    """They may begin before the kernel in front of them has ended: not timed, and said, unless events were asked for. Which
    window a group registers is known after its end alone: that it ends is not seen, so 48 bytes may be on one still."""
    directory, books = play("windows", 2, tmp_path, COMMTAP_GPU_TIMING=mode)
    agree(directory, books)
    others = {("ncclBroadcast", 24): 2, ("ncclAllReduce", 28): 2, ("ncclAllReduce", 36): 2, ("ncclAllReduce", 40): 2}
    symmetric = {("ncclAllReduce", 20): 6, ("ncclAllReduce", 32): 4, ("ncclAllReduce", 44): 2, ("ncclAllReduce", 48): 2}
    assert gpu_times_of(directory) == (others if mode == "auto" else {**others, **symmetric})
    assert jobs.report(directory)["losses"]["gpu_overlapping"] == (12 if mode == "auto" else 0)
    assert jobs.document("diagnose", directory, codes=(0, 1))["verdict"] == "ok"


def test_groups_are_one_launch_with_their_members(tmp_path):
    directory, books = play("all", 2, tmp_path)
    mine = [record for record in jobs.records(directory) if record["rank"] == 0]
    groups = [record for record in mine if record["kind"] == "group"]
    assert [record["bytes"] for record in groups] == [2048, 2048, 2048, 240]
    assert [record["seq"] is None for record in groups] == [True, True, True, False]
    for group in groups:
        members = [record for record in mine if record["kind"] == "post" and record["tag"] == group["operation"]]
        assert sum(record["bytes"] for record in members) == group["bytes"]
        launches = [record for record in mine if record["kind"] == "gpu" and record["operation"] == group["operation"]]
        assert [(record["bytes"], record["seq"]) for record in launches] == [(group["bytes"], group["seq"])]
    alone = [record for record in mine if record["kind"] == "post" and record["tag"] is None]
    timed = {record["operation"] for record in mine if record["kind"] == "gpu"}
    assert {record["operation"] for record in alone} <= timed
    assert [record["bytes"] for record in alone if record["op"] == "ncclAllReduce"][-1] == 32
    numbers = [record["seq"] for record in mine if record["kind"] == "post" and record["collective"] and
               record["comm"] == groups[0]["comm"]]
    assert numbers == list(range(len(numbers)))


def test_groups_are_called_what_they_are_together(tmp_path):
    """Five rounds on three ranks: three reductions alike, an exchange, an all-to-all with and without the own part."""
    directory, books = play("patterns", 3, tmp_path)
    agree(directory, books)
    rows = jobs.summary(directory)["summary"]
    assert not [row for row in rows if row["source"] == "host" and row["time_total_us"] is None]
    timed = collections.Counter()
    for row in rows:
        if row["source"] == "gpu-event":
            timed[row["op"], row["bytes"]] += row["count"]
            factor = {"ncclAllReduce": 4 / 3, "ncclSend+ncclRecv": 1, "ncclSend+ncclRecv (all-to-all)": 2 / 3}.get(row["op"])
            rate = row["bytes"] * row["count"] / row["time_total_us"] / 1e3
            shared = row["bytes"] in (320, 360)  # one interval of two communicators
            assert row["shared_times"] == (row["count"] if shared else 0)
            assert row["busbw_gb_per_s"] == (pytest.approx(factor * rate) if factor and not shared else None)
    assert "the times of 30 GPU operations are shares" in " ".join(jobs.commtap("summary", directory).stdout.split())
    for row in jobs.summary(directory, "--transfers")["summary"]:
        if row["source"] == "gpu-event" and row["op"] == "ncclAllReduce":
            rate = 4 / 3 * row["bytes"] * row["count"] / row["transfer_seconds"] / 1e9  # of a group's parts all together
            assert row["transfer_busbw_gb_per_s"] == (pytest.approx(rate) if row["bytes"] == 2000 else None)
    assert timed == {("ncclAllReduce", 2000): 45, ("ncclSend+ncclRecv", 800): 15,
                     ("ncclSend+ncclRecv (all-to-all)", 1200): 15, ("ncclSend+ncclRecv (all-to-all)", 600): 15,
                     ("ncclGroupEnd", 520): 15, ("ncclAllReduce", 320): 15, ("ncclAllReduce", 360): 15}
    logged = jobs.commtap("summary", "--compat", "deepspeed", directory).stdout
    assert "all_to_all_single\n" in logged
    tree = jobs.commtap("calls", directory).stdout
    assert "*ncclSend+ncclRecv: 15 launches" in tree and not re.search(r"\*\S.*: 0\b", tree)
    collectives = json.loads(jobs.commtap("calls", "--format", "commdebug", directory).stdout)["collectives_forward"]
    assert dict(collectives)["ncclSend+ncclRecv (all-to-all)"] == 30
    assert {name for name, _ in collectives} == {"ncclAllReduce", "ncclBroadcast", "ncclSend+ncclRecv (all-to-all)"}
    launches = [record for record in of_kind(directory, "gpu") if record["rank"] == 0]
    first, second = ([r for r in launches if r["bytes"] == size] for size in (320, 360))
    assert {r["bytes"] for r in launches if r["share"]} == {320, 360} and all(r["share"] for r in first + second)
    # one after the other, as far as the clocks of a busy machine tell; each had the whole of it once
    lasted = [min(r["end_ns"] - r["start_ns"] for r in both) for both in zip(first, second)]
    assert all(a["end_ns"] < b["start_ns"] + length / 2 for a, b, length in zip(first, second, lasted))


def test_collectives_of_one_kind_in_a_group_have_a_name_and_a_bandwidth(tmp_path):
    """Five rounds on three ranks: gathers of 10, 20 and 30 numbers of each rank, and 300 reductions of four."""
    directory, books = play("coalesced", 3, tmp_path)
    agree(directory, books)
    rows = [row for row in jobs.summary(directory)["summary"] if row["source"] == "gpu-event"]
    assert {(row["op"], row["bytes"]): row["count"] for row in rows} == {
        ("ncclAllGather (coalesced)", 3 * 240): 15, ("ncclAllReduce (coalesced)", 300 * 16): 15}
    for row in rows:
        factor = 2 / 3 if row["op"].startswith("ncclAllGather") else 4 / 3
        assert row["busbw_gb_per_s"] == pytest.approx(factor * row["bytes"] * 15 / row["time_total_us"] / 1e3)
    assert "all_gather_into_tensor\n" in jobs.commtap("summary", "--compat", "deepspeed", directory).stdout


def test_groups_of_parts_that_differ_in_size_have_a_name_and_a_bandwidth(tmp_path):
    """Five rounds on three ranks. Parts of 0, 40 and 80 numbers gathered, of 50, 51 and 52 scattered; 40 numbers to the
    next rank in two messages and as many from the previous one; 600 from the first to the last; and an all-to-all
    without some parts, of which each rank counts half of what it sends and receives."""
    directory, books = play("uneven", 3, tmp_path)
    agree(directory, books)
    rows = [row for row in jobs.summary(directory)["summary"] if row["source"] == "gpu-event"]
    halves = [2 * (sum(1 + rank + peer for peer in range(3) if peer != (rank + 1) % 3) +
                   sum(1 + rank + peer for peer in range(3) if peer != (rank + 2) % 3)) * 20 for rank in range(3)]
    expected = collections.Counter({
        ("ncclBroadcast (all-gather)", 4 * 120): 15, ("ncclReduce (reduce-scatter)", 4 * 153): 15,
        ("ncclSend (coalesced)", 4 * 600): 5, ("ncclRecv (coalesced)", 4 * 600): 5, ("ncclSend+ncclRecv", 4 * 40): 15})
    for half in halves:
        expected["ncclSend+ncclRecv", half] += 5
    assert {(row["op"], row["bytes"]): row["count"] for row in rows} == expected
    for row in rows:
        factor = 2 / 3 if row["op"].endswith(("-gather)", "-scatter)")) else 1
        assert row["busbw_gb_per_s"] == pytest.approx(factor * row["bytes_total"] / row["time_total_us"] / 1e3)
    names = jobs.commtap("summary", "--compat", "deepspeed", directory).stdout.splitlines()
    assert {"all_gather", "reduce_scatter", "send"} <= set(names)


def test_communicators_are_named_alike(tmp_path):
    """Children by parent, number and color; a handle that comes back is another communicator."""
    directory, _ = play("all", 4, tmp_path)
    rows = [row for row in csv.DictReader(io.StringIO(
        jobs.commtap("export", "--table", "communicators", directory).stdout))]
    members = collections.defaultdict(list)
    for row in rows:
        members[row["comm"], row["parent"]].append((int(row["rank"]), int(row["my_rank"]), int(row["comm_size"])))
    world = next(uid for uid, parent in members if not parent)
    assert sorted(members.pop((world, ""))) == [(rank, rank, 4) for rank in range(4)]
    assert {parent for _, parent in members} == {world}
    sizes = sorted((sorted(rank for rank, _, _ in group), group[0][2]) for group in members.values())
    assert sizes == [([0, 2], 2)] * 2 + [([1, 3], 2)] * 3 + [([2], 1)]


def test_one_rank_runs_inside_its_calls(tmp_path):
    directory, books = play("alone", 1, tmp_path)
    agree(directory, books)
    assert of_kind(directory, "group") == []
    posted = of_kind(directory, "post")
    assert len(posted) == sum(v for (op, what), v in books.items() if what == "calls" and not op.startswith(
        ("ncclComm", "ncclGroup", "ncclGet")))


def test_several_devices_in_one_process(tmp_path):
    directory, books = play("devices", 1, tmp_path, launcher=False)
    agree(directory, books)
    members = [row for row in jobs.summary(directory)["summary"] if row["op"] == "ncclAllReduce"]
    assert {row["comm"] for row in members} and len({row["comm"] for row in members}) == 1
    assert {row["comm_size"] for row in members} == {2}


@pytest.mark.parametrize("mode", ["events", "kernel"])
@pytest.mark.parametrize("scene", ["come-and-go", "threads", "given-up", "twice", "streams", "reset", "both", "inside",
                                   "updated", "forked"])
def test_what_was_made_was_timed_or_counted_as_lost(scene, mode, tmp_path):
    """By the programs' own account, which do to graphs, streams and devices what is seldom done."""
    (tmp_path / "ids").mkdir()
    ranks = [subprocess.Popen([PROGRAMS / "accounts", scene, str(rank), "2", tmp_path / "ids"], stdout=subprocess.PIPE,
                              env=environment(rank, 2, tmp_path / "dumps", COMMTAP_GPU_TIMING=mode), text=True)
             for rank in range(2)]
    said = [process.communicate(timeout=60)[0].split() for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0]
    result = jobs.report(tmp_path / "dumps")
    timed = sum(row["count"] for row in result["summary"] if row["source"] in ("gpu-event", "in-kernel"))
    lost = sum(result["losses"][name] for name in ("gpu_no_event", "gpu_unfinished", "gpu_failed", "replays_untimed"))
    assert timed + lost == sum(int(number) for _, number in said)
    assert timed > 0


def test_calls_that_are_in_progress(tmp_path):
    directory, books = play("nonblocking", 2, tmp_path)
    agree(directory, books)
    rows = jobs.summary(directory)["summary"]
    assert {row["comm_name"] for row in rows if row["op"] == "ncclAllReduce"} == {"patient"}
    assert not any(record["failed"] for record in jobs.records(directory))
    assert [record["seq"] for record in of_kind(directory, "gpu") if record["rank"] == 0] == [0, 1, 2, 3]


def test_children_of_communicators_in_progress_are_the_same_on_all_ranks(tmp_path):
    directory, books = play("nonblocking-split", 2, tmp_path)
    agree(directory, books)
    rows = [row for row in jobs.summary(directory)["summary"] if row["op"] == "ncclAllReduce"]
    assert len({row["comm"] for row in rows}) == 1
    assert sorted((row["source"], row["comm_size"], row["count"]) for row in rows) == [("gpu-event", 2, 8),
                                                                                       ("host", 2, 8)]
    assert jobs.report(directory)["coverage"]["matched_share"] == 1
    assert not any(finding["code"] == "unseen_calls" for finding in jobs.report(directory)["findings"])


def test_refused_calls_take_no_number(tmp_path):
    directory, books = play("errors", 2, tmp_path)
    agree(directory, books)
    posted = [record for record in of_kind(directory, "post") if record["rank"] == 0]
    assert [(record["failed"], record["seq"], record["result"]) for record in posted] == [(True, None, 4),
                                                                                          (False, 0, None)]


def test_what_is_refused_at_one_rank_shifts_nothing(tmp_path):
    """Before 130 good collectives a call is refused there, and a whole group for one of its calls."""
    directory, books = play("refused", 2, tmp_path)
    agree(directory, books)
    verdict = jobs.document("diagnose", directory)
    assert verdict["verdict"] == "ok"
    result = jobs.report(directory)
    assert [finding["code"] for finding in result["findings"] if finding["code"] in ("desync", "unmatched")] == []
    assert result["coverage"]["matched_share"] == 1
    ran = collections.defaultdict(list)
    for record in of_kind(directory, "gpu"):
        ran[record["rank"]].append(record["seq"])
    assert ran[0] == ran[1] == list(range(200))
    failed = {row["op"]: row["failed"] for row in result["summary"] if row["failed"]}
    assert failed == {"ncclAllReduce": 2, "ncclGroupEnd": 1}


def test_a_simulated_group_leaves_no_trace_in_the_numbers(tmp_path):
    directory, books = play("simulated", 2, tmp_path)
    agree(directory, books)
    verdict = jobs.document("diagnose", directory)
    assert verdict["verdict"] == "ok"


def test_an_aborted_communicator(tmp_path):
    directory, books = play("abort", 3, tmp_path)
    agree(directory, books)


def test_rank_and_size_from_the_first_communicator(tmp_path):
    directory, books = play("all", 2, tmp_path, launcher=False)
    agree(directory, books)
    assert sorted(rank["rank"] for rank in jobs.report(directory)["ranks"]) == [0, 1]


def test_a_job_of_both_libraries_is_one_rank_per_process(mpi, tmp_path):
    directory = tmp_path / "dumps"
    jobs.run(mpi, 2, [str(PROGRAMS / f"mixed-{mpi}")], directory,
             environment={"LD_LIBRARY_PATH": str(STANDIN), "STANDIN_DEVICES": "4"})
    told = jobs.report(directory)
    assert (told["job"]["ranks_seen"], told["job"]["ranks_expected"]) == (2, 2)
    counts = recorded(directory)
    assert (counts["MPI_Barrier", "calls"], counts["MPI_Bcast", "calls"]) == (12, 2)
    assert (counts["ncclAllReduce", "calls"], counts["ncclAllReduce", "bytes"]) == (12, 12 * 1024)
    assert jobs.commtap("check", directory).stdout.count(" finalised ") == 2


@pytest.mark.parametrize("order", ["looked up first", "modules first"])
def test_copies_of_the_library_stay_apart(order, tmp_path):
    """Six copies, each looked up by its handle and linked to by a module: every call reaches its own. There are entries
    for four; the others' look-ups are answered with the function itself, whose calls go unseen."""
    probe = ("import ctypes, sys\n"
             "def look_up():\n"
             "    found = []\n"
             "    for copy in [ctypes.CDLL(f'{sys.argv[1]}/copy-{n}.so') for n in range(6)]:\n"
             "        text = ctypes.create_string_buffer(128)\n"
             "        copy.ncclGetUniqueId(text)\n"
             "        found.append(text.raw[0])\n"
             "    return found\n"
             "def modules():\n"
             "    loaded = [ctypes.CDLL(f'{sys.argv[1]}/asks-{n}.so') for n in range(6)]\n"
             "    return [module.which() for _ in range(2) for module in loaded]\n"
             "if sys.argv[2] == 'looked up first':\n"
             "    print(look_up(), modules())\n"
             "else:\n"
             "    last = modules()\n"
             "    print(look_up(), last)")
    done = subprocess.run([jobs.PYTHON, "-c", probe, str(PROGRAMS), order], env=environment(0, 1, tmp_path / "dumps"),
                          capture_output=True, text=True, check=True)
    own = list(range(6))
    assert (done.stdout, done.stderr) == (f"{own} {own * 2}\n", "")
    assert recorded(tmp_path / "dumps")["ncclGetUniqueId", "calls"] == 4 + 12


def test_filter_leaves_functions_out(tmp_path):
    directory, books = play("all", 2, tmp_path, COMMTAP_OPS="allreduce,send")
    kept = {k: v for k, v in books.items() if k[0] in ("ncclAllReduce", "ncclSend")}
    assert {k: v for k, v in recorded(directory).items() if v} == kept


def test_host_only(tmp_path):
    directory, books = play("all", 2, tmp_path, COMMTAP_GPU_TIMING="host")
    agree(directory, books)
    assert {row["source"] for row in jobs.summary(directory)["summary"]} == {"host"}


def test_no_nccl_no_trace(tmp_path):
    """Our presence must not make a library seem present, and a process without it leaves nothing."""
    probe = ("import ctypes\n"
             "whole = ctypes.CDLL(None)\n"
             "print([n for n in ('ncclAllReduce', 'ncclGetUniqueId', 'ncclCommGrow') if hasattr(whole, n)])")
    done = subprocess.run([jobs.PYTHON, "-c", probe], env=environment(0, 1, tmp_path / "dumps"), capture_output=True,
                          text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
    assert not (tmp_path / "dumps").exists()


def test_functions_that_the_library_lacks_stay_absent(tmp_path):
    probe = ("import ctypes\n"
             "nccl = ctypes.CDLL('libnccl.so.2')\n"
             "print(hasattr(nccl, 'ncclAllReduce'), hasattr(nccl, 'ncclAllToAllv'), hasattr(nccl, 'ncclPutSignal'))")
    done = subprocess.run([jobs.PYTHON, "-c", probe], env=environment(0, 1, tmp_path / "dumps"), capture_output=True,
                          text=True, check=True)
    assert (done.stdout, done.stderr) == ("True False False\n", "")


def test_ctypes(tmp_path):
    probe = ("import ctypes\n"
             "nccl = ctypes.CDLL('libnccl.so.2')\n"
             "class Id(ctypes.Structure):\n"
             "    _fields_ = [('internal', ctypes.c_char * 128)]\n"
             "unique, comm = Id(), ctypes.c_void_p()\n"
             "ctypes.CDLL('libcudart.so.13').cudaSetDevice(0)\n"
             "nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]\n"
             "print(nccl.ncclGetUniqueId(ctypes.byref(unique)), nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0))\n"
             "print(nccl.ncclCommDestroy(comm))")
    done = subprocess.run([jobs.PYTHON, "-c", probe], env=environment(0, 1, tmp_path / "dumps"), capture_output=True,
                          text=True, check=True)
    assert (done.stdout, done.stderr) == ("0 0\n0\n", "")
    agree(tmp_path / "dumps", collections.Counter({(f, "calls"): 1 for f in (
        "ncclGetUniqueId", "ncclCommInitRank", "ncclCommDestroy")}))


ENDS = {"exits": "os._exit(3)", "dies": "os.kill(os.getpid(), 9)"}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("communicator", [False, True])
def test_jobs_without_mpi_are_told_without_its_words(end, communicator, tmp_path):
    """However they end: nothing is called by MPI's names, no rank is -1, no setting is blamed that nobody made."""
    probe = ("import ctypes, os\n"
             "nccl = ctypes.CDLL('libnccl.so.2')\n"
             "class Id(ctypes.Structure):\n"
             "    _fields_ = [('internal', ctypes.c_char * 128)]\n"
             "unique, comm = Id(), ctypes.c_void_p()\n"
             "ctypes.CDLL('libcudart.so.13').cudaSetDevice(0)\n"
             "nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]\n"
             "nccl.ncclGetUniqueId(ctypes.byref(unique))\n"
             f"{communicator} and nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0)\n"
             f"{ENDS[end]}")
    subprocess.run([jobs.PYTHON, "-c", probe], env=environment(0, 1, tmp_path / "dumps", launcher=False), check=False)
    for command in ("report", "diagnose", "stragglers", "check", "calls"):
        said = jobs.commtap(command, tmp_path / "dumps", codes=(0, 1)).stdout
        assert said and not re.search(r"MPI|rank -1|COMMTAP_", said), said


@pytest.mark.parametrize("current", [False, True])
def test_streams_of_green_contexts_are_timed(current, tmp_path):
    """Whether or not the green context is the thread's when the communicator is made."""
    probe = ("import ctypes, sys\n"
             "nccl, cuda = ctypes.CDLL('libnccl.so.2'), ctypes.CDLL('libcuda.so.1')\n"
             "runtime = ctypes.CDLL('libcudart.so.13')\n"
             "class Id(ctypes.Structure):\n"
             "    _fields_ = [('internal', ctypes.c_char * 128)]\n"
             "green, context, stream, comm, a, b = (ctypes.c_void_p() for _ in range(6))\n"
             "unique = Id()\n"
             "nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]\n"
             "made = [runtime.cudaSetDevice(0), runtime.cudaMalloc(ctypes.byref(a), 4096),\n"
             "        runtime.cudaMalloc(ctypes.byref(b), 4096), cuda.cuGreenCtxCreate(ctypes.byref(green), None, 0, 1),\n"
             "        cuda.cuGreenCtxStreamCreate(ctypes.byref(stream), green, 1, 0),\n"
             "        cuda.cuCtxFromGreenCtx(ctypes.byref(context), green)]\n"
             "if sys.argv[1] == 'True':\n"
             "    made.append(cuda.cuCtxSetCurrent(context))\n"
             "made += [nccl.ncclGetUniqueId(ctypes.byref(unique)), nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0)]\n"
             "for _ in range(5):\n"
             "    made.append(nccl.ncclAllReduce(a, b, ctypes.c_size_t(64), 7, 0, comm, stream))\n"
             "made += [cuda.cuStreamSynchronize(stream), nccl.ncclCommDestroy(comm)]\n"
             "print(set(made))")
    done = subprocess.run([jobs.PYTHON, "-c", probe, str(current)], env=environment(0, 1, tmp_path / "dumps"),
                          capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("{0}\n", "")
    assert gpu_times_of(tmp_path / "dumps") == {("ncclAllReduce", 256): 5}


@pytest.mark.skipif(not REAL, reason="no real libnccl here")
def test_the_real_library_answers_as_without_us(tmp_path):
    """Without a GPU it makes ids and refuses communicators: with the same codes."""
    probe = ("import ctypes, sys\n"
             "nccl = ctypes.CDLL(sys.argv[1])\n"
             "class Id(ctypes.Structure):\n"
             "    _fields_ = [('internal', ctypes.c_char * 128)]\n"
             "unique, comm, version = Id(), ctypes.c_void_p(), ctypes.c_int()\n"
             "nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]\n"
             "nccl.ncclGetErrorString.restype = ctypes.c_char_p\n"
             "print(nccl.ncclGetVersion(ctypes.byref(version)), version.value,\n"
             "      nccl.ncclGetUniqueId(ctypes.byref(unique)), bytes(unique) != bytes(128),\n"
             "      nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0), comm.value,\n"
             "      nccl.ncclGroupStart(), nccl.ncclGroupEnd(), nccl.ncclGroupEnd(), nccl.ncclCommDestroy(None),\n"
             "      nccl.ncclAllReduce(None, None, ctypes.c_size_t(1), 7, 0, None, None), nccl.ncclGetErrorString(4))")
    answers = []
    for preload in (False, True):
        variables = environment(0, 1, tmp_path / "dumps", preload=preload, LD_LIBRARY_PATH="")
        answers.append(subprocess.run([jobs.PYTHON, "-c", probe, REAL[0]], env=variables, capture_output=True, text=True,
                                      check=True).stdout)
    assert answers[0] == answers[1] and answers[0].startswith("0 2")
    assert recorded(tmp_path / "dumps")["ncclCommInitRank", "calls"] == 1


def test_a_burst_of_launches_loses_no_time(tmp_path):
    """Thousands that are launched before any has run, far beyond the events that there are at first."""
    (tmp_path / "files").mkdir()
    at_once = 3000
    program = [str(PROGRAMS / "launches")]
    ranks = [subprocess.Popen([*program, str(rank), "2", str(tmp_path / "files"), "1", str(at_once)], text=True,
                              env=environment(rank, 2, tmp_path / "dumps", COMMTAP_GPU_TIMING="events"),
                              stdout=subprocess.PIPE) for rank in range(2)]
    said = [process.communicate(timeout=60)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0]
    launches = sum(int(words.split()[1]) for words in said)
    report = jobs.report(tmp_path / "dumps")
    timed = sum(row["count"] for row in report["summary"] if (row["op"], row["source"]) == ("ncclAllReduce", "gpu-event"))
    assert launches >= 2 * at_once and timed == launches and report["losses"]["gpu_no_event"] == 0
