#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""commtap under PyTorch's own torchrun: ranks, restarts and agents as it starts them, on jobs whose outcome is known.

Lives here: fetching it, the jobs, what must be said of them. Must not live here: what a worker does (train.py), jobs in an
environment like torchrun's (test/e2e/test_generations.py). Exits with 0 where all is as promised, 1 where not, 77 where
torchrun cannot be had.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMMTAP, STANDIN = ROOT / "build" / "commtap", ROOT / "build" / "standin"
HOME = ROOT / "build" / "test" / "torchrun"
STEPS, PATIENCE_S = 60, 180

sys.path.insert(0, str(ROOT / "test" / "support"))
import peers  # noqa: E402


def interpreter():
    """The wheel is of CPython 3.10."""
    found = [shutil.which("python3.10"), *sorted(pathlib.Path.home().glob(".pyenv/versions/3.10.*/bin/python3.10"))]
    for path in found:
        if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return str(path)
    return None


class Trial:
    def __init__(self, python, packages):
        self.python, self.packages, self.failures, self.started = python, packages, 0, []
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="commtap-torchrun-"))

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("COMMTAP_", "TORCHELASTIC_"))}
        return {**kept, "PYTHONPATH": str(self.packages), "LD_LIBRARY_PATH": str(STANDIN), "STANDIN_DEVICES": "4",
                "OMP_NUM_THREADS": "1"}

    def start(self, where, options, words, way="run", **more):
        torchrun = [self.python, "-m", "torch.distributed.run", *options, str(HERE / "train.py"), str(STEPS), *words]
        environment = {**self.environment(), **more}
        line = [str(COMMTAP), "run", "-o", str(where), "--", *torchrun] if way == "run" else torchrun
        if way == "preload":
            environment.update(LD_PRELOAD=str(ROOT / "build" / "libcommtap.so"), COMMTAP_DIR=str(where))
        self.started.append(subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return self.started[-1]

    def finish(self, *started):
        for process in started:
            out, _ = process.communicate(timeout=PATIENCE_S)
            if process.returncode:
                raise RuntimeError(f"{process.args} ended with {process.returncode}:\n{out[-3000:]}")

    def ask(self, command, where, *words):
        said = subprocess.run([str(COMMTAP), command, "--format", "json", *words, str(where)], capture_output=True, text=True, timeout=120)
        if said.returncode > 1:
            raise RuntimeError(f"{command}: {said.stderr}")
        return json.loads(said.stdout)

    def expect(self, what, found, wanted):
        self.failures += found != wanted
        print(f"  {what}: {found}" + ("" if found == wanted else f", and not {wanted}"))

    def counts(self, where, ranks, *words):
        rows = [row for row in self.ask("summary", where, "--by", "op", *words)["summary"] if row["op"] == "ncclAllReduce"]
        self.expect("reductions", {row["count"] for row in rows}, {ranks * STEPS})

    # ---- jobs

    def one_agent(self):
        print("three workers of one agent, rank 1 slow")
        where = self.place / "one"
        self.finish(self.start(where, ["--standalone", "--nproc_per_node", "3"], ["--slow", "1"]))
        report = self.ask("report", where)
        self.expect("launcher", report["job"]["launcher"], "torchrun")
        self.expect("ranks", [row["rank"] for row in report["ranks"]], [0, 1, 2])
        self.expect("named", [(one["kind"], one["rank"]) for one in report["stragglers"]], [("rank", 1)])
        self.counts(where, 3)

    def a_worker_that_dies(self, way):
        print(f"a worker is killed, torchrun starts all anew ({way})")
        where = self.place / f"dies-{way}"
        self.finish(self.start(where, ["--standalone", "--nproc_per_node", "3", "--max_restarts", "1"], ["--fail", "2"], way))
        generations = self.ask("report", where)["generations"]
        self.expect("generations", [(row["generation"], row["ranks_seen"]) for row in generations], [(0, 3), (1, 3)])
        if way == "run":
            self.expect("died first", generations[0]["dead_rank"], 2)
        self.counts(where, 3, "--generation", "1")

    def agents(self, where, nodes="2"):
        """The first one holds the store by which they meet. As on hosts of their own, GPUs of both have the same numbers."""
        port, started = free_port(), []
        options = ["--nnodes", nodes, "--nproc_per_node", "2", "--rdzv_id", "trial", "--rdzv_backend", "c10d", "--rdzv_endpoint",
                   f"127.0.0.1:{port}", "--rdzv_conf", "last_call_timeout=5", "--max_restarts", "3"]
        for number in range(2):
            started.append(self.start(where, options, [], "preload", NCCL_HOSTID=f"host-{number}"))
            wait_for(lambda: is_open(port))
        return started

    def two_agents(self):
        print("two agents of two workers each")
        where = self.place / "two"
        self.finish(*self.agents(where))
        report = self.ask("report", where)
        self.expect("ranks", [row["rank"] for row in report["ranks"]], [0, 1, 2, 3])
        self.expect("generations", len(report["generations"] or []), 0)
        self.counts(where, 4)

    def an_agent_that_is_lost(self):
        print("one of two agents is lost with its workers, the job goes on with two of four")
        where = self.place / "lost"
        stays, goes = self.agents(where, "1:2")
        wait_for(lambda: len(list(where.glob("*.ct"))) == 4)
        workers = subprocess.run(["pgrep", "-P", str(goes.pid)], capture_output=True, text=True).stdout.split()
        for pid in [goes.pid, *map(int, workers)]:
            os.kill(pid, signal.SIGKILL)
        goes.communicate()
        self.finish(stays)
        generations = self.ask("report", where)["generations"]
        self.expect("ranks of the generations", [row["ranks_seen"] for row in generations], [4, 2])
        self.counts(where, 2, "--generation", str(generations[-1]["generation"]))


def wait_for(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError("it takes too long")
        time.sleep(0.05)


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    python = interpreter()
    if not python:
        print("skipped: there is no CPython 3.10 here")
        return 77
    wheel = ["--python-version", "3.10", "--implementation", "cp", "--abi", "cp310", "--abi", "none", "--platform", "manylinux1_x86_64",
             "--platform", "any", "--only-binary", ":all:"]
    packages = peers.install(HOME, HERE / "pins.txt", "torchrun", *wheel)
    if not packages:
        return 77
    trial = Trial(python, packages)
    began = time.monotonic()
    try:
        trial.one_agent()
        trial.a_worker_that_dies("run")
        trial.a_worker_that_dies("preload")
        trial.two_agents()
        trial.an_agent_that_is_lost()
    finally:
        for process in trial.started:
            process.kill()
        shutil.rmtree(trial.place, ignore_errors=True)
    print(f"torchrun: {trial.failures} not as promised, {time.monotonic() - began:.0f} s")
    return 1 if trial.failures else 0


if __name__ == "__main__":
    sys.exit(main())
