# SPDX-License-Identifier: Apache-2.0
"""Grids and pipelines of ranks on stand-in GPUs, drawn by seeds: one rank's GPU or host is late, or nobody. Prints whom
commtap names, and what mending is said to give beside what the same job takes without the late rank, by its own clock.

Truth is only as good as the machine is quiet: each job is played three times, and the quickest counts.

    python3 test/bench/grids.py BUILD [--runs 20] [--first 0] [--kinds gpu,host,clean] [--keep FOLDER]
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile

SHAPES = [(2, 2, 2), (1, 4, 1), (2, 4, 1), (4, 2, 1)]  # data x pipeline x tensor parallel
TRIES = 3


def draw(kind, seed):
    """What a job does, and what is late in it."""
    chance = random.Random(f"{kind} {seed}")
    data, stages, tensor = SHAPES[0] if chance.random() < 0.5 else chance.choice(SHAPES[1:])
    work, batches = chance.choice([4000, 6000, 8000]), chance.choice([2, 4, 8])
    job = {"data": data, "stages": stages, "tensor": tensor, "work-us": work, "batches": batches, "seed": seed,
           "noise": chance.choice([2, 5, 10]), "one-by-one": chance.randint(0, 1), "streams": chance.randint(1, 2),
           "steps": max(20, int(1.5e6 / (batches + stages - 1) / 2 / work))}
    low, high = (0.5, 2) if kind == "gpu" else (2, 4)
    late = {"late-rank": chance.randrange(data * stages * tensor), "late-us": int(work * chance.uniform(low, high)),
            "late-host": int(kind == "host")}
    return job, late if kind != "clean" else {}


def play(build, folder, job):
    """Seconds that the steps took by the ranks' own clocks; their dumps are left in `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "ids").mkdir(parents=True)
    ranks = job["data"] * job["stages"] * job["tensor"]
    options = [str(word) for name, value in job.items() for word in ("--" + name, value)]
    processes = [subprocess.Popen(
        [build / "test/programs/nccl/grid", str(rank), folder / "ids", *options], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "LD_LIBRARY_PATH": str(build / "standin"), "LD_PRELOAD": str(build / "libcommtap.so"),
             "COMMTAP_DIR": str(folder / "dumps"), "RANK": str(rank), "LOCAL_RANK": str(rank),
             "WORLD_SIZE": str(ranks), "STANDIN_DEVICES": str(ranks)}) for rank in range(ranks)]
    times = [process.communicate(timeout=300)[0].split() for process in processes]
    assert all(process.returncode == 0 for process in processes)
    return (max(int(end) for _, _, end, _ in times) - min(int(begin) for _, begin, _, _ in times)) / 1e9


def quickest(build, folder, job):
    """The quickest of several plays, whose dumps are kept."""
    best = None
    for _ in range(TRIES):
        took = play(build, folder.with_suffix(".new"), job)
        if best is None or took < best:
            best = took
            shutil.rmtree(folder, ignore_errors=True)
            folder.with_suffix(".new").rename(folder)
    shutil.rmtree(folder.with_suffix(".new"), ignore_errors=True)
    return best


def judge(build, folder):
    out = subprocess.run([build / "commtap", "report", "--format", "json", folder / "dumps"], check=True,
                         capture_output=True, text=True).stdout
    # a role is uneven by design: nobody is accused
    return [row for row in json.loads(out)["stragglers"] if row["kind"] != "role"]


def measure(build, folder, kind, seed):
    """Whether the right ranks are named, what-if / truth - 1, and a line to print."""
    job, late = draw(kind, seed)
    took = quickest(build, folder, {**job, **late})
    named = judge(build, folder)
    words = [f"{row['kind']} {row['rank']}" for row in named]
    if not late:
        return not named, None, f"{kind} {seed}: {words or 'nobody'}"
    gain = took / quickest(build, folder.with_name("mended"), job)
    right = words == ([f"rank {late['late-rank']}"] if gain >= 1.01 else [])  # what costs nothing is not named
    said = named[0]["what_if_speedup"] if right and named else 1
    return right, said / gain - 1, f"{kind} {seed}: rank {late['late-rank']}, {words}, {said:.2f} said, {gain:.2f} true"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=lambda text: pathlib.Path(text).absolute())
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kinds", default="gpu,host,clean")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for kind in options.kinds.split(","):
            right, near = 0, 0
            for seed in range(options.first, options.first + options.runs):
                folder = (options.keep or pathlib.Path(scratch)) / f"{kind}-{seed}"
                named, off, line = measure(options.build, folder, kind, seed)
                right, near = right + named, near + (off is not None and abs(off) <= 0.1)
                print(line, flush=True)
            told = f", what-if within 10 % in {near}" if kind != "clean" else ""
            print(f"{kind}: right in {right} of {options.runs}{told}", flush=True)


main()
