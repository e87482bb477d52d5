# SPDX-License-Identifier: Apache-2.0
#
# Traces that a few megabytes turn into gigabytes or hours: each is refused with the limit it exceeds, or imported,
# within the memory and the time that an import of 10 MB may take.
# Must not live here: files that are damaged (test_import.py).
import gzip
import io
import json
import os
import resource
import subprocess
import tarfile

import pytest
from flight_recorders import entry as complete, flight as recorder

import jobs

MEMORY, SECONDS = 1 << 30, 10
MEGABYTES = 9


def repeated(item, between=b",", megabytes=MEGABYTES):
    return between.join([item] * ((megabytes << 20) // (len(item) + 1)))


def numbered(template, megabytes=MEGABYTES):
    """As many of `template % n` as fit, joined by commas."""
    size = len(template % 1000) + 1
    return b",".join(template % n for n in range((megabytes << 20) // size))


def kineto(events, world=8):
    return (b'{"distributedInfo": {"rank": 0, "world_size": %d}, "deviceProperties": [{}], "traceEvents": [' % world +
            events + b"]}")


def kernel(n=b"%d", group=b"g", ranks=b"0-7"):
    return (b'{"cat":"kernel","name":"ncclK_AllReduce","ts":' + n + b',"dur":1,"args":{"correlation":' + n +
            b',"Process Group Name":"' + group + b'","Process Group Ranks":"' + ranks + b'"}}')


def flight(groups, entries):
    return b'{"pg_config": {' + groups + b'}, "entries": [' + entries + b"]}"


def entry(group=b"0"):
    return (b'{"profiling_name":"nccl:all_reduce","process_group":["' + group +
            b'",""],"time_created_ns":1000,"collective_seq_id":1,"is_p2p":false}')


def open_operations(count, completed):
    """A recorder of open operations alone: messages, each of a group of its own, of which `completed` tells what ended."""
    groups = range(count)
    return json.dumps({
        "version": "2.10",
        "pg_config": {"0": {"desc": "", "ranks": "[0, 1]"}},
        "pg_status": {str(group): {"last_enqueued_collective": 1, "last_started_collective": 1,
                                   "last_completed_collective": completed} for group in groups},
        "entries": [{"profiling_name": "nccl:send 0->1", "process_group": ["0", ""], "pg_id": group, "p2p_seq_id": group + 2,
                     "record_id": 2 * group, "collective_seq_id": 0, "is_p2p": True, "time_created_ns": 1000,
                     "state": "scheduled"} for group in groups]}, separators=(",", ":")).encode()


def pipeline(threads, items):
    return b"[" + b",".join([*threads, *items]) + b"]"


def thread(pid, tid, pp, tp):
    return (b'{"ph":"M","name":"thread_name","pid":%d,"tid":%d,"args":{"name":"PP rank %d, TP rank %d, dp-comm"}}' %
            (pid, tid, pp, tp))


def item(name, pid, tid):
    return (b'{"ph":"X","name":"%s","pid":%d,"tid":%d,"ts":1,"dur":1,"args":{"step":1,"seq_id":0}}' % (name, pid, tid))


def annotations_and_kernels():
    launches = numbered(b'{"cat":"cuda_runtime","name":"l","ts":5,"tid":1,"args":{"correlation":%d}}', MEGABYTES // 3)
    marks = repeated(b'{"cat":"user_annotation","name":"nccl:all_reduce","ts":1,"dur":1,"tid":1}',
                     megabytes=MEGABYTES // 3)
    kernels = numbered(kernel().replace(b'"ts":%d', b'"ts":9'), MEGABYTES // 3)
    return kineto(marks + b"," + launches + b"," + kernels)


def calls_before_kernels(name, arguments=b""):
    """Calls that launch nothing, and then as many launches in none of them, of kernels that say nothing but what they do."""
    calls = numbered(b'{"cat":"cpu_op","name":"record_param_comms","ts":%d,"dur":1,"tid":1,"args":{"Collective name":"' + name +
                     b'","Group size":8,"Process Group Name":"g"' + arguments + b'}}', MEGABYTES // 3)
    launches = numbered(b'{"cat":"cuda_runtime","name":"l","ts":900000,"tid":1,"args":{"correlation":%d}}', MEGABYTES // 3)
    kernels = numbered(b'{"cat":"kernel","name":"ncclK_SendRecv","ts":900009,"dur":1,"args":{"correlation":%d}}', MEGABYTES // 3)
    return kineto(calls + b"," + launches + b"," + kernels)


def tar_of_documents():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for rank in range(4000):
            text = kineto(kernel(b"1"), 65536).replace(b'"rank": 0', b'"rank": %d' % rank)
            member = tarfile.TarInfo(f"rank{rank}.json")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return out.getvalue()


def tar_with_a_hole():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        member = tarfile.TarInfo("zeros")
        member.size, member.type = 256 << 20, tarfile.CONTTYPE
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    return out.getvalue()


def grid(ranks):
    threads = [thread(n % 16, n // 16, n // 16, 0) for n in range(ranks)]
    return pipeline(threads, [item(b"optimizer-clip-main-grad", n % 16, n // 16) for n in range(ranks)])


# what it is called, in which file it comes -> its bytes, what the refusal says (None: it is imported)
BOMBS = {
    "blanks.json.gz": (lambda: gzip.compress(b"[" + b" " * (256 << 20)), "decompresses to more than"),
    "zeros.tar.gz": (tar_with_a_hole, "decompresses to more than"),
    "documents.tar.gz": (tar_of_documents, "ranks, the most for"),
    "empty-objects.json": (lambda: b'{"traceEvents": [[' + repeated(b"{}") + b"]]}", "more than 262144 others"),
    "empty-pieces.json": (lambda: b"[" + repeated(b"{}") + b"]", "nothing in it"),
    "keys.json": (lambda: b'{"pg_config": {' + numbered(b'"%d":0') + b"}}", "more than 262144 others"),
    "one-key.json": (lambda: b'{"a": {' + repeated(b'"a":0', megabytes=1) + b"}}", "nothing in it"),
    "nesting.json": (lambda: b"[" * (MEGABYTES << 20), "nested more than 512 deep"),
    "text.json": (lambda: b'{"a": "' + b"x" * (17 << 20) + b'"}', "larger than 16 MB"),
    "members.json": (lambda: kineto(numbered(kernel(group=b"%d", ranks=b"0-4095").replace(b':%d,', b":1,"))),
                     "more than"),
    "one-group.json": (lambda: kineto(numbered(kernel(ranks=b"0-4095").replace(b'"ts":%d', b'"ts":9')), 4096), None),
    "whole-worlds.json": (lambda: kineto(numbered(kernel(group=b"%d", ranks=b"").replace(b':%d,', b":1,")), 65536),
                          "more than"),
    "annotations.json": (annotations_and_kernels, None),
    "messages-to-nobody.json": (lambda: calls_before_kernels(b"send", b',"Dst Rank":0'), None),
    "other-calls.json": (lambda: calls_before_kernels(b"allreduce"), None),
    "trace_0.json": (lambda: flight(numbered(b'"%d":{"desc":"d%d","ranks":"0-16383"}'.replace(b"d%d", b"d"), 4),
                                    numbered(entry(b"%d"), 5)), "more than"),
    "groups_0.json": (lambda: flight(numbered(b'"%d":{"ranks":"0"}', 1), numbered(entry(b"%d"), 8)), None),
    "open_0.json": (lambda: open_operations(60000, 1), None),
    "left-over_0.json": (lambda: open_operations(60000, 1 << 30), None),
    "ranks.json": (lambda: grid(50000), "ranks, the most for"),
    "far-ranks.json": (lambda: pipeline([thread(4095, 1, 15, 0), thread(0, 2, 0, 0)],
                                        [item(b"optimizer-clip-main-grad", 4095, 1)] * 2 +
                                        [item(b"grads-reduce-scatter", 0, 2)] * 60000), None),
    "numbers.json": (lambda: json.dumps([{"ph": "X", "name": "optimizer", "ts": ts, "dur": dur, "pid": pid, "tid": 1,
                                          "args": {"step": 1, "seq_id": seq}}
                                         for ts in (-1, 1e300, "1", 1.5) for dur in (-1, 1e18, 1)
                                         for pid in (-1, 1e9, 2**60, 0.5) for seq in (-1, 2**62, 0.5)]).encode(),
                     "nothing in it"),
}


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # the figure is for a machine of its own: twice it where others run
    resource.setrlimit(resource.RLIMIT_CPU, (2 * SECONDS, 2 * SECONDS))


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb(name, tmp_path):
    make, refusal = BOMBS[name]
    file = tmp_path / name
    file.write_bytes(make())
    assert file.stat().st_size < 18 << 20
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([jobs.COMMTAP, "import", file, "-o", tmp_path / "out"], capture_output=True, text=True,
                          preexec_fn=limited)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert done.returncode == (3 if refusal else 0), (used, done.stderr)
    assert refusal is None or (refusal in done.stderr and name in done.stderr)
    assert "out of memory" not in done.stderr
    # what was made of it is no bomb either
    room = sum(os.stat(tmp_path / "out" / made).st_blocks * 512 for made in os.listdir(tmp_path / "out")) if not refusal else 0
    assert room < 1 << 30
    print(name, f"{used:.2f} s", f"{room >> 20} MB")


@pytest.mark.parametrize("bomb", ["blanks", "memory", "two of them"])
def test_a_bomb_does_not_lose_the_other_ranks(bomb, tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    blanks = gzip.compress(b"{" + b" " * (256 << 20))
    memory = b"\x80\x02]" + b"q\x00" + b"(" + b"]" * (1 << 20)  # lists, each of which takes hundreds of bytes
    for rank in range(2):
        (given / f"trace_rank_{rank}").write_text(json.dumps(recorder([complete(n) for n in range(1, 4)], "[0, 1, 2]")))
    (given / "trace_rank_2").write_bytes(memory if bomb == "memory" else blanks)
    if bomb == "two of them":
        (given / "a_trace_rank_2").write_bytes(blanks)
    done = subprocess.run([jobs.COMMTAP, "import", given, "-o", tmp_path / "out"], capture_output=True, text=True,
                          preexec_fn=limited)
    assert done.returncode == 0, done.stderr
    assert "2 of 3 ranks, 6 operations" in done.stdout and "trace_rank_2: at byte" in done.stderr
