# SPDX-License-Identifier: Apache-2.0
"""Real MPI jobs whose truth comes from their own clocks, and what commtap report says of them.

Prints a markdown document: per class of fault how often exactly the guilty rank was named, with 95 % bounds, ranks with
a core each and oversubscribed ones apart. Dumps of wrong verdicts stay in OUT/wrong, each with the command that shows
it again.
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import truth
import verdict
from table import document

MESSAGE_KINDS = ["halo", "pairs", "pipeline"]
MASTER_KINDS = ["rounds", "on-demand"]
KINDS = ["train", "gradients", "transpose", "mix", *MESSAGE_KINDS, *MASTER_KINDS]
FAULTS = ["slow13", "slow2", "slow5", "rare", "half", "checkpoint", "two", "receiver"]
PAIRS_OF_RUNS = 3
JOB_SECONDS = 300  # a hundred times what a job takes
DISTURBED = 0.05  # of a healthy rank's time, or of the processors' time that something else had
WORTH = 0.01


class Noisy(SystemExit):
    """The machine has other things to do."""


# ---- the plan ----------------------------------------------------------------------------------------------

def possible(kind, fault, ranks):
    """job's own rules, and that slow ranks are not most of those that can be compared."""
    workers = ranks - 1 if kind in MASTER_KINDS else ranks
    if fault in ("none", "checkpoint"):
        return True
    if fault == "receiver" and kind not in MESSAGE_KINDS:
        return False
    return workers >= (4 if fault == "two" else 2)


def crowds(cores):
    """Name -> ranks: a core each, and more ranks than cores."""
    return {**({"one per core": cores} if cores > 1 else {}), "oversubscribed": max(4, 2 * cores)}


def plan(options, mpis, cores):
    """Every class in the same shares of MPI, kind and crowd, in an order in which the classes are mixed."""
    lots, jobs = random.Random(options.seed), []
    for fault, count in [("none", options.null), *((fault, options.each) for fault in FAULTS)]:
        ways = {crowd: [way for way in itertools.product(KINDS, mpis) if possible(way[0], fault, ranks)]
                for crowd, ranks in crowds(cores).items()}
        ways = {crowd: lots.sample(list_, len(list_)) for crowd, list_ in ways.items() if list_}
        for i in range(count if ways else 0):
            crowd = list(ways)[i % len(ways)]
            kind, mpi = ways[crowd][i // len(ways) % len(ways[crowd])]
            jobs.append({"fault": fault, "kind": kind, "mpi": mpi, "crowd": crowd, "ranks": crowds(cores)[crowd],
                         "seed": lots.getrandbits(31)})
    lots.shuffle(jobs)
    jobs = [{"number": number, **job} for number, job in enumerate(jobs)]
    return [job for job in jobs if not options.only or job["fault"] in options.only]


# ---- one job -----------------------------------------------------------------------------------------------

def launcher(job):
    """The MPI's own command, as a user on one host types it."""
    alone = job["crowd"] == "one per core"
    if job["mpi"] == "openmpi":
        how = ["--bind-to", "core"] if alone else ["--oversubscribe", "--bind-to", "none", "--mca",
                                                   "mpi_yield_when_idle", "1"]
    else:
        how = ["-bind-to", "core"] if alone else []
    return [f"mpirun.{job['mpi']}", *how, "-n", str(job["ranks"])]


class Bench:
    """Where the jobs run: the build, the folder of the results, the speed of the machine."""

    def __init__(self, build, out, speed):
        self.build, self.out, self.speed = pathlib.Path(build).resolve(), pathlib.Path(out).resolve(), speed
        self.commtap = self.build / "commtap"

    def command(self, job, mended=False):
        program = self.build / "test/campaign" / job["mpi"] / "job"
        arguments = [job["kind"], str(job["seed"]), job["fault"], *(["mended"] if mended else [])]
        return [*launcher(job), str(program), *arguments]

    def settings(self, clocks):
        return {"CAMPAIGN_SPEED": self.speed, "CAMPAIGN_CLOCKS": str(clocks), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def run(self, command, clocks):
        """The clocks of that run; None where it failed or did not end."""
        shutil.rmtree(clocks, ignore_errors=True)
        clocks.mkdir(parents=True)
        with subprocess.Popen(command, env={**os.environ, **self.settings(clocks)}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                ended = process.wait(JOB_SECONDS)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    return None
                raise
        found = truth.Clocks(clocks) if ended == 0 and any(clocks.iterdir()) else None
        return found if found and found.complete else None

    def record(self, job):
        """The job under commtap, and what its report says beside the truth."""
        scratch = self.out / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        recording = [str(self.commtap), "run", "-o", str(scratch / "dumps"), "--", *self.command(job)]
        busy, start = busy_seconds(), time.monotonic()
        clocks = self.run(recording, scratch / "clocks")
        others = busy_seconds() - busy
        entry = {**job, "seconds": round(time.monotonic() - start, 2), "others": max(0.0, round(others, 2))}
        report = subprocess.run([self.commtap, "report", "--format", "json", scratch / "dumps"], capture_output=True,
                                text=True, check=False)
        if clocks is None or report.returncode != 0:
            entry.update(outcome="failed", standing="failed")
        else:
            self.compare(entry, clocks, json.loads(report.stdout), others / (entry["seconds"] * cores()))
            (scratch / "report.json").write_text(report.stdout)
        if entry["outcome"] != verdict.EXACT:
            self.keep(entry, scratch)
        return entry

    @staticmethod
    def compare(entry, clocks, report, others):
        cost, disturbed = clocks.cost(), max(clocks.disturbed(), others)
        standing = "disturbed" if disturbed > DISTURBED else "counted"
        if clocks.victims and cost < WORTH:
            standing = "too cheap"
        seconds = report["job"]["wall_seconds"]
        promised = verdict.without_frame(verdict.promised(report, clocks.victims), seconds,
                                         max(0.0, seconds - clocks.loop_seconds))
        first, slowed, crowded = clocks.totals[0], clocks.slowed(WORTH), entry["crowd"] == "oversubscribed"
        guilty = clocks.guilty(WORTH)
        entry.update(guilty=guilty, victims=clocks.victims, slowed=slowed, noise=first["noise"], trait=first["trait"],
                     cost=round(cost, 4), disturbed=round(disturbed, 4), drawn=round(clocks.drawn(), 4), standing=standing,
                     accused=sorted(verdict.accused(report, crowded), key=str),
                     outcome=verdict.judge(report, guilty, clocks.victims + slowed, crowded),
                     gains=clocks.gains() if clocks.victims else [], promised=promised)

    def keep(self, entry, scratch):
        name = f"{entry['number']:04d}-{entry['fault']}-{entry['kind']}-{entry['mpi']}-{entry['ranks']}"
        folder = self.out / "wrong" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
        shutil.move(scratch, folder)
        setting = " ".join(f"{key}={value}" for key, value in self.settings("DIR").items() if value != "DIR")
        (folder / "again.txt").write_text(
            f"{json.dumps(entry)}\n\nthe verdict:\n{self.commtap} report {folder}/dumps\n\n"
            f"the job:\n{setting} {self.commtap} run -o DIR -- {' '.join(self.command(entry))}\n")

    def mend(self, job):
        """How many times as fast the job runs without its fault: medians of pairs of runs, commtap nowhere near."""
        ratios, folder = [], self.out / "pair"
        for pair in range(PAIRS_OF_RUNS):
            walls = {}
            for mended in (False, True) if pair % 2 == 0 else (True, False):
                clocks = self.run(self.command(job, mended), folder)
                if clocks is None:
                    return None
                walls[mended] = clocks.wall_seconds
            ratios.append(walls[False] / walls[True])
        return sorted(round(ratio, 4) for ratio in ratios)


# ---- the machine -------------------------------------------------------------------------------------------

def busy_seconds():
    """CPU seconds that all but this campaign's own processes have taken so far, stolen ones included."""
    fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    taken = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    own = os.times()
    return taken - sum(own[:4])


def cores():
    return len(os.sched_getaffinity(0))


def refuse_noise(limit, load):
    if load > limit:
        raise Noisy(f"load average {load:.1f}, above {limit}: a noisy machine says nothing (--any-load runs anyway)")


# ---- all of them -------------------------------------------------------------------------------------------

def samples_so_far(records, fault):
    return sum(1 for record in records if record["fault"] == fault and record.get("mended"))


def wants_mending(options, records, entry):
    return (entry["standing"] == "counted" and entry["victims"] and entry["promised"] is not None
            and samples_so_far(records, entry["fault"]) < options.what_if)


def progress(entry):
    return (f"{entry['number']:4d} {entry['fault']:10} {entry['kind']:10} {entry['mpi']:8} {entry['ranks']} ranks  "
            f"{entry['outcome']:10} {entry['standing']:10} truth {entry.get('victims')} said {entry.get('accused')}")


def play(options, bench, jobs, records, cores):
    """Adds a record per job; what is on the disk is always all that there is."""
    crowded = max(crowds(cores).values())
    with (bench.out / "records.jsonl").open("a") as file:
        for job in jobs:
            if job["number"] < options.first:
                continue
            if not options.any_load:
                # from the second job on, the load average holds the campaign's own ranks as well
                refuse_noise(cores + 1 if not records else max(cores, crowded) + 1, os.getloadavg()[0])
            entry = bench.record(job)
            if wants_mending(options, records, entry):
                entry["mended"] = bench.mend(job)
            records.append(entry)
            file.write(json.dumps(entry) + "\n")
            file.flush()
            print(progress(entry), file=sys.stderr, flush=True)


def prepare(options, mpis):
    """The bench and the records of the jobs before --from; starts anew without it."""
    out, settings = pathlib.Path(options.out), {"null": options.null, "each": options.each, "seed": options.seed}
    note = out / "campaign.json"
    if options.first:
        before = json.loads(note.read_text())
        if {key: before[key] for key in settings} != settings:
            sys.exit(f"{note}: another campaign, {before}: --from goes on with the same --null, --each and --seed")
        kept = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
        records = [record for record in kept if record["number"] < options.first]
        (out / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        return Bench(options.build, out, before["speed"]), records
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    program = pathlib.Path(options.build) / "test/campaign" / mpis[0] / "job"
    speed = subprocess.run([program, "calibrate"], capture_output=True, text=True, check=True).stdout.strip()
    note.write_text(json.dumps({**settings, "speed": speed}) + "\n")
    return Bench(options.build, out, speed), []


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--null", type=int, default=300, help="jobs in which nobody is to blame")
    parser.add_argument("--each", type=int, default=60, help="jobs per class of fault")
    parser.add_argument("--what-if", type=int, default=20, help="jobs per class that are run again without the fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=["none", *FAULTS], help="this class; may be repeated")
    parser.add_argument("--from", dest="first", type=int, default=0, help="go on with this job of the same campaign")
    parser.add_argument("--any-load", action="store_true", help="whatever else the machine does")
    parser.add_argument("--out",
                        help="folder of the records, and of what was wrong; default BUILD/test/campaign/results")
    options = parser.parse_args()
    options.out = options.out or f"{options.build}/test/campaign/results"
    return options


def main():
    options, start = parse(), time.monotonic()
    mpis = [mpi for mpi in ("openmpi", "mpich") if shutil.which(f"mpirun.{mpi}")
            and (pathlib.Path(options.build) / "test/campaign" / mpi / "job").exists()]
    if not mpis:
        sys.exit("neither Open MPI nor MPICH is here")
    if not options.any_load and not options.first:
        refuse_noise(cores() + 1, os.getloadavg()[0])
    bench, records = prepare(options, mpis)
    jobs, reason = plan(options, mpis, cores()), None
    try:
        play(options, bench, jobs, records, cores())
    except (Noisy, KeyboardInterrupt) as stopped:
        reason = str(stopped) or "interrupted"
    print(document(records, crowds(cores()), bench.out, time.monotonic() - start, cores()))
    if reason:
        played = {record["number"] for record in records}
        left = [job["number"] for job in jobs if job["number"] >= options.first and job["number"] not in played]
        sys.exit(f"{reason}; go on with --from {left[0] if left else len(jobs)}")


if __name__ == "__main__":
    main()
