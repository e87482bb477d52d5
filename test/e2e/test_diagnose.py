# SPDX-License-Identifier: Apache-2.0
#
# Real jobs that hang, diagnosed while they do and after they were killed; with the smallest rings.
# Must not live here: made-up scenes (test/unit/test_diagnose.c).
import contextlib
import os
import pathlib
import re
import shutil
import signal
import textwrap
import time

import pytest

import jobs

pytestmark = pytest.mark.hangs

RANKS = 4
KNOBS = {"COMMTAP_RING": "16"}


def diagnose(where):
    return jobs.document("diagnose", where)


def diagnose_when_still(where, tries=10):
    """On a busy machine a signal, and the ranks' last steps, take their time: who is asked before a rank has come to its
    last call is told, rightly, that this rank has not. Two answers that name the same ranks in the same states are taken."""
    result, before = diagnose(where), None
    while tries > 0 and (result["verdict"] == "ok" or before is None or states(result) != states(before)):
        result, before, tries = diagnose(where), result, tries - 1
    return result


@contextlib.contextmanager
def hanging(mpi, mode, where, program="hang", way="preload", knobs=None):
    """A job that has come to its hang; killed as a whole at the end."""
    line = jobs.job_line(mpi, RANKS, [jobs.program(mpi, program), mode], where, way=way,
                         knobs={**KNOBS, **(knobs or {})})
    process = jobs.start(line)
    try:
        assert process.stdout.read(RANKS * len("ready\n")).count("ready") == RANKS
        yield process
    finally:
        jobs.stop(process)


def assert_report_agrees(where, result):
    """The page says what the diagnosis says: verdict, culprits, and every line of code that it names."""
    said = jobs.report(where)["diagnosis"]
    assert said == {"verdict": result["verdict"], "severity": result["severity"],
                    "culprits": [{"rank": c["rank"], "state": c["state"]} for c in result["culprits"]]}
    text = " ".join(result["text"])
    places = re.findall(r"\(\S+:\d+\)", " ".join(c["where"] or "" for c in result["culprits"]))
    assert all(place in text for place in places), (places, text)


def both(mpi, mode, where):
    """What is said while the job hangs; the same must be said when it was killed."""
    with hanging(mpi, mode, where):
        alive = diagnose_when_still(where)
        assert alive["looks"] == 2
        assert_report_agrees(where, alive)
    dead = diagnose(where)
    for key in ("verdict", "collectives", "cycle", "mismatch", "unmatched"):
        assert dead[key] == alive[key], (alive["text"], dead["text"])
    assert states(dead) == states(alive)
    assert dead["severity"] == "error" or dead["verdict"] not in ("deadlock", "desync"), dead["text"]
    assert_report_agrees(where, dead)
    return alive


def states(result):
    return {c["rank"]: c["state"] for c in result["culprits"]}


def process_of(where, rank):
    rows = jobs.document("check", where, codes=(0, 1))["dumps"]
    return next(row["pid"] for row in rows if row["rank"] == rank)


def test_everybody_receives_first(mpi, where):
    result = both(mpi, "ring", where)
    assert result["verdict"] == "deadlock"
    assert sorted(step["rank"] for step in result["cycle"]) == list(range(RANKS))
    assert all("hang.c:" in culprit["where"] for culprit in result["culprits"])
    assert all(culprit["where"] in result["text"][0] for culprit in result["culprits"])
    for step in result["cycle"]:
        assert step["waits_for"] == [(step["rank"] - 1) % RANKS]
        assert (step["op"], step["tag"]) == ("MPI_Recv", 7)


def test_who_is_missing_among_neighbours_is_a_neighbour(mpi, where):
    """Rank 1 is missing for 0 and 2, and these, one round later, for 3: of the whole communicator nobody else is."""
    result = both(mpi, "neighbours", where)
    assert result["verdict"] == "hang" and states(result) == {1: "in_user_code"}
    first, second = sorted(result["collectives"], key=lambda collective: collective["seq"])
    assert (first["missing"], first["entered"]) == ([1], [0, 2, 3])
    assert (second["missing"], second["entered"], second["seq"]) == ([0, 2], [3], first["seq"] + 1)


def test_what_the_ranks_asked_for_wait_in(where):
    """The verdict stays; what some of them wait in stands beside it."""
    both("openmpi", "ring", where)
    whole = diagnose(where)
    assert whole["waits"] is None
    for options, ranks in ((["--rank", "1-2"], [1, 2]), (["--op", "recv"], list(range(RANKS))), (["--op", "bcast"], []),
                           (["--comm", "MPI_COMM_WORLD", "--rank", "0"], [0]), (["--comm", "nobody"], [])):
        result = jobs.document("diagnose", *options, where)
        assert sorted(wait["rank"] for wait in result["waits"]) == ranks
        assert all(wait["op"] == "MPI_Recv" and len(wait["waits_for"]) == 1 for wait in result["waits"])
        assert {**result, "waits": None} == whole
        text = jobs.commtap("diagnose", *options, where).stdout
        assert ("nothing waits" in text) == (not ranks) and text.count(": MPI_Recv on MPI_COMM_WORLD") >= len(ranks)
    asked = jobs.commtap("diagnose", "--op", "*", "--top", "1", where).stdout.partition("of what was asked for:")[2]
    assert asked.count(": MPI_Recv on") == 1 and f"... and {RANKS - 1} more" in asked


def test_everybody_sends_first(mpi, where):
    result = both(mpi, "sends", where)
    assert result["verdict"] == "deadlock"
    assert {(step["rank"], *step["waits_for"]) for step in result["cycle"]} == {(r, (r + 1) % RANKS) for r in range(RANKS)}


def test_receives_of_a_tag_that_nobody_sends(mpi, where):
    result = both(mpi, "waitall", where)
    assert result["verdict"] == "deadlock"
    assert {step["op"] for step in result["cycle"]} == {"MPI_Waitall"}


def test_two_communicators_in_two_orders(mpi, where):
    result = both(mpi, "swapped", where)
    assert result["verdict"] == "deadlock"
    assert len(result["cycle"]) == 2
    assert {c["comm_name"] for c in result["collectives"]} == {"first", "second"}


def test_missing_collective(mpi, where):
    result = both(mpi, "skip", where)
    assert result["verdict"] == "hang"
    (collective,) = result["collectives"]
    assert (collective["op"], collective["seq"], collective["start"]) == ("MPI_Allreduce", 40, None)
    assert (collective["entered"], collective["missing"]) == ([0, 2, 3], [1])
    assert states(result) == {1: "in_user_code"}


def test_a_persistent_collective_that_one_rank_did_not_start(where):
    result = both("mpich", "start", where)  # Open MPI 4 has none
    assert result["verdict"] == "hang"
    (collective,) = result["collectives"]
    assert (collective["op"], collective["seq"], collective["start"]) == ("MPI_Allreduce_init", 40, 5)
    assert (collective["entered"], collective["missing"]) == ([0, 2, 3], [1])
    assert states(result) == {1: "in_user_code"}
    ending, = (finding["text"] for finding in jobs.report(where)["findings"] if finding["code"] == "killed")
    assert "MPI_Wait for MPI_Allreduce_init #40, start #5, on MPI_COMM_WORLD" in ending, ending
    assert "which rank 1 never started" in ending, ending


def test_a_mismatch_in_a_job_that_finishes(where):
    """One rank asks for the maximum where the others ask for the sum: no rank hangs, and the result is wrong."""
    jobs.need("python3-mpi4py")
    script = textwrap.dedent("""
        import array
        from mpi4py import MPI
        world, mine, all = MPI.COMM_WORLD, array.array("d", [1]), array.array("d", [0])
        for step in range(100):
            world.Allreduce(mine, all, MPI.MAX if world.rank == 2 and step == 70 else MPI.SUM)
    """)
    jobs.run("openmpi", RANKS, [jobs.PYTHON, "-c", script], where, knobs=KNOBS)
    result = diagnose(where)
    assert (result["verdict"], result["severity"], states(result)) == ("desync", "error", {2: "mismatch"})
    assert result["mismatch"]["expected"]["ranks"] == [0, 1, 3] and result["mismatch"]["other"]["ranks"] == [2]
    [finding] = [f for f in jobs.report(where)["findings"] if f["severity"] == "error"]
    assert finding["code"] == "desync" and finding["text"] == " ".join(result["text"])


def test_a_rank_that_never_comes_to_finalize(mpi, where):
    result = both(mpi, "finalize", where)
    assert result["verdict"] == "hang"
    assert states(result) == {1: "in_user_code"}
    assert "hang.c:" in result["culprits"][0]["where"]
    text = " ".join(result["text"])
    assert "MPI_Finalize: ranks 0, 2-3 wait" in text or "MPI_Finalize: ranks 0, 2, 3 wait" in text
    # the page says the same
    findings = jobs.report(where)["findings"]
    assert [f["code"] for f in findings if f["code"] in ("hang", "maybe_hang")], findings


def test_the_end_of_a_chain_is_to_blame(mpi, where):
    result = both(mpi, "chain", where)
    assert result["verdict"] == "hang"
    assert states(result) == {0: "in_user_code"}
    text = " ".join(result["text"])
    assert "rank 1 in MPI_Recv(source 0, tag 7)" in text
    where_it_is = result["culprits"][0]["where"]
    assert "after MPI_Sendrecv at " in where_it_is and "hang.c:" in where_it_is


def test_mismatched_collective(mpi, where):
    result = both(mpi, "mismatch", where)
    assert result["verdict"] == "desync"
    assert states(result) == {2: "mismatch"}
    assert result["mismatch"]["from_seq"] == result["mismatch"]["to_seq"] == 40
    assert result["mismatch"]["expected"]["op"] == "MPI_Allreduce"
    assert result["mismatch"]["other"]["op"] == "MPI_Barrier"


@pytest.mark.parametrize("last", ["allgather", "twins"])
def test_ranks_may_call_the_same_collective_differently(mpi, last, where):
    with hanging(mpi, last, where, program="legal"):
        time.sleep(0.3)
    result = diagnose(where)
    assert result["verdict"] == "hang", result["text"]
    assert states(result) == {RANKS - 1: "in_user_code"}
    assert result["mismatch"] is None


def test_a_wildcard_is_no_deadlock(mpi, where):
    result = both(mpi, "wildcard", where)
    assert result["verdict"] == "hang"
    assert states(result) == {0: "in_user_code"}
    assert result["cycle"] == []


def test_a_waitany_is_no_deadlock(mpi, where):
    result = both(mpi, "waitany", where)
    assert result["verdict"] == "hang"
    assert states(result) == {0: "in_user_code"}
    assert result["cycle"] == []


def test_a_waitany_that_nobody_can_end(mpi, where):
    result = both(mpi, "anycircle", where)
    assert result["verdict"] == "deadlock"
    step = next(step for step in result["cycle"] if step["op"] == "MPI_Waitany")
    assert (step["rank"], step["waits_for"]) == (RANKS - 1, [0, 1])


def test_a_job_that_moves_does_not_hang(mpi, where):
    with hanging(mpi, "moves", where):
        result = diagnose(where)
    assert result["verdict"] == "ok"
    assert result["culprits"] == []


def test_a_deadlock_beside_ranks_that_move(mpi, where):
    with hanging(mpi, "partial", where):
        result = diagnose_when_still(where)
    assert result["verdict"] == "deadlock", result["text"]
    assert {(step["rank"], *step["waits_for"]) for step in result["cycle"]} == {(0, 1), (1, 0)}
    assert "Meanwhile ranks 2, 3 came on." in result["text"]


def test_stopped_rank(mpi, where):
    with hanging(mpi, "moves", where):
        pids = [process_of(where, rank) for rank in range(RANKS)]
        os.kill(pids[2], signal.SIGSTOP)
        result = diagnose_when_still(where)
        for pid in [pids[2], *pids]:  # as it stands: the stopped one must not come on
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert result["verdict"] == "hang"
    assert list(states(result)) == [2]
    assert "stopped" in result["culprits"][0]["reason"]
    # that it was stopped cannot be told any more; who was waited for can, where others had left it behind
    afterwards = diagnose(where)
    awaited = {rank for collective in result["collectives"] for rank in collective["missing"]}
    assert set(states(afterwards)) == awaited
    assert 2 in awaited or not awaited
    assert afterwards["collectives"] == result["collectives"]


def children_of(pid):
    """Its own, and theirs."""
    own = [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return own + [child for one in own for child in children_of(one)]


@contextlib.contextmanager
def undisturbed():
    """What is woken by this process waits until it is done, as far as it may ask for that."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def test_a_job_that_is_killed_while_it_is_suspended_did_not_hang(mpi, where):
    """As batch systems end what they have preempted: the launcher is suspended, too, and all ranks end together. Longer
    than three beats."""
    with hanging(mpi, "moves", where, way="run") as process:
        time.sleep(3)  # the first beats
        pids = [process_of(where, rank) for rank in range(RANKS)]
        launchers = [pid for pid in children_of(process.pid) if pid not in pids]
        for pid in launchers + pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(9)
        with undisturbed():
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        for pid in launchers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    result = diagnose(where)
    assert result["verdict"] in ("ok", "unknown"), result["text"]


def test_a_job_that_is_stopped_as_a_whole_is_suspended(mpi, where):
    """As by scontrol suspend: nobody is waited for. A circle of waits stays one."""
    with hanging(mpi, "moves", where):
        pids = [process_of(where, rank) for rank in range(RANKS)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        result = diagnose_when_still(where)
        os.kill(pids[1], signal.SIGCONT)
        other = diagnose_when_still(where)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert (result["verdict"], result["culprits"]) == ("ok", []), result["text"]
    assert "the job is suspended" in result["text"][0]
    assert other["verdict"] == "hang" and 1 not in states(other), other["text"]


def test_a_suspended_deadlock_is_one(mpi, where):
    with hanging(mpi, "ring", where):
        for rank in range(RANKS):
            os.kill(process_of(where, rank), signal.SIGSTOP)
        result = diagnose_when_still(where)
    assert result["verdict"] == "deadlock", result["text"]


def parent_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[1])


def test_killed_rank(mpi, where):
    """Looked at before the launcher, which is held for that long, takes the others down."""
    with hanging(mpi, "skip", where):
        pid = process_of(where, 1)
        launcher = parent_of(pid)
        os.kill(launcher, signal.SIGSTOP)
        try:
            os.kill(pid, signal.SIGKILL)
            result = diagnose_when_still(where)
            jobs.commtap("diagnose", "--fail-on", "dead_rank", where, codes=(1,))
        finally:
            os.kill(launcher, signal.SIGCONT)
    assert result["verdict"] == "dead_rank"
    assert states(result) == {1: "dead"}
    assert result["collectives"][0]["missing"] == [1]
    afterwards = diagnose(where)  # who went first cannot be told any more, who was waited for can
    assert list(states(afterwards)) == [1]
    assert afterwards["collectives"] == result["collectives"]


STAND = 1  # seconds that a hang is let stand before it is killed: far more than calls took before


def notes(where):
    """The lines that `commtap run` wrote of the job's end, by their first word."""
    lines = [line for path in pathlib.Path(where).glob("*.deaths") for line in path.read_text().splitlines()]
    return {line.split("=")[0].split()[0]: line for line in lines}


def killed_under_run(mpi, where, rank, number, mode="skip", stand=STAND):
    """One rank is killed, upon which the launcher ends the others; of "skip", a hang in which all wait for rank 1."""
    with hanging(mpi, mode, where, way="run") as process:
        time.sleep(stand)
        os.kill(process_of(where, rank), number)
        process.wait(timeout=60)
    result = diagnose(where)
    assert_report_agrees(where, result)
    return result


def test_a_rank_killed_at_work(mpi, where):
    result = killed_under_run(mpi, where, 2, signal.SIGSEGV, mode="moves", stand=0.2)
    assert result["verdict"] == "dead_rank", result["text"]
    assert states(result) == {2: "dead"}
    assert result["culprits"][0]["reason"].startswith("was the first to die")


@pytest.mark.parametrize("rank, number", [(2, signal.SIGSEGV), (1, signal.SIGKILL)])
def test_what_stood_before_a_rank_was_killed(mpi, rank, number, where):
    """Whoever is killed first in a job that stands already is not why it stood. Launchers end the others by SIGKILL,
    too: where these followed before the first was gone, whose end came first is no more than a guess, which is said."""
    result = killed_under_run(mpi, where, rank, number)
    assert result["verdict"] == "hang", result["text"]
    assert states(result) == {1: "in_user_code"}
    noted, text = notes(where), " ".join(result["text"])
    said = "died" if "died" in noted else "first"
    assert f"signal={number:d}" in noted[said]
    if said == "died" or number != signal.SIGKILL:
        assert f"The first process to end was that of rank {rank}, of signal {number:d}" in text
    if said == "died":
        assert result["standing"]["kind"] == "long" and result["standing"]["seconds"] >= STAND
    else:
        assert "the others followed at once" in text


def test_the_rank_that_is_waited_for_crashes(mpi, where):
    result = killed_under_run(mpi, where, 1, signal.SIGSEGV)
    assert (result["verdict"], states(result)) == ("dead_rank", {1: "dead"}), result["text"]


def test_a_rank_that_alone_is_told_to_end_is_named(where):
    """As a memory watcher does. Hydra kills the others; Open MPI asks them first, as whoever ends the whole job does."""
    jobs.need_mpi("mpich")
    result = killed_under_run("mpich", where, 1, signal.SIGTERM)
    assert "The first process to end was that of rank 1, of signal 15" in " ".join(result["text"]), result["text"]


def test_a_group_that_is_told_to_end_has_a_known_end(mpi, where):
    """As timeout(1) does: the launcher is told twice, and may leave before its ranks have ended."""
    with hanging(mpi, "skip", where, way="run") as process:
        time.sleep(STAND)
        jobs.end_as_a_scheduler_does(process)
    result = diagnose(where)
    assert (result["verdict"], states(result)) == ("hang", {1: "in_user_code"}), result["text"]
    assert result["standing"]["end_known"], (result["text"], notes(where))
    assert_may_be_a_pause(result, 1)
    assert_report_agrees(where, result)


def test_who_comes_late_to_finalize_is_not_said_to_be_unknown(mpi, where):
    """Ranks may have something to do before it: a second is no proof. But when they ended is known."""
    with hanging(mpi, "finalize", where, way="run") as process:
        time.sleep(STAND)
        jobs.end_as_a_scheduler_does(process)
    text = " ".join(diagnose(where)["text"])
    assert "nothing tells how long" not in text and "when they ended, the oldest wait" in text


def test_ranks_killed_one_after_the_other(mpi, where):
    with hanging(mpi, "chain", where, way="run") as process:
        time.sleep(STAND)
        for rank in (2, 0, 3, 1):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_of(where, rank), signal.SIGKILL)
            time.sleep(0.1)
        process.wait(timeout=60)
    result = diagnose(where)
    assert (result["verdict"], states(result)) == ("hang", {0: "in_user_code"}), result["text"]
    assert_report_agrees(where, result)


def test_a_fence_that_one_rank_left_out(mpi, where):
    result = both(mpi, "fence", where)
    assert (result["verdict"], states(result)) == ("deadlock", {1: "never_entered"}), result["text"]
    assert "MPI_Win_fence" in result["culprits"][0]["reason"] and "MPI_Allreduce" in result["culprits"][0]["where"]
    assert result["culprits"][0]["where"] in " ".join(result["text"])


def test_a_barrier_that_one_rank_left_out_for_a_message(mpi, where):
    """Rank 1, for whose message it waits, waits itself."""
    result = both(mpi, "past", where)
    assert (result["verdict"], states(result)) == ("deadlock", {2: "never_entered"}), result["text"]
    assert re.search(r"never entered MPI_Barrier .* in which ranks 0, 1, 3 wait", result["culprits"][0]["reason"])


def test_a_lock_that_is_kept(mpi, where):
    """Rank 0, whose memory it is, takes no part."""
    result = both(mpi, "lock", where)
    assert (result["verdict"], states(result)) == ("deadlock", {rank: "blocked" for rank in (1, 2, 3)}), result["text"]
    assert "waits for rank 1, which holds the lock" in " ".join(result["text"])


def test_a_receive_from_anybody_that_nobody_sends_to(mpi, where):
    result = both(mpi, "unsent", where)
    assert (result["verdict"], states(result)) == ("deadlock", {0: "blocked"}), result["text"]
    assert result["culprits"][0]["reason"] == \
        "waits for a message from any source, tag 6, that nobody sends; on record it has received 3 such before"


def waits(where):
    return {wait["rank"]: (wait["op"], wait["waits_for"])
            for wait in jobs.document("diagnose", "--rank", f"0-{RANKS - 1}", where)["waits"]}


@pytest.mark.parametrize("mode, expected", [
    ("epoch", {0: ("MPI_Win_start", [1]), 2: ("MPI_Win_start", [1]), 3: ("MPI_Win_wait", [0, 2])}),
    ("completes", {0: ("MPI_Win_wait", [1]), 2: ("MPI_Win_wait", [1])})])
def test_an_epoch_that_one_rank_holds_up(mpi, mode, expected, where):
    """Rank 1 does not let its neighbours in, or does not complete: they wait for it, and 3, opposite, for them."""
    result = both(mpi, mode, where)
    assert (result["verdict"], states(result)) == ("hang", {1: "in_user_code"}), result["text"]
    found = waits(where)
    found.pop(3 if mode == "completes" else None, None)  # in MPI_Finalize
    assert found == expected
    for rank, (op, ranks) in expected.items():
        who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]}, {ranks[1]}"
        assert re.search(rf"rank {rank} in {op} on \S+ \w+ waits for {who}\.", " ".join(result["text"])), result["text"]


def test_an_epoch_that_others_ask_for_again_and_again(mpi, where):
    with hanging(mpi, "asks", where):
        result = diagnose_when_still(where)
        assert (result["verdict"], states(result)) == ("hang", {1: "in_user_code"}), result["text"]
        found = waits(where)
    assert {rank: found[rank] for rank in (0, 2)} == {rank: ("MPI_Win_test", [1]) for rank in (0, 2)}


def test_a_message_with_a_wrong_tag(mpi, where):
    result = both(mpi, "tag", where)
    assert (result["verdict"], states(result)) == ("deadlock", {0: "blocked", 1: "blocked"}), result["text"]
    message, = result["unmatched"]
    assert message["differs"] == "tag"
    assert {key: message["sent"][key] for key in ("rank", "peer", "tag", "op")} == \
        {"rank": 1, "peer": 0, "tag": 42, "op": "MPI_Send"}
    assert {key: message["wanted"][key] for key in ("rank", "peer", "tag", "op")} == \
        {"rank": 0, "peer": 1, "tag": 24, "op": "MPI_Recv"}
    text = " ".join(result["text"])
    for side in ("sent", "wanted"):
        assert message[side]["site"] in text and "hang.c:" in message[side]["site"]
    assert "tag 42" in text and "tag 24" in text


def assert_may_be_a_pause(result, rank):
    """Whoever sleeps, or reads a file, may come back: the job stood, but that it would have done so for ever nothing
    tells. How long the rank was away stands beside the longest that it ever was."""
    assert (result["verdict"], result["severity"]) == ("hang", "warning"), result["text"]
    assert result["standing"]["kind"] == "long" and result["standing"]["seconds"] >= STAND
    culprit, = result["culprits"]
    assert culprit["rank"] == rank and culprit["away_seconds"] >= STAND
    assert culprit["longest_away_seconds"] >= 0
    text = " ".join(result["text"])
    assert text.startswith("hang, or a long pause") and "away from the library for" in text


def test_a_job_ended_from_outside_has_no_dead_rank(mpi, where):
    with hanging(mpi, "skip", where, way="run"):
        time.sleep(STAND)
    result = diagnose(where)
    assert_may_be_a_pause(result, 1)
    assert set(notes(where)) == {"ended"}


def test_lost_dump(mpi, where):
    with hanging(mpi, "skip", where):
        pass
    rows = jobs.document("check", where, codes=(0, 1))["dumps"]
    os.unlink(os.path.join(where, next(row["file"] for row in rows if row["rank"] == 1)))
    result = diagnose(where)
    assert result["verdict"] == "dead_rank"
    assert states(result) == {1: "no_dump"}


def test_a_rank_that_comes_late_to_mpi_init_is_not_dead(mpi, where, tmp_path):
    """The others wait in MPI_Init, and nothing tells yet whether it will come: no reason to end the job."""
    go, rank = tmp_path / "go", "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
    script = f'[ {rank} != 1 ] || until [ -e {go} ]; do sleep 0.05; done; exec {jobs.program(mpi, "train")} --steps 5'
    process = jobs.start(jobs.job_line(mpi, 4, ["sh", "-c", script], where))
    try:
        end = time.monotonic() + 60
        while len(list(where.glob("*.ct"))) < 3:
            assert time.monotonic() < end
            time.sleep(0.05)
        result = diagnose(where)
        assert (result["verdict"], result["severity"], states(result)) == ("unknown", "warning", {1: "no_dump"})
        assert "the job is starting: no rank on record has come out of MPI_Init, and rank 1 has left no dump" in " ".join(result["text"])
        assert "unknown: rank 1 has left no dump here" in jobs.commtap("top", "--once", "--interval", "1", where).stdout
        go.touch()
        assert process.communicate(timeout=60)[0] is not None and process.returncode == 0
    finally:
        jobs.stop(process)
    assert diagnose(where)["verdict"] == "ok"


def test_a_dump_that_is_on_another_host_is_not_lost(mpi, where):
    """What its rank does is known there: nothing says that it is dead."""
    with hanging(mpi, "skip", where):
        live = {row["rank"]: os.path.join(where, row["file"]) for row in jobs.document("check", where, codes=(0, 1))["dumps"]}
        kept = pathlib.Path(where) / "kept"
        kept.mkdir()
        for rank, path in live.items():
            if rank != 1:
                shutil.copy(path, kept)
        name = os.path.basename(live[1])
        (kept / name.replace(".ct", ".stub")).write_text(
            f"host=nodeB\nboot_id=00000000-0000-4000-8000-000000000000\npath=/dev/shm/{name}\npid=4242\nrank=1\n")
        assert not {"dead_rank", "hang"} & {finding["code"] for finding in jobs.report(kept)["findings"]}
        result = diagnose(kept)
        assert result["verdict"] == "unknown" and states(result) == {1: "not_collected"}
        assert re.search("the others wait for rank 1, whose dump lies on nodeB and has not been collected", result["text"][0])
        assert "unknown" in jobs.commtap("top", "--once", kept, codes=range(5)).stdout
    result = diagnose(kept)  # of the job that is over likewise
    assert result["verdict"] == "unknown" and states(result) == {1: "not_collected"}
    shutil.copy(live[1], kept)
    assert states(diagnose(kept)) == {1: "in_user_code"}


def test_finished_job(mpi, where):
    jobs.run(mpi, RANKS, [jobs.program(mpi, "hang"), "none"], where, knobs=KNOBS)
    result = diagnose(where)
    assert result["verdict"] == "ok"
    assert result["looks"] == 1


def test_the_report_begins_with_it(mpi, where):
    """It says where it is known that the job stood; without the heartbeat no dump tells when it was killed."""
    with hanging(mpi, "chain", where, way="run", knobs={"COMMTAP_HEARTBEAT": "off"}):
        time.sleep(STAND)
        first = jobs.report(where)["findings"][0]
        assert (first["severity"], first["code"]) == ("warning", "maybe_hang")
        assert "wait for rank 0" in first["text"] and "by now" in first["text"]
        assert jobs.commtap("diagnose", "--fail-on", "hang", where, codes=(1,))
    first = jobs.report(where)["findings"][0]
    assert (first["severity"], first["code"]) == ("warning", "maybe_hang")
    assert "wait for rank 0" in first["text"] and "killed at work" not in first["text"]
    for path in pathlib.Path(where).glob("*.deaths"):
        path.unlink()
    first = jobs.report(where)["findings"][0]
    assert (first["severity"], first["code"]) == ("warning", "maybe_hang")
    # On a busy machine one rank's arrival may be late enough to tell that the others stood.
    doubt = {"untold": "killed at work", "long": "would not have come"}[diagnose(where)["standing"]["kind"]]
    assert ("wait for rank 0" in first["text"] or "waited for rank 0" in first["text"]) and doubt in first["text"]


def test_killed_at_work_is_no_deadlock(mpi, tmp_path):
    """At any moment somebody may be about to be reached by a message that is under way."""
    for attempt in range(4):
        where = tmp_path / str(attempt)
        with hanging(mpi, "busy", where):
            time.sleep(0.05 * attempt)
        result = diagnose(where)
        assert result["verdict"] not in ("deadlock", "desync"), result["text"]
        assert result["severity"] != "error", result["text"]


@pytest.mark.parametrize("mode", ["busy", "moves"])
def test_killed_at_work_is_no_hang(mpi, mode, tmp_path):
    """Where the end of the job is known there is no doubt."""
    for attempt in range(3):
        where = tmp_path / str(attempt)
        with hanging(mpi, mode, where, way="run"):
            time.sleep(0.1 + 0.07 * attempt)
        result = diagnose(where)
        assert result["verdict"] == "ok", result["text"]
        killed = [finding["text"] for finding in jobs.report(where)["findings"] if finding["code"] == "killed"]
        assert all(("What commtap diagnose says of it is ok" in text) == ("ended at work" in result["text"][0]) for text in killed)
