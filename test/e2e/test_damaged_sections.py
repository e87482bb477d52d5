# SPDX-License-Identifier: Apache-2.0
#
# Every section of a dump, overwritten, zeroed, dropped or cut off: either a problem is counted and said by every
# command, or all figures are what they were.
# Must not live here: damages by hand (test/corpus), sections of other versions (test_format_versions.py).
import itertools
import random
import shutil
import signal
import struct
import subprocess
import time

import pytest

import jobs

KINDS = {1: "calls", 2: "anchors", 3: "in flight", 4: "pending", 5: "progress", 6: "definitions", 7: "windows", 8: "lanes",
         9: "ring", 10: "operations", 11: "sites", 12: "peers", 13: "devices", 14: "device anchors", 15: "sensors",
         16: "transfers", 17: "ring pages", 18: "beats", 19: "captures", 20: "captured messages"}
ENTRIES, ENTRY, TABLE_END = 160, struct.Struct("<IIQQII"), 6728  # shim/format.h: the header of format 1.0 ends there
TABLE = TABLE_END - ENTRIES * ENTRY.size
WARNED = 4  # of the commands, those of which one in turn is asked whether it says what check counts
COMMANDS = [("report", "--format", "json"), ("summary", "--format", "json", "--by", "op,rank"),
            ("diagnose", "--format", "json"), ("export", "--table", "records"), ("summary", "--compat", "deepspeed"),
            ("stragglers", "--format", "json"), ("steps", "--format", "json"), ("calls", "--format", "json"),
            ("export", "--table", "peers"), ("export", "--table", "communicators")]


def sections(data):
    """(place in the table, kind, index, offset, bytes that are laid out) of each section."""
    for place in range(TABLE, TABLE_END, ENTRY.size):
        kind, index, offset, size, _, _ = ENTRY.unpack_from(data, place)
        if kind:
            yield place, kind, index, offset, size


def scribble(data, entry):
    _, kind, index, offset, size = entry
    data[offset:offset + size] = random.Random(kind * 100 + index).randbytes(size)


def scribble_front(data, entry):
    """What is in use lies in front."""
    _, kind, index, offset, _ = entry
    data[offset:offset + 256] = random.Random(kind * 100 + index + 7).randbytes(256)


def zero(data, entry):
    data[entry[3]:entry[3] + entry[4]] = bytes(entry[4])


def drop(data, entry):
    data[entry[0]:entry[0] + ENTRY.size] = bytes(ENTRY.size)


def cut(data, entry):
    del data[entry[3] + 100:]


DAMAGES = [scribble, scribble_front, zero, drop, cut]


def finished(where):
    jobs.run("openmpi", 2, [jobs.program("openmpi", "pointtopoint")], where)


def overwritten(where):
    jobs.run("openmpi", 3, [jobs.program("openmpi", "uneven"), "100", "1", "1", "2"], where, knobs={"COMMTAP_RING": "64"})


def killed(where):
    process = jobs.start(jobs.job_line("openmpi", 2, [jobs.program("openmpi", "hang"), "waitall"], where))
    try:
        assert process.stdout.read(2 * len("ready\n")).count("ready") == 2
    finally:
        jobs.stop(process)


def on_gpus(where):
    identity = f"{where}.id"
    variables = {"LD_LIBRARY_PATH": str(jobs.BUILD / "standin"), "TRAIN_ID_FILE": identity, "COMMTAP_GPU_TIMING": "kernel"}
    jobs.run("openmpi", 2, [jobs.BUILD / "test" / "programs" / "nccl" / "train", "--slow-rank", "1", "--slow-ms", "4"], where,
             environment=variables)


def in_graphs(where):
    """Rank 1 stops launching."""
    variables = {"LD_LIBRARY_PATH": str(jobs.BUILD / "standin"), "LD_PRELOAD": str(jobs.SHIM), "COMMTAP_DIR": str(where),
                 "STANDIN_DEVICES": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1234",
                 "TRAIN_ID_FILE": f"{where}.id"}
    ranks = [subprocess.Popen([str(jobs.PROGRAMS / "nccl" / "hang"), "replayed"], stdout=subprocess.PIPE,
                              env={**jobs.clean_environment(), **variables, "RANK": str(rank), "LOCAL_RANK": str(rank)})
             for rank in range(2)]
    for process in ranks:
        assert process.stdout.read(len(b"ready\n")) == b"ready\n"
    time.sleep(2)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in ranks:
            process.send_signal(number)
    for process in ranks:
        process.wait()


def outputs(directory, commands):
    said = []
    for command in commands:
        done = subprocess.run([str(jobs.COMMTAP), *command, str(directory)], capture_output=True, text=True, timeout=60,
                              env=jobs.clean_environment())
        assert done.returncode in (0, 3), (command, done.stderr)
        said.append((done.stdout, done.stderr))
    return said


def faults_of(asked, sound, damaged, problems):
    """What is said neither as a problem nor as it was."""
    for i, (now, warned) in zip(asked, damaged):
        command, (was, _) = COMMANDS[i], sound[i]
        if problems and ": offset " not in warned:
            yield f"{command[0]}: says nothing of the damage"
        if not problems and was != now:
            yield f"{command}: other figures in silence"


@pytest.mark.parametrize("job", [finished, overwritten, killed, on_gpus, in_graphs])
def test_damage_is_said_or_changes_nothing(job, tmp_path):
    job(tmp_path / "job")
    victim = jobs.dumps(tmp_path / "job")[-1]
    whole = victim.read_bytes()
    assert not jobs.document("check", tmp_path / "job", codes=(0, 1))["dumps"][-1]["problems"]
    sound, faults, seen, in_turn = outputs(tmp_path / "job", COMMANDS), [], 0, itertools.cycle(range(WARNED))
    for entry in sections(whole):
        for damage in DAMAGES:
            if KINDS[entry[1]] == "beats" and damage in (zero, drop):
                continue  # as of a process that was killed before it began to look after the others
            data = bytearray(whole)
            damage(data, entry)
            victim.write_bytes(data)
            row = next(row for row in jobs.document("check", tmp_path / "job", codes=(0, 1))["dumps"]
                       if row["file"] == victim.name)
            seen += row["problems"] > 0
            name = f"{KINDS[entry[1]]} {entry[2]}, {damage.__name__}"
            asked = [next(in_turn)] if row["problems"] else range(len(COMMANDS))
            damaged = outputs(tmp_path / "job", [COMMANDS[i] for i in asked])
            faults += [f"{name}: {fault}" for fault in faults_of(asked, sound, damaged, row["problems"])]
    assert not faults, "\n".join(faults)
    assert seen > 20


def test_a_dump_without_its_clock_is_still_of_the_job(tmp_path):
    """Nothing tells the date of what it did: neither that it was another generation, nor another program."""
    finished(tmp_path / "job")
    ranks = len(jobs.dumps(tmp_path / "job"))
    victim = jobs.dumps(tmp_path / "job")[-1]
    data = bytearray(victim.read_bytes())
    for entry in list(sections(data)):
        if KINDS[entry[1]] == "anchors":
            zero(data, entry)
    victim.write_bytes(data)
    report = jobs.report(tmp_path / "job")
    codes = {finding["code"] for finding in report["findings"]}
    assert "damaged_files" in codes
    assert not codes & {"missing_ranks", "several_generations", "generation_before", "several_worlds"}
    assert len(report["ranks"]) == ranks
