# SPDX-License-Identifier: Apache-2.0
#
# The filters that all commands share, on jobs whose calls can be counted by hand: every command with every filter,
# wrong values, selections that hold nothing, and what must not change with what is shown.
# Must not live here: how steps are found (test_steps.py), what the figures themselves are worth.
#
# train --steps N on 4 ranks: Init, Bcast, N times (Allreduce of 161 doubles, Allreduce of one), Finalize. A step goes
# from the return of the small Allreduce to that of the next one: it holds one of each per rank, and N - 1 steps are
# numbered from 0.
import collections
import csv
import io
import os
import re

import jobs
import pytest

RANKS, STEPS = 4, 30
ALL = {"MPI_Init": 4, "MPI_Bcast": 4, "MPI_Allreduce": 8 * STEPS, "MPI_Finalize": 4}


def run_train(mpi, where):
    jobs.run(mpi, RANKS, [jobs.program(mpi, "train"), "--steps", str(STEPS)], where)
    return where


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    return run_train("openmpi", tmp_path_factory.mktemp("filters") / "dumps")


@pytest.fixture(scope="module")
def mpich_train(tmp_path_factory):
    return run_train("mpich", tmp_path_factory.mktemp("filters") / "dumps")


@pytest.fixture(params=["openmpi", "mpich"])
def either(request):
    return request.getfixturevalue("train" if request.param == "openmpi" else "mpich_train")


@pytest.fixture(scope="module")
def nccl(tmp_path_factory):
    """The same on the stand-in GPU, 20 steps: four ncclAllReduce per step and rank, each enqueued and run."""
    base = tmp_path_factory.mktemp("nccl")
    environment = {"LD_LIBRARY_PATH": str(jobs.BUILD / "standin"), "TRAIN_ID_FILE": str(base / "id")}
    jobs.run("openmpi", RANKS, [str(jobs.PROGRAMS / "nccl" / "train"), "--steps", "20"], base / "dumps",
             environment=environment)
    return base / "dumps"


# ---- what each command says was called -----------------------------------------------------------------------

def document(command, where, *options):
    directories = [where, where] if command == "diff" else [where]
    return jobs.document(command, *options, *directories)


def add_up(rows, count="count"):
    calls = collections.Counter()
    for row in rows:
        calls[row["op"]] += row[count]
    return dict(calls)


def calls_of_summary(where, *options):
    return add_up(document("summary", where, *options)["summary"])


def calls_of_sites(where, *options):
    return add_up(document("summary", where, "--by", "site,op", *options)["summary"])


def calls_of_report(where, *options):
    return add_up(document("report", where, *options)["summary"])


def calls_of_tree(where, *options):
    return {name: op["count"] for name, op in document("calls", where, *options)["root"]["ops"].items()}


def calls_of_export(where, *options):
    rows = jobs.records(where, *options)
    return dict(collections.Counter(row["op"] for row in rows if row["kind"] != "thread"))


def calls_of_diff(where, *options):
    rows = [row for row in document("diff", where, "--all", *options)["rows"] if row["kind"] == "operation"]
    assert add_up(rows, "count_a") == add_up(rows, "count_b")
    return add_up(rows, "count_a")


COUNTING = [calls_of_summary, calls_of_sites, calls_of_report, calls_of_tree, calls_of_export, calls_of_diff]
SELECTIONS = [
    ([], ALL),
    (["--from", "0"], ALL),
    (["--to", "1000"], ALL),
    (["--step", "3"], {"MPI_Allreduce": 2 * RANKS}),
    (["--step", "3-7"], {"MPI_Allreduce": 5 * 2 * RANKS}),
    (["--step", f"{STEPS - 2}"], {"MPI_Allreduce": 2 * RANKS}),
    (["--step", f"{STEPS - 1}"], {}),
    (["--step", f"0-{STEPS - 2}"], {"MPI_Allreduce": (STEPS - 1) * 2 * RANKS}),
    (["--step", "3", "--rank", "1"], {"MPI_Allreduce": 2}),
    (["--step", "3", "--op", "bcast"], {}),
    (["--step", "3", "--anchor", "allreduce"], {"MPI_Allreduce": RANKS}),
    (["--rank", "0,2-3"], {name: count * 3 // 4 for name, count in ALL.items()}),
    (["--rank", "77"], {}),
    (["--op", "allreduce,bcast"], {name: ALL[name] for name in ("MPI_Allreduce", "MPI_Bcast")}),
    (["--op", "!allreduce"], {name: count for name, count in ALL.items() if name != "MPI_Allreduce"}),
    (["--comm", "MPI_COMM_WORLD"], {name: ALL[name] for name in ("MPI_Allreduce", "MPI_Bcast")}),
    (["--comm", "nobody"], {}),
    (["--from", "1000"], {}),
]


@pytest.mark.parametrize("options, expected", SELECTIONS, ids=lambda x: "_".join(x) if isinstance(x, list) else "")
def test_every_command_counts_the_calls_of_a_selection(train, options, expected):
    assert {calls.__name__: calls(train, *options) for calls in COUNTING} == {
        calls.__name__: expected for calls in COUNTING}


@pytest.mark.parametrize("calls", COUNTING, ids=lambda f: f.__name__[9:])
def test_windows_side_by_side_share_no_call(train, calls):
    wall = document("report", train)["job"]["wall_seconds"]
    parts = collections.Counter()
    for i in range(5):
        options = ["--from", f"{wall * i / 5:.6f}"] + (["--to", f"{wall * (i + 1) / 5:.6f}"] if i < 4 else [])
        parts.update(calls(train, *options))
    assert parts == ALL


def test_each_step_is_one_iteration_on_every_rank(either):
    for step in range(STEPS - 1):
        rows = document("summary", either, "--by", "rank,op,bytes", "--step", step)["summary"]
        assert sorted((row["rank"], row["bytes"], row["count"]) for row in rows) == [
            (rank, size, 1) for rank in range(RANKS) for size in (8, 161 * 8)]


def test_sums_from_records_are_those_of_the_tables(either):
    def rows(*options):
        return {(row["op"], row["rank"], row["bytes"]): row
                for row in document("summary", either, "--by", "op,rank,bytes", *options)["summary"]}
    tables, records = rows(), rows("--from", "0")
    assert tables.keys() == records.keys()
    for key, row in tables.items():
        other = records[key]
        for exact in ("count", "bytes_total", "untimed", "failed", "percentiles"):
            assert row[exact] == other[exact]
        for time in ("time_total_us", "time_min_us", "time_max_us", "time_p50_us", "time_p95_us"):
            assert row[time] == pytest.approx(other[time], abs=0.001 * row["count"])


def test_deepspeed_figures_of_a_window(train):
    result = document("summary", train, "--compat", "deepspeed", "--step", "3-5")
    sizes = result["summary"]["all_reduce"]
    assert {int(size): row["count"] for size, row in sizes.items()} == {8: 3, 161 * 8: 3}
    assert list(result["summary"]) == ["all_reduce"]


def test_deepspeed_tells_who_called(train):
    """As its debug setting does, from the calls on record, which are all: sums by caller are those without."""
    plain, named = (document("summary", train, "--compat", "deepspeed", *options) for options in ([], ["--by", "caller"]))
    names = {"all_reduce": "all_reduce | [Caller Func: train_step]", "broadcast": "broadcast | [Caller Func: main]"}
    for part in ("summary", "straggler_analysis"):
        assert set(named[part]) == set(names.values()) and set(plain[part]) == set(names)
        for op, name in names.items():
            assert {size: row["count"] for size, row in named[part][name].items()} == {
                size: row["count"] for size, row in plain[part][op].items()}
    assert (plain["metadata"]["calls_not_on_record"], named["metadata"]["calls_not_on_record"]) == (0, 0)
    text = jobs.commtap("summary", "--compat", "deepspeed", "--by", "caller", train).stdout
    assert [text.split("\n").count(name) for name in names.values()] == [2, 2]
    assert jobs.commtap("summary", "--compat", "deepspeed", "--by", "rank", train, codes=(2,)).stdout == ""


def test_calls_by_caller_that_are_gone_are_said(tmp_path):
    jobs.run("openmpi", 2, [jobs.program("openmpi", "train"), "--steps", "30"], tmp_path,
             knobs={"COMMTAP_KEEP": "summary"})
    plain, named = (document("summary", tmp_path, "--compat", "deepspeed", *options)
                    for options in ([], ["--by", "caller"]))
    assert sum(row["count"] for sizes in plain["summary"].values() for row in sizes.values()) == 61
    assert named["summary"] == {} and named["metadata"]["calls_not_on_record"] == 61
    assert "61 calls are not here" in jobs.commtap("summary", "--compat", "deepspeed", "--by", "caller", tmp_path).stdout


# ---- epochs --------------------------------------------------------------------------------------------------

FIRST, SECOND = {8: 1, 24: 1}, {8: 1, 32: 4}  # MPI_Allreduce by size, in each of pcontrol's epochs


def reduced(where, *options):
    """MPI_Allreduce by size, of both ranks."""
    rows = document("summary", where, *options)["summary"]
    return {row["bytes"]: row["count"] for row in rows if row["op"] == "MPI_Allreduce"}


@pytest.fixture(scope="module", params=["all", "summary"])
def epochs(request, tmp_path_factory):
    """Two epochs; the sums know them, too, where no single call is kept."""
    where = tmp_path_factory.mktemp("epochs") / request.param
    jobs.run("openmpi", 2, [jobs.program("openmpi", "pcontrol")], where, knobs={"COMMTAP_KEEP": request.param})
    return where


def test_an_epoch_has_all_of_its_calls(epochs):
    assert reduced(epochs, "--epoch", "0") == {size: 2 * count for size, count in FIRST.items()}
    assert reduced(epochs, "--epoch", "1") == {size: 2 * count for size, count in SECOND.items()}
    both = document("summary", epochs, "--epoch", "0-1")
    assert both["coverage"]["source"] == "tables"
    assert sum(row["count"] for row in both["summary"] if row["op"] == "MPI_Allreduce") == 2 * (2 + 5)
    sites = document("summary", epochs, "--by", "caller,op", "--epoch", "1")["summary"]
    assert {row["caller"]: row["count"] for row in sites if row["op"] == "MPI_Allreduce"} == {"reduce": 10}
    assert "epochs 0 to 1" in jobs.commtap("summary", "--epoch", "2", epochs).stdout
    assert "--epoch takes" in jobs.commtap("summary", "--epoch", "2-1", epochs, codes=(2,)).stderr


def test_what_only_records_tell_of_an_epoch(tmp_path):
    jobs.run("openmpi", 2, [jobs.program("openmpi", "pcontrol")], tmp_path)
    for epoch, sizes in enumerate((FIRST, SECOND)):
        log = document("summary", tmp_path, "--compat", "deepspeed", "--epoch", str(epoch))
        for part in ("summary", "straggler_analysis"):
            assert {int(size): row["count"] for size, row in log[part]["all_reduce"].items()} == sizes
        assert reduced(tmp_path, "--epoch", str(epoch), "--sizes", "1-") == {
            size: 2 * count for size, count in sizes.items()}
    window = document("summary", tmp_path, "--epoch", "1", "--from", "0")["coverage"]["window"]
    assert window["epochs"] == [1, 1] and window["steps"] is None and window["complete"] is True


# ---- coverage ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("command", ["summary", "calls", "report"])
def test_the_source_of_sums_is_told(train, command):
    coverage = document(command, train)["coverage"]
    assert (coverage["source"], coverage["window"]) == ("tables", None)
    coverage = document(command, train, "--step", "3-4")["coverage"]
    assert coverage["source"] == "records"
    window = coverage["window"]
    assert window["steps"] == [3, 4] and window["complete"] is True and window["seen_share"] == 1.0
    assert 0 < window["from_seconds"] < window["to_seconds"]


def test_lost_records_are_no_calls_that_never_were(tmp_path):
    """The smallest ring, two pages: the last records are there, earlier ones are not, and both is said."""
    where = tmp_path / "dumps"
    jobs.run("openmpi", 2, [jobs.program("openmpi", "train"), "--steps", "700"], where, knobs={"COMMTAP_RING": "16"})
    whole = document("summary", where, "--from", "0")
    counted = sum(row["count"] for row in whole["summary"])
    window = whole["coverage"]["window"]
    assert counted < sum(row["count"] for row in document("summary", where)["summary"]) == 2 * (3 + 1400)
    assert window["complete"] is False and 0 < window["seen_share"] < 0.9
    assert whole["coverage"]["calls_lost"] is None
    text = jobs.commtap("summary", where, "--from", "0").stdout
    assert "% of that time is on record, the counts are of its calls only" in text
    end = document("summary", where, "--step", "0")
    assert end["coverage"]["window"]["complete"] is True
    assert {row["op"]: row["count"] for row in end["summary"] if row["bytes"] == 8} == {"MPI_Allreduce": 2}


# ---- who is shown, and who is judged -------------------------------------------------------------------------

def test_ranks_shown_do_not_change_who_is_named(tmp_path):
    where = tmp_path / "dumps"
    slow = ["--steps", "60", "--slow-rank", "2", "--slow-ms", "8"]
    jobs.run("openmpi", RANKS, [jobs.program("openmpi", "train"), *slow], where)
    for command in ("report", "stragglers"):
        everything = document(command, where)
        assert [s["rank"] for s in jobs.stragglers(everything)] == [2]
        for options in (["--rank", "0"], ["--op", "bcast"], ["--comm", "nobody"], ["--rank", "0", "--op", "bcast"]):
            shown = document(command, where, *options)
            assert shown["stragglers"] == everything["stragglers"]
            assert shown["findings"] == everything["findings"]
            assert [row["rank"] for row in shown["ranks"]] == ([0] if "--rank" in options else [0, 1, 2, 3])


def test_waits_shown_are_those_of_the_functions(train):
    def waits(*options):
        return {row["rank"]: row["wait_seconds"] for row in document("stragglers", train, *options)["ranks"]}
    everything, some, rest = waits(), waits("--op", "allreduce"), waits("--op", "!allreduce")
    assert all(abs(everything[rank] - some[rank] - rest[rank]) < 1e-8 for rank in range(RANKS))
    assert sum(some.values()) > 0
    assert set(waits("--op", "alltoall").values()) == {None}
    row = document("stragglers", train, "--comm", "MPI_COMM_WORLD")["ranks"][0]
    assert row["caused_seconds"] is None and row["comm_seconds"] > 0


def test_steps_take_all_filters(either):
    def rows(*options):
        return document("steps", either, *options)["rows"]
    assert [(row["rank"], row["steps"], row["operations"]) for row in rows()] == [
        (rank, STEPS - 1, 2.0) for rank in range(RANKS)]
    assert [(row["rank"], row["steps"]) for row in rows("--step", "3-4", "--rank", "1,3")] == [(1, 2), (3, 2)]
    start = {row["step"]: row["start_seconds"] for row in rows("--by", "step")}
    wanted = rows("--by", "step", "--from", f"{start[5] - 1e-3:.6f}", "--to", f"{start[8] - 1e-3:.6f}")
    assert [row["step"] for row in wanted] == [5, 6, 7]
    allreduces = rows("--op", "allreduce")
    assert [row["operations"] for row in allreduces] == [2.0] * RANKS
    assert [row["computation_seconds"] for row in allreduces] == [None] * RANKS
    for none in (["--op", "bcast"], ["--comm", "nobody"]):
        other = rows(*none)
        assert [(row["operations"], row["interval_seconds"]) for row in other] == [(0.0, None)] * RANKS
        assert [row["step_seconds"] for row in other] == [row["step_seconds"] for row in rows()]


# ---- GPUs ----------------------------------------------------------------------------------------------------

def test_a_step_on_gpus_holds_what_ran_in_it(nccl):
    """Wherever its calls were enqueued."""
    found = document("steps", nccl)
    assert found["steps_found"] >= 17
    for step in range(found["steps_found"]):
        rows = document("summary", nccl, "--by", "rank,op", "--op", "allreduce", "--step", step)["summary"]
        assert sorted((row["rank"], row["source"], row["count"]) for row in rows) == sorted(
            (rank, source, 4) for rank in range(RANKS) for source in ("gpu-event", "host"))


def test_the_call_tree_tells_gpu_times_from_enqueueing(nccl):
    tree = document("calls", nccl)["root"]
    gpu = sum(row["time_total_us"] for row in document("summary", nccl, "--by", "op")["summary"]
              if row["source"] == "gpu-event")
    assert tree["ops"]["ncclAllReduce"]["count"] == tree["ops"]["ncclAllReduce"]["gpu_count"] == 4 * 20 * RANKS
    assert tree["gpu_time_us"] == pytest.approx(gpu, rel=1e-6)
    assert tree["gpu_time_us"] > tree["ops"]["ncclAllReduce"]["time_us"]
    assert tree["ops"]["ncclCommInitRank"]["gpu_time_us"] is None
    assert "enqueueing" in jobs.commtap("calls", nccl).stdout
    step = document("calls", nccl, "--step", "3")["root"]["ops"]
    assert {name: (op["count"], op["gpu_count"]) for name, op in step.items()} == {"ncclAllReduce": (16, 16)}


def test_the_call_tree_says_where_it_has_no_gpu_times(tmp_path):
    environment = {"LD_LIBRARY_PATH": str(jobs.BUILD / "standin"), "TRAIN_ID_FILE": str(tmp_path / "id")}
    jobs.run("openmpi", 2, [str(jobs.PROGRAMS / "nccl" / "train"), "--steps", "3"], tmp_path / "dumps",
             environment=environment, knobs={"COMMTAP_GPU_TIMING": "host"})
    said = jobs.commtap("calls", tmp_path / "dumps").stdout
    assert "times of NCCL's calls are the host's, for enqueueing" in said
    assert document("calls", tmp_path / "dumps")["root"]["gpu_time_us"] is None


# ---- wrong values, empty selections --------------------------------------------------------------------------

COMMANDS = ["report", "summary", "stragglers", "steps", "calls", "export", "diff", "diagnose"]
WRONG = [
    ("--rank", "x", "--rank takes"), ("--rank", "3-1", "--rank takes"), ("--rank", "", "--rank takes"),
    ("--comm", "", "--comm takes"), ("--op", "", "--op takes"), ("--from", "soon", "--from takes"),
    ("--from", "-1", "--from takes"), ("--to", "1e3", "--to takes"), ("--step", "x", "--step takes"),
    ("--step", "5-3", "--step takes"), ("--step", "-1", "--step takes"), ("--marker", "nvtx", "--marker takes"),
    ("--marker", "pcontrol:", "--marker takes"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_values_get_one_clear_message(train, command):
    directories = [train, train] if command == "diff" else [train]
    known = jobs.commtap(command, "--help").stdout
    for option, value, says in WRONG:
        if f"{option} " not in known:
            assert command == "diagnose" and option in ("--from", "--to", "--step", "--marker")
            continue
        done = jobs.commtap(command, option, value, *directories, codes=(2,))
        assert done.stdout == "" and done.stderr.count("\n") == 1 and says in done.stderr
    if "--from " in known:
        done = jobs.commtap(command, "--from", "2", "--to", "1", *directories, codes=(2,))
        assert "--from 2 is not before --to 1" in done.stderr


@pytest.mark.parametrize("command", ["report", "summary", "stragglers", "steps", "calls", "diff"])
@pytest.mark.parametrize("options, says", [
    (["--step", "900"], "steps 0 to"), (["--from", "1000"], "lies in the time asked for"),
    (["--rank", "77"], "none of|no operation on record|nothing on record"),
], ids=["step", "from", "rank"])
def test_nothing_selected_is_said_and_no_error(train, command, options, says):
    directories = [train, train] if command == "diff" else [train]
    said = jobs.commtap(command, *options, *directories).stdout
    if command == "steps":
        says = "none of them is of the ranks"
    assert any(words in said for words in says.split("|")), said
    assert "nobody makes the others wait" not in said or options[0] == "--rank"


def test_nothing_selected_prints_no_zeros(train):
    for options in (["--step", "900"], ["--from", "1000"]):
        for command in ("report", "stragglers"):
            result = document(command, train, *options)
            assert result["stragglers"] == []
            for row in result["ranks"]:
                assert {key for key, value in row.items() if value is not None} <= {"rank", "host", "state"}
        window = document("summary", train, *options)["coverage"]["window"]
        assert [window[key] for key in ("from_seconds", "to_seconds", "seen_share", "complete")] == [None] * 4


def test_sums_have_no_time(train):
    done = jobs.commtap("export", "--table", "peers", "--step", "3", train, codes=(2,))
    assert "sums have no time" in done.stderr


def test_export_takes_a_run(train, tmp_path):
    run_id = document("report", train)["job"]["run_id"]
    both = tmp_path / "both"
    both.mkdir()
    for path in jobs.dumps(train):
        os.link(path, both / path.name)
    jobs.run("openmpi", 2, [jobs.program("openmpi", "train"), "--steps", "3"], both)
    assert calls_of_export(both, "--run", run_id) == ALL
    assert sum(calls_of_export(both).values()) == sum(ALL.values()) + 2 * (3 + 6)
    assert sum(calls_of_export(both, "--from", "0").values()) == 2 * (3 + 6)
    done = jobs.commtap("export", "--run", "nobody", both, codes=(3,))
    assert "no job is called 'nobody'" in done.stderr


def test_help_and_completion_name_every_filter():
    script = jobs.commtap("--completion").stdout
    for command in COMMANDS[:-1]:
        text = jobs.commtap(command, "--help").stdout
        line = next(line for line in script.splitlines() if line.strip().startswith(f"{command}:-*)"))
        for option in ("from", "to", "step", "marker", "anchor", "rank", "comm", "op"):
            assert f"--{option} " in text and f"--{option} " in line


def test_help_never_runs_into_its_text():
    for command in COMMANDS:
        columns = jobs.commtap(command, "--help").stdout.partition("columns, by their name")[2].splitlines()[1:]
        for line in columns:
            assert len(line) <= 120 and re.fullmatch(r" {28}\S.*|  \w+(  +\S.*)?", line), line


def test_csv_of_a_window_has_the_header_always(train):
    for options in ([], ["--step", "3"], ["--step", "900"]):
        rows = list(csv.reader(io.StringIO(jobs.commtap("summary", "--format", "csv", *options, train).stdout)))
        assert "count" in rows[0] and all(len(row) == len(rows[0]) for row in rows)


@pytest.mark.parametrize("command", ["report", "diagnose", "calls", "summary"])
def test_a_pattern_that_names_no_function_is_said(train, command):
    """Most often it was meant to match within names; functions that were not called may well be asked for."""
    done = jobs.commtap(command, train, "--op", "reduce,MPI_Bcast,!redu")
    assert "no function is called 'redu'; '*redu*' is MPI_" in done.stderr and "'reduce'" not in done.stderr
    assert "no function" not in jobs.commtap(command, train, "--op", "*fence,!send").stderr
    assert "no function is called 'walk'\n" in jobs.commtap(command, train, "--op", "walk").stderr
