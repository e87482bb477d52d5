# SPDX-License-Identifier: Apache-2.0
"""make bench: runs the measurements and prints one markdown document.

Lives here: repetition (rounds in which the variants take turns), medians, tables.
Must not live here: what is measured (the C programs beside this file), limits that fail a build.
"""
import argparse
import glob
import os
import platform
import pty
import select
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from rounds import figures_of, side_by_side

BARE, FLOOR, CONTROL = "bare", "floor: 2 x time stamp counter", "the floor again"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_rmaps_base_oversubscribe": "1"}
MPI_NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}
MPI_LIBRARIES = {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}
BEAT_PROCESSES, FOUND_SECONDS, BEAT_SECONDS = [2, 8, 32, 128], 7, 60  # all are found at the first, second or fourth beat
SPAWN_ROUNDS = 300
REPORT_RANKS = 60
THREAD_ROUNDS = 5
MANY_RANKS = [(16384, 64), (100000, 4)]
DATABASE_RANKS, DATABASE_RECORDS = 160, 65536  # 10 million records
LIVE_RANKS, LIVE_RECORDS, LOOK_SECONDS, LOOK_INTERVAL = 64, 16384, 8, 2
# struct dump_header (shim/format.h)
BOOT_ID_AT, PID_AT, START_AT, SECTIONS_AT, HEADER_BYTES, SECTION_LANES = 192, 240, 256, 1608, 6728, 8
REPORT_RECORDS = [65536, 131072, 262144]  # per rank: about 0.25, 0.5 and 1 GB of dumps


def run(command, environment=None, cwd=None):
    """Standard output of a command as text; None when it fails."""
    result = subprocess.run(command, env={**os.environ, **(environment or {})}, cwd=cwd, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        print(f"bench: {command[0]}: status {result.returncode}: {result.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return result.stdout


def figures(line):
    """'name number name number ...' -> {name: number}"""
    words = line.split()
    return {name: float(value) for name, value in zip(words[0::2], words[1::2])}


def last_figures(output, key):
    for line in (output or "").splitlines():
        if line.startswith(key + " "):
            return figures(line)
    return None


def median(values):
    return statistics.median(values) if values else None


def show(value, digits=1, sign=False):
    return "-" if value is None else f"{value:{'+' if sign else ''}.{digits}f}"


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def progress(text):
    if sys.stderr.isatty():
        print(f"bench: {text}", file=sys.stderr)


class Bench:
    def __init__(self, options):
        self.options = options
        self.programs = os.path.join(options.build, "test", "bench")
        self.library = os.path.join(options.build, "libcommtap.so")
        self.scratch = tempfile.mkdtemp(prefix="commtap-bench.", dir=options.build)

    def program(self, name):
        return os.path.join(self.programs, name)

    def empty_directory(self, name, base=None):
        path = os.path.join(base or self.scratch, name)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        return path

    # ---- the cost of one call ------------------------------------------------------------------------------------

    def peers(self, mpi):
        """[(name, environment)] of the tools whose sources were given."""
        found = []
        if self.options.ipm:
            found.append(("IPM", {"LD_PRELOAD": self.program(f"ipm.{mpi}.so"), "IPM_REPORT": "none", "IPM_LOG": "none"}))
        if self.options.mpip:
            for name, arguments in (("mpiP -k 0", "-k 0"), ("mpiP", "")):
                found.append((name, {"LD_PRELOAD": self.program(f"mpip.{mpi}.so"), "MPIP": arguments}))
        return found

    def variants(self, mpi):
        floor = {"LD_PRELOAD": self.program(f"floor.{mpi}.so")}
        commtap = {"LD_PRELOAD": self.library, "COMMTAP_DIR": os.path.join(self.scratch, "percall")}
        return [(BARE, {}), (FLOOR, floor), (CONTROL, floor), ("commtap", commtap),
                ("commtap, stacks off", {**commtap, "COMMTAP_STACK": "off"})] + self.peers(mpi)

    def measure_calls(self, mpi, environment):
        """Figures of one process and, as far as it goes, of two; without the tool in the launcher. None: it failed."""
        directory = self.empty_directory("percall")
        found = last_figures(run([self.program(f"percall.{mpi}")], environment, directory), "allreduce")
        words = [f"{name}={value}" for name, value in environment.items()]
        output = run([f"mpirun.{mpi}", "-n", "2", "env", *words, self.program(f"messages.{mpi}")], AS_ROOT, directory)
        rate = last_figures(output, "message")
        return {**found, "message": rate["message"]} if found and rate else None

    def percall_rounds(self, mpi):
        """[{variant: figures}]; each round begins with another variant."""
        variants, rounds = self.variants(mpi), []
        for number in range(self.options.rounds):
            progress(f"{MPI_NAMES[mpi]}: round {number + 1} of {self.options.rounds}")
            first = number % len(variants)
            measured = [(name, self.measure_calls(mpi, environment))
                        for name, environment in variants[first:] + variants[:first]]
            rounds.append({name: found for name, found in measured if found})
        return rounds

    def percall(self):
        print("## Calls of MPI\n")
        print("Nanoseconds; bare and floor as they are, all others beyond the floor of the same round and as a multiple of it: "
              "median (first to third quartile). Allreduce and exchange (Irecv + Isend + Waitall) on MPI_COMM_SELF; a "
              "message: 8 bytes in a window of 64 between two processes, as osu_mbw_mr has it. What the floor is beyond "
              "itself is what the machine adds.\n")
        for mpi in self.options.mpis:
            rounds = self.percall_rounds(mpi)
            names = [name for name, _ in self.variants(mpi)]
            rows = side_by_side(rounds, names, BARE, FLOOR, ("allreduce", "exchange", "message"))
            init = [median(figures_of(rounds, name, "init")) for name in names]
            table([MPI_NAMES[mpi], "Allreduce of 8 bytes", "Irecv + Isend + Waitall", "a message", "MPI_Init ms"],
                  [row + [show(ns and ns / 1e6)] for row, ns in zip(rows, init)])
        print("Goal: beyond the floor at most 30 ns for the Allreduce and 100 ns for the three calls of the exchange, "
              "without stacks 15 and 55 ns; 40 ns a message with stacks.\n")
        self.launches()

    def launch_rounds(self):
        """Variants in turns: the region of the profiler is the knob's in all of commtap's."""
        commtap = {"LD_PRELOAD": self.library, "COMMTAP_DIR": os.path.join(self.scratch, "launches"),
                   "COMMTAP_REGION": "profiler"}
        variants = {"bare": {}, "floor": {"LD_PRELOAD": self.program("ncclfloor.so")},
                    "host": {**commtap, "COMMTAP_GPU_TIMING": "host"},
                    "events": {**commtap, "COMMTAP_GPU_TIMING": "events"}}
        results = {name: [] for name in variants}
        for _ in range(self.options.rounds):
            for name, environment in variants.items():
                self.empty_directory("launches")
                measured = last_figures(run([self.program("launches")], {
                    **environment, "LD_LIBRARY_PATH": os.path.join(self.options.build, "standin")}), "group")
                if measured:
                    results[name].append(measured)
        return results

    def launches(self):
        """No other tool is known for these: what timing by events needs of the driver stands in for a peer."""
        print("## Groups, regions and graphs, on one rank of the stand-in\n")
        results = self.launch_rounds()
        if not results["bare"]:
            return
        bare = {key: median([figure[key] for figure in results["bare"]]) for key in results["bare"][0]}
        needs = {"group": bare["records"] + bare["capturing"], "graph": bare["records"] / 2 + bare["capturing"],
                 "outside": 0, "inside": bare["records"] + bare["capturing"]}
        rows = []
        for key, what in (("group", "a group of a send and a receive"), ("graph", "launch of a captured graph"),
                          ("outside", "ncclAllReduce outside the region"), ("inside", "ncclAllReduce inside it")):
            added = [median([figure[key] - before[key] for figure, before in zip(results[name], results["bare"])])
                     for name in ("floor", "host", "events")]
            rows.append([what, show(bare[key], 0)] + [show(value, 0, sign=True) for value in added] +
                        [show(needs[key], 0)])
        table(["call", "bare ns", "floor: 2 x time stamp counter", "commtap, no GPU times", "commtap, events",
               "event records and question for a capture, bare"], rows)
        print(f"The question whether a stream is being captured alone: {show(bare['capturing'], 0)} ns.\n")

    # ---- communicators -------------------------------------------------------------------------------------------

    def churn(self):
        print("## A communicator's life: a copy of MPI_COMM_SELF, an Allreduce of 8 bytes, its end\n")
        rows = []
        for mpi in self.options.mpis:
            bare, tapped = [], []
            for _ in range(self.options.rounds):
                for values, environment in ((bare, {}), (tapped, {"LD_PRELOAD": self.library})):
                    directory = self.empty_directory("churn")
                    environment = {**environment, "COMMTAP_DIR": directory} if environment else {}
                    measured = last_figures(run([self.program(f"churn.{mpi}")], environment, directory), "life")
                    values += [measured["life"]] if measured else []
            added = median([after - before for before, after in zip(bare, tapped)])
            on_disk = sum(entry.stat().st_blocks * 512 for entry in os.scandir(directory))
            rows.append([MPI_NAMES[mpi], show(median(bare), 0), show(median(tapped), 0), show(added, 0, sign=True),
                         show(on_disk / 1e3, 0)])
        table(["MPI", "bare ns", "commtap ns", "added ns", "dump after 20,400 of them, kB"], rows)
        print("Goal: at most 3000 ns added, and no bytes beyond the ring and its windows.\n")

    # ---- the recorder ----------------------------------------------------------------------------------------------

    def recorder(self):
        print("## Recording\n")
        rows = []
        for label, records in (("16384 records (default)", "16384"), ("1M records", "1M")):
            activation, first, one, two = [], [], [], []
            for _ in range(5):
                directory = self.empty_directory("ring")
                output = run([self.program("ring"), "speed"], {"COMMTAP_DIR": directory, "COMMTAP_RING": records})
                start, speed = last_figures(output, "activation"), last_figures(output, "write1")
                if start and speed:
                    activation.append(start["activation"] / 1e3)
                    first.append(start["first"] / 1e3)
                    one.append(speed["write1"])
                    two.append(speed["write2"])
            rows.append([label, show(median(one), 2), show(median(two), 2), show(median(activation), 2),
                         show(median(first), 2)])
        table(["ring", "ns a record, 1 thread", "2 threads", "activation ms", "a thread's lane ms"], rows)
        print("Goal: at most 10 ns a record, activation (with the first thread's lane) at most 10 ms.\n")

    # ---- GPU events ------------------------------------------------------------------------------------------------

    def gpu(self):
        """On the stand-in's libcuda, or on the real one where the stand-in is not built."""
        print("## Timing a launch on a GPU by events\n")
        standin = os.path.join(self.options.build, "standin")
        environment = {"COMMTAP_DIR": self.empty_directory("gpu")}
        if os.path.exists(os.path.join(standin, "libcuda.so.1")):
            environment["LD_LIBRARY_PATH"] = standin
        measured = [last_figures(run([self.program("gpu")], environment), "bare") for _ in range(5)]
        measured = [m for m in measured if m]
        row = [show(median([m[name] for m in measured]), 0) for name in ("bare", "span", "added")]
        table(["two bare event records ns", "begin and end of a span ns", "added ns"], [row])
        print("Goal: at most 1000 ns added.\n")

    # ---- NCCL's profiler plugin --------------------------------------------------------------------------------

    def plugin(self):
        print("## NCCL's profiler plugin: the events of one collective\n")
        environment = {"COMMTAP_DIR": self.empty_directory("plugin"),
                       "LD_LIBRARY_PATH": os.path.join(self.options.build, "standin")}
        measured = [last_figures(run([self.program("plugin")], environment), "calls") for _ in range(5)]
        measured = [m for m in measured if m]
        row = [show(median([m[name] for m in measured]), 0) for name in ("calls", "launch", "channel")]
        table(["calls counted only ns", "kernel times: in the calling thread ns", "per channel, in the proxy's thread ns"],
              [row])
        print("With an empty mask NCCL calls nothing. Goal: at most 50 ns a call where calls are only counted.\n")

    # ---- calls of NCCL ---------------------------------------------------------------------------------------------

    def nccl(self):
        """On the stand-in: ranks need no GPU, and the library itself does nothing in these calls."""
        print("## One call of NCCL: ncclAllReduce in place on one rank of the stand-in\n")
        commtap = {"LD_PRELOAD": self.library, "COMMTAP_DIR": os.path.join(self.scratch, "nccl")}
        variants = [("bare", {}), ("floor: 2 x time stamp counter", {"LD_PRELOAD": self.program("ncclfloor.so")}),
                    ("commtap, stacks off, no GPU times",
                     {**commtap, "COMMTAP_STACK": "off", "COMMTAP_GPU_TIMING": "host"}),
                    ("commtap, no GPU times", {**commtap, "COMMTAP_GPU_TIMING": "host"}),
                    ("commtap, events", {**commtap, "COMMTAP_GPU_TIMING": "events"})]
        results = {name: [] for name, _ in variants}
        for _ in range(self.options.rounds):
            for name, environment in variants:
                self.empty_directory("nccl")
                measured = last_figures(run([self.program("ncclcall")], {
                    **environment, "LD_LIBRARY_PATH": os.path.join(self.options.build, "standin")}), "call")
                if measured:
                    results[name].append(measured)
        rows = []
        for name, measured in results.items():
            added = [figure["call"] - bare["call"] for figure, bare in zip(measured, results["bare"])]
            over = [a - bare["records"] for a, bare in zip(added, results["bare"])]
            rows.append([name, show(median([figure["call"] for figure in measured]), 0),
                         "" if name == "bare" else show(median(added), 0, sign=True),
                         show(median([figure["records"] for figure in measured]), 0),
                         show(median(over), 0, sign=True) if name == "commtap, events" else ""])
        table(["variant", "call ns", "added ns", "two event records of the program's own ns", "added beyond these ns"], rows)
        print("Goal: without GPU times at most floor + 50 ns; with events at most 1000 ns beyond two event records.\n")

    # ---- stacks ----------------------------------------------------------------------------------------------------

    def stacks(self):
        print("## The id of a native stack\n")
        rows = []
        for depth in (5, 15, 40):
            measured = []
            for _ in range(5):
                directory = self.empty_directory("stack")
                values = last_figures(run([self.program("stack"), str(depth)], {"COMMTAP_DIR": directory}), "hot")
                measured += [values] if values else []
            rows.append([str(depth)] + [show(median([m[key] for m in measured]), digits)
                                        for key, digits in (("hot", 1), ("alternating", 1), ("cold", 0), ("uncached", 0),
                                                            ("first", 0),
                                                            ("backtrace", 0))])
        table(["frames", "ns, same caller again", "eight callers in turn", "a core's caches swept (8 MiB)",
               "all swept (64 MiB)", "first time ever",
               "glibc's backtrace()"], rows)
        print("Goal: at depth 15 at most 30 ns hot and 600 ns with a core's caches swept. mpiP 3.5 with call sites adds 1533 ns to a call at one "
              "frame, 4104 ns at eight.\n")

    # ---- symbols ---------------------------------------------------------------------------------------------------

    def symbols(self):
        print("## Naming 3000 addresses of a library with 20,000 functions\n")
        command = [self.program("symbols"), os.path.abspath(self.program("large.so"))]
        measured = [m for m in (last_figures(run(command), "seconds") for _ in range(5)) if m]
        table(["functions", "named", "with a line", "seconds"],
              [[show(median([m[key] for m in measured]), digits)
                for key, digits in (("functions", 0), ("named", 0), ("lines", 0), ("seconds", 3))]])
        print("Goal: at most 0.2 s.\n")

    # ---- start-up --------------------------------------------------------------------------------------------------

    def startup(self):
        print("## A process that never communicates: /bin/true\n")
        rows = []
        for label, library in (("empty library", self.program("empty.so")), ("commtap", self.library)):
            measured = [last_figures(run([self.program("spawn"), library, str(SPAWN_ROUNDS)]), "bare") for _ in range(3)]
            measured = [m for m in measured if m]
            rows.append([label] + [show(median([m[key] for m in measured])) for key in ("bare", "preloaded")] +
                        [show(median([m["added"] for m in measured]), sign=True)])
        table(["preloaded", "bare us", "with it us", "added us"], rows)
        print("Goal: at most 30 us. What an empty library costs is the loader's price for any preload.\n")

    # ---- tail ------------------------------------------------------------------------------------------------------

    def tail(self):
        print("## Single record writes while other threads fsync\n")
        rows = []
        for label, base in (("build directory", None), ("/dev/shm", "/dev/shm")):
            directory = self.empty_directory(f"commtap-bench-tail.{os.getpid()}", base)
            output = run([self.program("ring"), "tail"], {"COMMTAP_DIR": directory})
            kind = ((run(["findmnt", "-n", "-o", "FSTYPE", "-T", directory]) or "").split() or ["?"])[0]
            shutil.rmtree(directory)
            for line in (output or "").splitlines()[1:]:
                values = figures(line.split(" ", 1)[1])
                rows.append([f"{label} ({kind})", line.split()[0]] +
                            [show(values[key], 0) for key in ("p50", "p99", "p999")] + [show(values["max"] / 1e3, 0)])
        table(["dumps in", "load", "p50 ns", "p99 ns", "p99.9 ns", "max us"], rows)

    # ---- the analyzer ----------------------------------------------------------------------------------------------

    def measure_command(self, *words):
        """(seconds, processor seconds, peak MiB of its own memory, the same with mapped dumps) of a command."""
        start = time.monotonic()
        process = subprocess.Popen([os.path.join(self.options.build, "commtap"), *words], stdout=subprocess.DEVNULL)
        own = 0
        while True:
            try:
                with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                    own = max([own] + [int(line.split()[1]) for line in status if line.startswith("RssAnon:")])
            except OSError:
                pass
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(0.005)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):
            print(f"bench: commtap {words[0]}: status {process.returncode}", file=sys.stderr)
            return None
        return seconds, usage.ru_utime + usage.ru_stime, own / 1024, usage.ru_maxrss / 1024

    def report(self):
        print("## commtap report\n")
        rows = []
        for records in REPORT_RECORDS:
            directory = self.empty_directory("dumps")
            run([self.program("dumps"), directory, str(REPORT_RANKS), str(records)])
            size = sum(entry.stat().st_size for entry in os.scandir(directory))
            measured = [self.measure_command("report", directory) for _ in range(4)][1:]  # the first one warms the page cache
            measured = [m for m in measured if m]
            rows.append([f"{size / 1e9:.2f}", f"{REPORT_RANKS * records / 1e6:.1f}",
                         *(show(median([m[i] for m in measured]), 2) for i in (0, 1)),
                         *(show(median([m[i] for m in measured]), 0) for i in (2, 3))])
            shutil.rmtree(directory)
        table(["GB of dumps", "million records", "seconds, warm", "processor seconds", "own memory, peak MiB", "with mapped dumps, MiB"], rows)
        print("Goal: at most 2 s for 1 GB on 2 cores; memory does not grow with the number of events. Own memory does "
              "not count the dumps' mapped pages, which the kernel may drop at any time.\n")
        self.two_threads()
        self.many_ranks()

    def side_by_side(self, *words):
        """Seconds until two processes that know nothing of each other are both done."""
        start = time.monotonic()
        both = [subprocess.Popen([os.path.join(self.options.build, "commtap"), *words], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL) for _ in range(2)]
        return time.monotonic() - start if all(process.wait() in (0, 1) for process in both) else None

    def two_threads(self):
        """The largest of the dumps above with one thread and with two, beside what two processors are worth here."""
        directory = self.empty_directory("dumps")
        run([self.program("dumps"), directory, str(REPORT_RANKS), str(REPORT_RECORDS[-1])])
        self.measure_command("report", directory)
        rounds = []
        for _ in range(THREAD_ROUNDS):
            one, two = (self.measure_command("report", "--threads", n, directory) for n in "12")
            both = self.side_by_side("report", "--threads", "1", directory)
            if one and two and both:
                rounds.append((one[0], two[0], one[1], two[1], one[0] / two[0], 2 * one[0] / both))
        shutil.rmtree(directory)
        table(["seconds, 1 thread", "2 threads", "processor seconds, 1 thread", "2 threads", "speed-up",
               "control: two processes at once are worth"],
              [[show(median(column), 2) for column in zip(*rounds)]] if rounds else [])
        print(f"Goal: a speed-up of 1.7 where the control is 2. Load at the end: {os.getloadavg()[0]:.1f}.\n")

    def many_ranks(self):
        """What each of many dumps costs: more than may be mapped, too."""
        rows = []
        for ranks, records in MANY_RANKS:
            directory = self.empty_directory("dumps")
            run([self.program("dumps"), directory, str(ranks), str(records)])
            for command in "list", "check", "summary", "diagnose", "report":
                measured = self.measure_command(command, directory)
                if measured:
                    rows.append([f"{ranks} x {records}", command, show(measured[0], 1), show(measured[1], 1),
                                 show(measured[2], 0), show(1e3 * measured[1] / ranks, 2),
                                 show(1024 * measured[2] / ranks, 1)])
            shutil.rmtree(directory)
        table(["ranks x records", "command", "seconds", "processor seconds", "own memory, MiB",
               "ms of processor time each", "kB each"], rows)
        print("Goal: 16,384 ranks in 5 s and 1 GB; at most 1 ms and 20 kB each.\n")

    # ---- a running job

    def make_live(self, directory, process):
        """Makes the dumps in a directory those of a process that runs; where each has the head of its first lane."""
        boot_id, heads = open("/proc/sys/kernel/random/boot_id", encoding="ascii").read().strip(), {}
        for entry in os.scandir(directory):
            with open(entry.path, "r+b") as dump:
                header = dump.read(HEADER_BYTES)
                sections = struct.iter_unpack("<IIQQII", header[SECTIONS_AT:])
                heads[entry.path] = next(offset for kind, _, offset, *_ in sections if kind == SECTION_LANES)
                for offset, value in ((BOOT_ID_AT, boot_id.encode()), (PID_AT, struct.pack("<q", process.pid)),
                                      (START_AT, struct.pack("<Q", time.time_ns()))):
                    dump.seek(offset)
                    dump.write(value)
        return heads

    def look_at(self, directory, heads, moving):
        """(looks, processor seconds) of commtap top on a terminal in some seconds."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([os.path.join(self.options.build, "commtap"), "top", "--interval", "0.2", directory],
                                   stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL)
        os.close(theirs)
        looks, number, end = 0, 1 << 20, time.monotonic() + LOOK_SECONDS
        while time.monotonic() < end:
            number += 1
            for path, head in heads.items() if moving else ():
                with open(path, "r+b") as dump:
                    dump.seek(head)
                    dump.write(struct.pack("<Q", number))
            while select.select([ours], [], [], 0.1)[0]:
                looks += os.read(ours, 1 << 20).count(b"\033[H")
        process.terminate()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        os.close(ours)
        return looks, usage.ru_utime + usage.ru_stime

    def top(self):
        print(f"## commtap top, {LIVE_RANKS} ranks\n")
        rows = []
        sleeper = subprocess.Popen(["sleep", "600"])
        for name, base in (("build directory", None), ("/dev/shm", "/dev/shm")):
            directory = self.empty_directory(f"commtap-bench-top.{os.getpid()}", base)
            run([self.program("dumps"), directory, str(LIVE_RANKS), str(LIVE_RECORDS)])
            heads = self.make_live(directory, sleeper)
            for kind, moving in (("runs", True), ("stands", False)):
                looks, seconds = self.look_at(directory, heads, moving)
                rows.append([name, kind, show(looks, 0), show(seconds * 1e3 / max(looks, 1)),
                             show(seconds / max(looks, 1) / LOOK_INTERVAL * 100, 2)])
            shutil.rmtree(directory)
        sleeper.kill()
        sleeper.wait()
        table(["dumps in", "job", "looks", "processor ms per look", f"per cent of a core at one look in {LOOK_INTERVAL} s"], rows)
        print("Goal: at most 2 % of a core.\n")

    # ---- the heartbeat

    def thread_of(self, pid):
        """Where the kernel tells of the thread that beats; None: there is none (yet)."""
        for task in glob.glob(f"/proc/{pid}/task/*"):
            with open(f"{task}/comm", encoding="utf-8") as comm:
                if comm.read().strip() == "commtap-beat":
                    return task
        return None

    def ran(self, task):
        """(seconds on a processor, times it was given one)"""
        with open(f"{task}/schedstat", encoding="ascii") as schedstat:
            spent, _, times = map(int, schedstat.read().split())
        return spent / 1e9, times

    def beating(self, mpi, processes):
        """Of a process that has come to MPI and sleeps, with as many others on its node as dumps that name it make up:
        what its thread ran in some time."""
        directory = self.empty_directory("beats")
        sleeper = (f"import ctypes, time; ctypes.CDLL('{MPI_LIBRARIES[mpi]}', ctypes.RTLD_GLOBAL).MPI_Init(None, None); "
                   "time.sleep(600)")
        environment = {**os.environ, **AS_ROOT, "COMMTAP_DIR": directory}
        job = subprocess.Popen([f"mpirun.{mpi}", "-n", "1", "env", f"LD_PRELOAD={self.library}", sys.executable, "-c", sleeper],
                               env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        task, end = None, time.monotonic() + 30
        while not task and time.monotonic() < end:
            time.sleep(0.1)
            for path in glob.glob(f"{directory}/*.ct"):
                with open(path, "rb") as dump:
                    header = dump.read(HEADER_BYTES)
                task = self.thread_of(struct.unpack_from("<q", header, PID_AT)[0])
        for number in range(1, processes if task else 0):
            with open(f"{path[:-19]}{number:016x}.ct", "wb") as other:
                other.write(header)
        measured = None
        if task:
            time.sleep(FOUND_SECONDS)
            before = self.ran(task)
            time.sleep(BEAT_SECONDS)
            measured = [(now - then) for now, then in zip(self.ran(task), before)]
        job.terminate()
        job.wait()
        return measured

    def heartbeat(self):
        print("## The heartbeat\n")
        rows = []
        for processes in BEAT_PROCESSES if self.options.mpis else ():
            measured = self.beating(self.options.mpis[0], processes)
            if measured:
                seconds, times = measured
                rows.append([str(processes), show(times, 0), show(seconds / max(times, 1) * 1e6, 0),
                             show(seconds / BEAT_SECONDS * 3600, 2), show(seconds / BEAT_SECONDS * 100, 4)])
        table(["processes of the node", f"wake-ups in {BEAT_SECONDS} s", "us each", "seconds of processor time per hour",
               "per cent of a core"], rows)
        print("Goal: at most 0.01 % of a core, in two processes of a node; two more have a thread that does not wake.\n")

    def database(self):
        print("## commtap export --format sqlite\n")
        directory, path = self.empty_directory("dumps"), os.path.join(self.scratch, "job.db")
        run([self.program("dumps"), directory, str(DATABASE_RANKS), str(DATABASE_RECORDS)])
        measured = self.measure_command("export", "--format", "sqlite", "-o", path, directory)
        if measured:
            table(["million records", "seconds", "processor seconds", "own memory, peak MiB", "GB of database"],
                  [[f"{DATABASE_RANKS * DATABASE_RECORDS / 1e6:.1f}", show(measured[0], 1), show(measured[1], 1),
                    show(measured[2], 0), f"{os.path.getsize(path) / 1e9:.2f}"]])
        shutil.rmtree(directory)
        print("Goal: 10 million records in 40 s, one file.\n")

    # ---- everything ------------------------------------------------------------------------------------------------

    def machine(self):
        model = "unknown processor"
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            for line in info:
                if line.startswith("model name"):
                    model = line.split(":", 1)[1].strip()
        versions = []
        for mpi in self.options.mpis:
            first = (run([f"mpirun.{mpi}", "--version"]) or "").split("\n")
            number = first[0].split()[-1] if mpi == "openmpi" else first[1].split()[-1]
            versions.append(f"{MPI_NAMES[mpi]} {number}")
        print(f"# What commtap costs\n\n{model}, {os.cpu_count()} cores, Linux {platform.release()}, "
              f"{' '.join(platform.libc_ver())}, {', '.join(versions)}. Load while measuring: "
              f"{os.getloadavg()[0]:.1f}. {self.options.rounds} rounds, in each of which the variants take turns.\n")

    def all(self):
        parts = {"percall": self.percall, "churn": self.churn, "recorder": self.recorder, "stacks": self.stacks, "symbols": self.symbols, "gpu": self.gpu, "nccl": self.nccl,
                 "plugin": self.plugin,
                 "startup": self.startup, "tail": self.tail,
                 "report": self.report, "top": self.top, "heartbeat": self.heartbeat, "database": self.database}
        try:
            self.machine()
            for name, part in parts.items():
                if not self.options.only or name in self.options.only:
                    part()
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--mpis", type=str.split, default=[])
    parser.add_argument("--only", type=lambda text: [name for name in text.split(",") if name], default=[])
    parser.add_argument("--mpip", action="store_true", help="mpip.MPI.so is among the programs")
    parser.add_argument("--ipm", action="store_true", help="ipm.MPI.so is among the programs")
    Bench(parser.parse_args()).all()


if __name__ == "__main__":
    main()
