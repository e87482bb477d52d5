# SPDX-License-Identifier: Apache-2.0
"""make check-gpu: what only a real GPU can show, item by item, in under ten minutes and without a network.

Prints one line per item - pass, fail, or skipped with the reason - with its figures, and writes them as a table to
build/gpu/RESULTS.md. With --standin the same items run on the stand-in as far as it can show them.
Lives here: running test/gpu/probe.c with and without commtap, reading the dumps, verdicts.
Must not live here: tests that need no GPU (test/e2e).
"""
import argparse
import datetime
import glob
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import schema  # noqa: E402

DRIVER_SYMBOLS = """cuEventCreate cuEventDestroy_v2 cuEventRecord cuEventRecordWithFlags cuEventQuery cuEventElapsedTime
    cuEventElapsedTime_v2 cuStreamGetCtx cuStreamIsCapturing cuStreamGetCaptureInfo_v2 cuThreadExchangeStreamCaptureMode
    cuCtxGetCurrent cuCtxGetDevice cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuStreamWaitEvent""".split()
OPTIONAL_SYMBOLS = {"cuEventElapsedTime_v2", "cuEventRecordWithFlags"}
ERRORS = {"unrecorded": 400, "unfinished": 600, "captured": 907, "other-thread": 900, "broken": 901, "unjoined": 904}
TORCH = """
import os, torch, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
torch.cuda.set_device(0)
dist.init_process_group("nccl")
x = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
out = torch.empty_like(x)
for _ in range(20):
    dist.all_reduce(x)
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    dist.all_gather_into_tensor(out, x)
torch.cuda.synchronize()
print("sum", float(out.double().sum()))
dist.destroy_process_group()
"""
JAX = """
import jax, jax.numpy as jnp
f = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")
x = jnp.ones((jax.local_device_count(), 1024))
for _ in range(10):
    y = f(x)
print("sum", float(y.sum()), jax.devices()[0].platform)
"""


class Skipped(Exception):
    pass


def need(condition, what):
    if not condition:
        raise AssertionError(what)


class Check:
    def __init__(self, options):
        self.standin = options.standin
        self.build = options.build
        self.folder = os.path.join(options.build, "gpu")
        self.library = os.path.join(options.build, "libcommtap.so")
        self.short = options.standin or options.short
        self.paths = [os.path.join(options.build, "standin")] if options.standin else self.vendor_paths()
        self.runs = 0
        self.about = {}

    # ---- running ---------------------------------------------------------------------------------------------------

    def module(self, name):
        """Can Python here import it?"""
        return subprocess.run([sys.executable, "-c", f"import {name}"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=self.environment(False)).returncode == 0

    @staticmethod
    def vendor_paths():
        """Where CUDA and NCCL are beside what the loader knows: the toolkit, and what PyTorch's wheels bring."""
        patterns = ["/usr/local/cuda/lib64", "/usr/local/cuda-13*/lib64"]
        for base in sys.path:
            if base:
                patterns += [base + "/nvidia/nccl/lib", base + "/nvidia/cu13/lib", base + "/nvidia/cuda_runtime/lib"]
        return [path for pattern in patterns for path in sorted(glob.glob(pattern))]

    def environment(self, shim, directory=None, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("COMMTAP_") and k != "LD_PRELOAD"}
        path = ":".join((getattr(self, "paths", []) + [kept.get("LD_LIBRARY_PATH", "")]))
        added = {"LD_PRELOAD": self.library, "COMMTAP_DIR": directory or ""} if shim else {}
        return {**kept, "LD_LIBRARY_PATH": path.rstrip(":"), **added, **more}

    def directory(self):
        self.runs += 1
        path = os.path.join(self.folder, "runs", str(self.runs))
        shutil.rmtree(path, ignore_errors=True)
        return path

    def run(self, command, shim=True, timeout=60, must=True, **environment):
        """(standard output, standard error, dumps' directory, exit status) of a command."""
        directory = self.directory()
        done = subprocess.run(command, env=self.environment(shim, directory, **environment), text=True, timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if must:
            need(done.returncode == 0, f"{' '.join(command[:3])}: status {done.returncode}: {done.stderr.strip()[-200:]}")
        return done.stdout, done.stderr, directory, done.returncode

    def probe(self, *words, program="probe", **how):
        return self.run([os.path.join(self.folder, program), *map(str, words)], **how)

    def alike(self, *words, **how):
        """Runs a scene without and with commtap; the dumps' directory when both said and ended the same."""
        bare, with_us = self.probe(*words, shim=False, must=False, **how), self.probe(*words, must=False, **how)
        need((bare[0], bare[3]) == (with_us[0], with_us[3]),
             f"{words[0]}: {bare[3]} {bare[0]!r} without, {with_us[3]} {with_us[0]!r} {with_us[1][-200:]!r} with commtap")
        need(bare[3] == 0, f"{words[0]}: status {bare[3]} without commtap: {bare[1].strip()[-200:]}")
        return with_us[2]

    def commtap(self, *words):
        said = subprocess.run([os.path.join(self.build, "commtap"), *words], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
        schema.check(words, said)
        return said

    def records(self, directory, *kinds):
        lines = self.commtap("export", "--format", "jsonl", directory).splitlines()
        return [record for record in map(json.loads, lines) if record["kind"] in kinds]

    def findings(self, directory):
        return {f["code"]: f["text"] for f in json.loads(self.commtap("report", "--format", "json", directory))["findings"]}

    def raw(self, directory):
        """What test/timing/show.c tells of the only dump: kind of line -> list of {name: number}."""
        dump, = glob.glob(os.path.join(directory, "*.ct"))
        lines = {}
        for line in subprocess.run([os.path.join(self.build, "test", "timing", "show"), dump], stdout=subprocess.PIPE,
                                   text=True, check=True).stdout.splitlines():
            what, *words = line.split(" ")
            if what != "why":
                lines.setdefault(what, []).append(dict(zip(words[0::2], map(int, words[1::2]))))
        return lines

    # ---- items -----------------------------------------------------------------------------------------------------

    def versions(self):
        seen = []
        for shim in (False, True):
            out = self.probe("versions", shim=shim)[0]
            seen.append(dict(line.split(" ", 1) for line in out.splitlines()))
        self.about = seen[1]
        need(seen[0]["context"] == seen[1]["context"], "commtap's presence changes whether a context exists")
        found = dict(line.split() for line in self.probe("symbols", *DRIVER_SYMBOLS, shim=False)[0].splitlines())
        missing = {name for name, there in found.items() if there == "0"} - OPTIONAL_SYMBOLS
        need(not missing, f"libcuda.so.1 lacks {' '.join(sorted(missing))}")
        return f"{seen[1]['device']}, driver {seen[1]['driver']}, NCCL {seen[1]['nccl']}; context made: {seen[1]['context']}"

    def costs(self):
        told = []
        for line in self.probe("costs", shim=False)[0].splitlines():
            name, middle, high = line.split()
            told.append(f"{name} {middle}/{high}")
        return "p50/p99 ns: " + ", ".join(told)

    def sizes(self):
        directory = self.probe("sizes", 16 if self.short else 256, COMMTAP_GPU_TIMING="events")[2]
        times = {}
        for record in self.records(directory, "gpu"):
            times.setdefault(record["bytes"], []).append(record["duration_ns"])
        means = {size: statistics.median(values) for size, values in sorted(times.items()) if len(values) == 10}
        need(len(means) >= 4, f"sizes timed: {sorted(times)}")
        first, last = min(means), max(means)
        need(means[last] > means[first], "a large transfer takes no longer than a small one")
        told = ", ".join(f"{size // 2}: {ns / 1000:.1f}" for size, ns in means.items())
        return f"us by event pairs, bytes sent: {told}; CUPTI's kernel records: not compared"

    def torch(self):
        if self.standin:
            raise Skipped("PyTorch's kernels need a GPU")
        if not self.module("torch"):
            raise Skipped("no PyTorch here")
        script = [sys.executable, "-c", TORCH]
        bare = self.run(script, shim=False, timeout=120)
        out, err, directory, _ = self.run(script, timeout=120, NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="COLL")
        said = [line for line in out.splitlines() if line.startswith("sum")]
        need(said == [line for line in bare[0].splitlines() if line.startswith("sum")], "results differ")
        posted = [r["op"] for r in self.records(directory, "post")]
        logged = sum("opCount" in line and ("AllReduce:" in line or "AllGather:" in line)
                     for line in (out + err).splitlines())
        ours = sum(op in ("ncclAllReduce", "ncclAllGather") for op in posted)
        need(ours >= 60, f"{ours} collectives recorded, 60 made")
        need(logged in (0, ours), f"{ours} recorded, {logged} in NCCL's log")
        timed = len(self.records(directory, "gpu", "kernel"))
        return f"{ours} collectives recorded, {logged} in NCCL's log, {timed} timed"

    def capture(self):
        directory = self.alike("capture", COMMTAP_GPU_TIMING="events")
        untimed = self.raw(directory)["header"][0]["replays_untimed"]
        timed = sum(r["captured"] for r in self.raw(directory)["record"] if r["kind"] == 4)
        need(timed + untimed == 100, f"{timed} timed and {untimed} untimed of 100 replays")
        codes = dict(line.split() for line in self.probe("errors", shim=False)[0].splitlines())
        wrong = {name: code for name, code in codes.items() if int(code) != ERRORS[name]}
        need(not wrong and len(codes) == len(ERRORS), f"negative controls: {wrong or codes}")
        return f"{timed} of 100 replays timed, {untimed} counted; error codes as expected"

    def surroundings(self):
        told = []
        for scene in ("handles", "nonblocking", "reset", "abort", "exit"):
            started = time.monotonic()
            directory = self.alike(scene, COMMTAP_GPU_TIMING="events")
            told.append(f"{scene} {len(self.records(directory, 'gpu'))} timed, {time.monotonic() - started:.1f} s for both")
        return "; ".join(told)

    def static_runtime(self):
        if self.standin:
            raise Skipped("the vendor's static runtime asks a driver for more than the stand-in has")
        if not os.path.exists(os.path.join(self.folder, "probe-static")):
            raise Skipped("no libcudart_static.a here")
        directory = self.alike("handles", program="probe-static", COMMTAP_GPU_TIMING="events")
        timed = len(self.records(directory, "gpu"))
        need(timed == 9, f"{timed} of 9 launches timed")
        return f"{timed} of 9 launches timed"

    def plugin(self):
        directory = self.alike("sizes", 1, COMMTAP_GPU_TIMING="kernel")
        kernels = self.records(directory, "kernel")
        posts = {r["operation"]: r for r in self.records(directory, "post", "group", "call")}
        if not kernels:
            raise Skipped("the library gave no in-kernel times: " + self.findings(directory).get("gpu_untimed", "no reason given"))
        late = [r["start_ns"] - posts[r["operation"]]["start_ns"] for r in kernels if r["operation"] in posts]
        need(late and min(late) > -1e5, f"kernels begin {min(late or [0])} ns after their call")
        return f"{len(kernels)} in-kernel times; start after the call: median {statistics.median(late) / 1000:.1f} us"

    def drift(self):
        seconds, told = (6 if self.short else 60), []
        for connections in ({}, {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}):
            directory = self.probe("drift", seconds, timeout=seconds + 60, COMMTAP_GPU_TIMING="events", **connections)[2]
            anchors = self.raw(directory).get("anchor", [])
            need(len(anchors) >= seconds // 8, f"{len(anchors)} anchors in {seconds} s")
            widths = [anchor["width"] for anchor in anchors]
            # a launch cannot begin before its call was entered nor end after the host has seen its end
            outside = 0
            entered = {r["operation"]: r["start_ns"] for r in self.records(directory, "post", "group", "call")}
            for record in self.records(directory, "gpu"):
                outside = max(outside, entered.get(record["operation"], 0) - record["start_ns"])
            need(outside < 2 * max(widths) + 50000, f"a launch begins {outside} ns before its call")
            told.append(f"{len(anchors)} anchors, width {statistics.median(widths) / 1000:.1f} us (max "
                        f"{max(widths) / 1000:.1f}), launches at most {outside / 1000:.1f} us before their call"
                        + (", one connection" if connections else ""))
        return f"{seconds} s each: " + "; ".join(told)

    def jax(self):
        if self.standin:
            raise Skipped("JAX's kernels need a GPU")
        if not self.module("jax"):
            raise Skipped("no JAX here")
        bare, with_us = self.run([sys.executable, "-c", JAX], shim=False, timeout=120), self.run(
            [sys.executable, "-c", JAX], timeout=120)
        need(bare[0] == with_us[0], f"{bare[0]!r} without, {with_us[0]!r} with commtap")
        seen = len(glob.glob(os.path.join(with_us[2], "*.ct")))
        return f"same results; {seen} dumps (on one device JAX may leave NCCL out)"

    def overhead(self):
        added, walls = [], []
        for _ in range(2 if self.short else 10):
            figures = {True: [], False: []}
            for shim in (False, True, True, False):
                out = self.probe("rate", 1000, shim=shim, COMMTAP_GPU_TIMING="events")[0]
                figures[shim].append(dict((k, float(v)) for k, v in (line.split() for line in out.splitlines())))
            mean = {shim: {key: statistics.mean(f[key] for f in figures[shim]) for key in ("group-ns", "wall-ms")}
                    for shim in figures}
            added.append(mean[True]["group-ns"] - mean[False]["group-ns"])
            walls.append(100 * (mean[True]["wall-ms"] / mean[False]["wall-ms"] - 1))
        middle = statistics.median(added)
        # four calls of NCCL: GroupStart, Send, Recv, GroupEnd
        if not self.standin:
            need(middle / 4 <= 3000, f"{middle / 4:.0f} ns a call")
            need(statistics.median(walls) <= 0.5, f"{statistics.median(walls):.2f} % of the time")
        return (f"{middle:.0f} ns a group of four calls ({middle / 4:.0f} a call), {statistics.median(walls):+.2f} % of the "
                f"time at 1000 groups a second, ABBA x {len(added)}")

    def two_ranks(self):
        common = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_MAX_CTAS": "2"}
        if self.standin:
            common = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
        path = os.path.join(self.folder, f"id.{os.getpid()}")
        directory = self.directory()
        ranks = [subprocess.Popen([os.path.join(self.folder, "probe"), "pair", str(rank), path], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment(
                                      True, directory, RANK=str(rank), WORLD_SIZE="2", NCCL_HOSTID=f"host{rank}", **common))
                 for rank in range(2)]
        try:
            said = [process.communicate(timeout=90) for process in ranks]
        except subprocess.TimeoutExpired:
            raise Skipped("two ranks on one GPU do not get on: no end in 90 s") from None
        finally:
            for process in ranks:
                process.kill()
            if os.path.exists(path):
                os.unlink(path)
        if any(process.returncode for process in ranks):
            raise Skipped("NCCL refuses two ranks on one GPU: " + said[0][1].strip()[-100:])
        need(len(self.records(directory, "gpu", "kernel")) == 40, "not all of 40 operations were timed")
        return "two ranks on one GPU: 40 operations timed"

    # ---- all -------------------------------------------------------------------------------------------------------

    def all(self):
        items = [("versions, symbols, no context of ours", self.versions), ("what events cost", self.costs),
                 ("grouped self send and receive", self.sizes), ("torch.distributed", self.torch),
                 ("GLOBAL capture, error codes", self.capture),
                 ("special handles, non-blocking, reset, abort, exit", self.surroundings),
                 ("static runtime", self.static_runtime), ("profiler plugin", self.plugin),
                 ("anchors and drift", self.drift), ("JAX", self.jax), ("overhead", self.overhead),
                 ("two ranks on one GPU", self.two_ranks)]
        rows, failed, started = [], 0, time.monotonic()
        for place, (name, item) in enumerate(items, 1):
            try:
                verdict, text = "pass", item()
            except Skipped as reason:
                verdict, text = "skipped", str(reason)
            except (AssertionError, ValueError, KeyError, OSError, subprocess.SubprocessError) as error:
                verdict, text = "fail", f"{type(error).__name__}: {error}"
                failed += 1
            rows.append((place, name, verdict, text))
            print(f"{place:2} {verdict:7} {name}: {text}", flush=True)
        self.write(rows, time.monotonic() - started)
        return 1 if failed else 0

    def write(self, rows, seconds):
        path = os.path.join(self.folder, "RESULTS.md")
        with open(path, "w", encoding="utf-8") as out:
            where = "the stand-in (no GPU)" if self.standin else self.about.get("device", "?")
            out.write(f"# make check-gpu on {where}\n\n{datetime.date.today()}, driver {self.about.get('driver', '?')}, "
                      f"CUDA runtime {self.about.get('runtime', '?')}, NCCL {self.about.get('nccl', '?')}, Linux "
                      f"{platform.release()}, {os.cpu_count()} cores; {seconds:.0f} s.\n\n"
                      "| | item | verdict | figures |\n|---|---|---|---|\n")
            for place, name, verdict, text in rows:
                out.write(f"| {place} | {name} | {verdict} | {text.replace('|', '/')} |\n")
        print(f"written: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--standin", action="store_true", help="on the stand-in")
    parser.add_argument("--short", action="store_true", help="smaller sizes, seconds instead of a minute of drift")
    options = parser.parse_args()
    check = Check(options)
    if not options.standin and not glob.glob("/dev/nvidia[0-9]*"):
        print("check-gpu: there is no GPU here (no /dev/nvidia0); make check-gpu-standin shows what the stand-in can")
        sys.exit(2)
    shutil.rmtree(os.path.join(check.folder, "runs"), ignore_errors=True)
    sys.exit(check.all())


if __name__ == "__main__":
    main()
