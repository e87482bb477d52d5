# SPDX-License-Identifier: Apache-2.0
#
# Calls that look like earlier ones and are not (test/programs/call_cache.c): nothing remembered of one counts for another.
# Must not live here: the memory itself (test/unit/test_call_cache.c), counts of ordinary programs (test_counts.py).
import collections
import re

import pytest

import jobs

RANKS = 3


def expected(directory):
    """What the program says: calls by (op, communicator, epoch, bytes), messages by (op, peer, communicator)."""
    calls, messages = collections.Counter(), collections.defaultdict(lambda: [0, 0])
    for path in directory.glob("expect.*"):
        for line in path.read_text().splitlines():
            if line.startswith("digest"):
                continue
            key, size, count = line.rsplit(" ", 2)
            op, comm = key.split("@")
            if ">" in op:
                op, peer = op.split(">")
                message = messages[op, int(peer), comm]
                message[0] += int(count)
                message[1] += int(count) * int(size)
            else:
                comm, epoch = comm.rsplit("/", 1)
                calls[op, comm, int(epoch), int(size)] += int(count)
    return dict(calls), dict(messages)


def seen(where):
    calls, messages = collections.Counter(), collections.defaultdict(lambda: [0, 0])
    for row in jobs.records(where, "--table", "operations"):
        if row["op"] not in jobs.AUXILIARY:
            calls[row["op"], row["comm_name"] or "-", row["epoch"], row["bytes"]] += row["count"]
    for row in jobs.records(where, "--table", "peers"):
        message = messages[row["op"], row["peer"], row["comm_name"] or "-"]
        message[0] += row["count"]
        message[1] += row["bytes_total"]
    return dict(calls), dict(messages)


def differences(seen, expected):
    return {key: (seen.get(key), expected.get(key)) for key in seen.keys() | expected.keys()
            if seen.get(key) != expected.get(key)}


@pytest.mark.parametrize("stack", ["native", "off"])
def test_what_is_remembered_of_one_call_counts_for_no_other(mpi, stack, tmp_path):
    ledgers, where = tmp_path / "ledgers", tmp_path / "dumps"
    ledgers.mkdir()
    done = jobs.run(mpi, RANKS, [jobs.program(mpi, "call_cache")], where, knobs={"COMMTAP_STACK": stack},
                    environment={"EXPECT_DIR": str(ledgers)})
    back = [list(map(int, pair)) for pair in re.findall(r"types (\d+) communicators (\d+)", done.stdout)]
    assert len(back) == RANKS
    assert all(types > 5 and comms > 5 for types, comms in back)  # else nothing was tried
    calls, messages = expected(ledgers)
    counted, sent = seen(where)
    assert differences(counted, calls) == {}
    assert differences(sent, messages) == {}
    assert jobs.report(where)["job"]["ranks_seen"] == RANKS
    same_histories(where)
    records = jobs.records(where)
    messages_numbered_without_gaps(records)
    reductions_told_apart(records)
    assert jobs.document("diagnose", where)["verdict"] == "ok"


def test_datatypes_of_many_threads(mpi, tmp_path):
    """What one thread frees comes back at once as another one's, of another size."""
    ledgers, where = tmp_path / "ledgers", tmp_path / "dumps"
    ledgers.mkdir()
    jobs.run(mpi, 1, [jobs.program(mpi, "call_cache"), "6", "20000"], where, environment={"EXPECT_DIR": str(ledgers)})
    assert differences(seen(where)[0], expected(ledgers)[0]) == {}


def same_histories(where):
    """Every communicator's members took the same steps."""
    histories = collections.defaultdict(set)
    for row in jobs.records(where, "--table", "communicators"):
        if not row["freed"] and row["comm_size"] > 1:
            histories[row["comm"]].add((row["enqueued"], row["completed"], row["prefix_hash"]))
    assert len(histories) == 1 + 2 * 2  # the world; all, and the half that is not one rank alone, twice
    assert {uid: steps for uid, steps in histories.items() if len(steps) != 1} == {}


def messages_numbered_without_gaps(records):
    """Each channel has numbers of its own: 0, 1, 2 ..."""
    numbers = collections.defaultdict(set)
    for row in records:
        if row["send"] and row["seq"] is not None and not row["failed"]:
            numbers[row["rank"], row["comm"], row["peer"], row["tag"]].add(row["seq"])
    assert len({tag for *_, tag in numbers}) == 6
    assert {channel: seqs for channel, seqs in numbers.items() if seqs != set(range(len(seqs)))} == {}


def reductions_told_apart(records):
    """Each rank's 60 Allreduces take three operations in turns of three, whatever their counts."""
    operations = collections.Counter((row["rank"], row["redop"]) for row in records if row["op"] == "MPI_Allreduce")
    assert sorted(operations.values()) == RANKS * [18] + 2 * RANKS * [21]
