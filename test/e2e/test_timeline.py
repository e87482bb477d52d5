# SPDX-License-Identifier: Apache-2.0
#
# commtap timeline on real jobs: every event of the file, read by the schemas of its viewers, against the records that
# commtap export lists, and against what commtap stragglers says of the waits.
# Must not live here: tracks and waits of jobs made by hand (test/unit/test_tracks.c).
import collections
import math
import resource
import signal
import subprocess

import jobs
import pytest
import trace_files

RANKS, SLOW = 4, 2
READERS = {"perfetto": trace_files.perfetto, "chrome": trace_files.chrome}


def run_halo(where):
    """Non-blocking messages to neighbours, all of which wait for the slow rank."""
    jobs.run("openmpi", RANKS, [jobs.program("openmpi", "exchange"), "halo", "20", str(SLOW), "10"], where)
    return where


@pytest.fixture(scope="module")
def halo(tmp_path_factory):
    return run_halo(tmp_path_factory.mktemp("timeline") / "dumps")


@pytest.fixture(scope="module")
def nccl(tmp_path_factory):
    base = tmp_path_factory.mktemp("nccl")
    environment = {"LD_LIBRARY_PATH": str(jobs.BUILD / "standin"), "TRAIN_ID_FILE": str(base / "id")}
    jobs.run("openmpi", RANKS, [str(jobs.PROGRAMS / "nccl" / "train"), "--steps", "10"], base / "dumps",
             environment=environment)
    return base / "dumps"


@pytest.fixture(params=["halo", "nccl"])
def either(request):
    return request.getfixturevalue(request.param)


def draw(where, form, tmp_path, *options):
    path = tmp_path / f"drawn.{form}"
    jobs.commtap("timeline", "--format", form, *options, "-o", path, where)
    return READERS[form](path)


def exported(where, *options):
    """Records by (rank, lane, ticket); memory in use is a counter in a trace."""
    return {(row["rank"], row["lane"], row["ticket"]): row for row in jobs.records(where, *options)
            if row["kind"] != "memory"}


# ---- events --------------------------------------------------------------------------------------------------

NAMES = {"thread": "thread begins", "exposed": "exposed communication"}
SAID = {"run_id", "generation", "rank", "host", "api", "op", "comm_size", "start_ns", "end_ns", "duration_ns"}


def arguments_of(row):
    """The columns that a slice has as arguments: what is known, and switches that are on."""
    return {key: value for key, value in row.items() if key not in SAID and value is not None and value is not False}


def same_event(drawn, row, offset):
    arguments = {key: value for key, value in drawn.arguments.items() if key != "call_stack"}
    assert arguments == arguments_of(row)
    assert drawn.name == NAMES.get(row["kind"], row["op"])
    assert drawn.end - drawn.begin == pytest.approx(row["duration_ns"], rel=1e-4, abs=2000)
    assert drawn.begin == pytest.approx(row["start_ns"] - offset, abs=50000)


@pytest.mark.parametrize("form", READERS)
def test_every_record_is_an_event_with_its_columns_as_arguments(form, either, tmp_path):
    drawn, rows = draw(either, form, tmp_path).recorded(), exported(either)
    assert drawn.keys() == rows.keys() and len(rows) > 100
    first = min(rows, key=lambda key: rows[key]["start_ns"])
    offset = rows[first]["start_ns"] - drawn[first].begin
    for key, row in rows.items():
        same_event(drawn[key], row, offset)


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("options", [("--rank", "1-2"), ("--op", "*send*,*AllReduce"), ("--comm", "MPI_COMM_WORLD"),
                                     ("--step", "3-4"), ("--from", "0.05", "--to", "0.2")], ids=" ".join)
def test_filters_choose_what_export_lists(form, options, either, tmp_path):
    drawn, rows = draw(either, form, tmp_path, *options).recorded(), exported(either, *options)
    assert drawn.keys() == rows.keys()
    assert len(rows) < len(exported(either))


def test_both_formats_hold_the_same(either, tmp_path):
    one, other = draw(either, "perfetto", tmp_path), draw(either, "chrome", tmp_path)

    def told(trace):
        return sorted((s.rank, s.track, s.name, s.begin, s.end, sorted(map(str, s.arguments.items())), s.flows)
                      for s in [*trace.slices, *trace.instants])
    assert told(one) == told(other)
    assert one.counters.keys() == other.counters.keys()
    for key, values in one.counters.items():
        assert [at for at, _ in values] == [at for at, _ in sorted(other.counters[key], key=lambda value: value[0])]


# ---- nesting, waits, bandwidth -------------------------------------------------------------------------------

@pytest.mark.parametrize("form", READERS)
def test_only_waiting_and_transferring_lie_inside_others(form, either, tmp_path):
    trace = draw(either, form, tmp_path)
    inner = [item for item in trace.slices if item.parent]
    assert {item.name for item in inner} == {"waiting", "transferring"}
    for item in inner:
        assert item.parent.begin <= item.begin <= item.end <= item.parent.end and not item.parent.parent
    by_parent = collections.Counter((id(item.parent), item.name) for item in inner)
    assert max(by_parent.values()) == 1


def test_what_is_drawn_as_waiting_is_what_stragglers_counts(halo, tmp_path):
    waited, told = collections.Counter(), jobs.document("stragglers", halo)["ranks"]
    for item in draw(halo, "perfetto", tmp_path).parts("waiting"):
        waited[trace_files.rank_of(item.rank)] += item.end - item.begin
        assert item.arguments["for_rank"] in range(RANKS)
    for row in told:
        assert waited[row["rank"]] / 1e9 == pytest.approx(row["wait_seconds"], rel=0.02, abs=0.0005)
    assert max(waited.values()) > 20 * 0.005e9 and min(range(RANKS), key=lambda rank: waited[rank]) == SLOW


def test_neighbours_wait_for_the_slow_rank(halo, tmp_path):
    causes = collections.Counter()
    for item in draw(halo, "perfetto", tmp_path).parts("waiting"):
        causes[item.arguments["for_rank"]] += item.end - item.begin
    assert causes.most_common(1)[0][0] == SLOW


def test_bandwidth_is_bytes_by_the_time_behind_the_wait(either, tmp_path):
    trace = draw(either, "perfetto", tmp_path)
    rates = {(rank, round(value, 9)) for (rank, _), values in trace.counters.items() for _, value in values}
    waits = {id(item.parent): item.end for item in trace.parts("waiting")}
    checked = 0
    for item in trace.recorded().values():
        begin = waits.get(id(item), item.begin)
        if item.arguments["kind"] in ("call", "done", "gpu", "kernel") and item.arguments.get("bytes") and \
                item.end > begin:
            assert (item.rank, round(item.arguments["bytes"] / (item.end - begin), 9)) in rates
            checked += 1
    assert checked > 50


def test_steps_are_those_of_commtap_steps(halo, tmp_path):
    trace = draw(halo, "perfetto", tmp_path)
    drawn = collections.Counter((trace_files.rank_of(item.rank), item.name) for item in trace.slices
                                if item.track == "steps" and item.name != "step")
    told = collections.Counter((row["rank"], f"step {row['step']}")
                               for row in jobs.document("steps", "--by", "both", halo)["rows"] if row["step"] is not None)
    assert drawn == told and len(drawn) >= RANKS * 10


# ---- flows ---------------------------------------------------------------------------------------------------

def paired(rows):
    """What belongs together, from the exported columns alone."""
    together = collections.defaultdict(list)
    for key, row in rows.items():
        if row["collective"] and row["kind"] in ("call", "gpu", "kernel"):
            together["collective", row["comm"], row["seq"]].append(key)
        elif (row["send"] or row["recv"]) and row["kind"] in ("call", "done") and row["seq"] is not None:
            ends = (row["rank"], row["peer_rank"]) if row["send"] else (row["peer_rank"], row["rank"])
            together["message", row["comm"], ends, row["tag"], row["seq"]].append(key)
    return {frozenset(keys) for keys in together.values() if len(keys) > 1}


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("options", [(), ("--rank", "0,1")], ids=["all", "two ranks"])
def test_flows_join_collectives_and_messages_and_have_both_ends(form, options, either, tmp_path):
    drawn = [frozenset(keys) for keys in draw(either, form, tmp_path, *options).flows().values()]
    assert len(drawn) == len(set(drawn)) and set(drawn) == paired(exported(either, *options))
    assert min(map(len, drawn)) >= 2


def test_a_message_leads_from_its_send_to_the_end_of_its_receive(halo, tmp_path):
    trace = draw(halo, "perfetto", tmp_path)
    recorded = trace.recorded()
    for keys in trace.flows().values():
        ends = [recorded[key] for key in keys]
        if len(ends) == 2 and any("send" in end.arguments for end in ends):
            sent, received = sorted(ends, key=lambda end: "recv" in end.arguments)
            assert sent.arguments.get("send") and received.arguments.get("recv") and received.end > sent.begin


# ---- call stacks, limits -------------------------------------------------------------------------------------

def test_call_stacks_lead_to_main(halo, tmp_path):
    stacks = [item.arguments["call_stack"] for item in draw(halo, "perfetto", tmp_path).recorded().values()
              if "call_stack" in item.arguments]
    assert len(stacks) > 100
    assert sum("main (exchange.c:" in stack for stack in stacks) == len(stacks)


@pytest.mark.parametrize("form", READERS)
def test_a_file_that_reached_its_limit_is_sound_and_says_so(form, halo, tmp_path):
    jobs.run("openmpi", RANKS, [jobs.program("openmpi", "exchange"), "halo", "600", "9", "0"], tmp_path / "long")
    path = tmp_path / "cut"
    said = jobs.commtap("timeline", "--format", form, "--limit", "1", "-o", path, tmp_path / "long").stderr
    assert 0.9 * 2**20 < path.stat().st_size <= 2**20 + 64
    trace = READERS[form](path, whole=False)
    assert "cut at 1 MiB" in said and "--step" in said
    cut_from = float(said.split(" s of the job")[0].split()[-1])
    complete = {key for key, row in draw(tmp_path / "long", form, tmp_path).recorded().items()
                if row.begin < (cut_from - 1e-6) * 1e9}
    assert complete <= trace.recorded().keys() and not math.isclose(cut_from, 0)


# ---- the file ------------------------------------------------------------------------------------------------

def test_a_foreign_file_is_left_alone_and_an_own_one_replaced(halo, tmp_path):
    path = tmp_path / "file"
    path.write_text("dear diary")
    refused = jobs.commtap("timeline", "-o", path, halo, codes=(4,))
    assert path.read_text() == "dear diary" and "--force" in refused.stderr
    jobs.commtap("timeline", "--force", "-o", path, halo)
    first = path.read_bytes()
    jobs.commtap("timeline", "-o", path, halo)
    assert path.read_bytes() == first
    jobs.commtap("timeline", "--format", "chrome", "-o", path, halo)
    assert path.read_bytes().startswith(b"{") and [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_an_output_that_cannot_be_written_exits_with_4(halo, tmp_path):
    assert "/dev/full" in jobs.commtap("timeline", "-o", "/dev/full", halo, codes=(4,)).stderr
    assert jobs.commtap("timeline", "-o", tmp_path / "no" / "such", halo, codes=(4,)).stderr


def test_a_full_disk_keeps_the_file_that_was_there(halo, tmp_path):
    """A limit on the size of files stands for the disk."""
    path = tmp_path / "file"
    jobs.commtap("timeline", "--rank", "0", "-o", path, halo)
    before = path.read_bytes()

    def full():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), len(before)))
    done = subprocess.run([jobs.COMMTAP, "timeline", "-o", path, halo], preexec_fn=full, capture_output=True,
                          timeout=60, check=False)
    assert done.returncode == 4 and b"file" in done.stderr
    assert path.read_bytes() == before and [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_usage_and_empty_selections(halo, tmp_path):
    assert "-o FILE" in jobs.commtap("timeline", halo, codes=(2,)).stderr
    assert "--limit" in jobs.commtap("timeline", "-o", tmp_path / "x", "--limit", "0", halo, codes=(2,)).stderr
    assert jobs.commtap("timeline", "-o", tmp_path / "x", tmp_path, codes=(3,)).stderr
    assert "nothing" in jobs.commtap("timeline", "--from", "900", "-o", tmp_path / "x", halo).stderr
    assert trace_files.perfetto(tmp_path / "x").slices == []
