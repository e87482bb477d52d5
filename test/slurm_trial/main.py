#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Slurm of two nodes on this host, and commtap under it: what a cluster's user and its operator do.

Lives here: the daemons, in a directory of their own on ports of their own, and jobs whose outcome is known.
Must not live here: other launchers (test/e2e). It has to run as root, since jobs change users, ends what it started, and
leaves no configuration behind. Exits with 0 where all is as promised, 1 where not, 77 where something is missing.
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

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMTAP = ROOT / "build" / "commtap"
PROGRAMS = ROOT / "build" / "test" / "programs"
SLURM = ROOT / "packaging" / "slurm"
NEEDS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "squeue", "sinfo", "runuser")
PATIENCE_S = 120

CONFIGURATION = """ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
TmpFS={place}/tmp-%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=3
SlurmdParameters=config_overrides
TaskProlog={place}/task_prolog
Epilog={place}/epilog
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def wait_for(what, condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.2)


def script(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


class Cluster:
    def __init__(self, place):
        self.place = place
        self.environment = {**os.environ, "SLURM_CONF": str(place / "slurm.conf")}
        for name in ("LD_PRELOAD", "SLURM_EXPORT_ENV", "COMMTAP_DIR"):
            self.environment.pop(name, None)
        self.daemons = []

    def configure(self):
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        ports = [taken.getsockname()[1] for taken in sockets]
        for taken in sockets:
            taken.close()
        for name in ("state", "spool-n1", "spool-n2", "tmp-n1", "tmp-n2"):
            (self.place / name).mkdir()
        (self.place / "slurm.conf").write_text(CONFIGURATION.format(host=socket.gethostname().split(".")[0], place=self.place,
                                                                    ports=ports), encoding="utf-8")
        (self.place / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n", encoding="utf-8")
        (self.place / "munge.key").write_bytes(os.urandom(1024))
        (self.place / "munge.key").chmod(0o400)
        shutil.copy(SLURM / "task_prolog", self.place / "task_prolog")
        # Slurm hands an epilog none of the job's variables: the place is set here, and commtap says that it was called
        script(self.place / "commtap", f"#!/bin/sh\necho \"$@\" >>{self.place}/collected\nexec {COMMTAP} \"$@\"\n")
        script(self.place / "epilog", f"#!/bin/sh\nCOMMTAP_PLACE={self.place}/jobs PATH={self.place}:${{PATH-}}\n"
                                      f"export COMMTAP_PLACE PATH\n. {SLURM}/epilog\n")
        (self.place / "jobs").mkdir()

    def daemon(self, *words):
        log = open(self.place / "daemons.log", "ab")
        self.daemons.append(subprocess.Popen(list(map(str, words)), stdout=log, stderr=log, env=self.environment,
                                             start_new_session=True))
        log.close()

    def start(self):
        self.configure()
        place = self.place
        self.daemon("munged", "--foreground", "--force", f"--key-file={place}/munge.key", f"--socket={place}/munge.socket",
                    f"--pid-file={place}/munged.pid", f"--log-file={place}/munged.log", f"--seed-file={place}/munged.seed")
        wait_for("munged", (place / "munge.socket").exists)
        self.daemon("slurmctld", "-D")
        self.daemon("slurmd", "-D", "-N", "n1")
        self.daemon("slurmd", "-D", "-N", "n2")
        wait_for("two idle nodes", lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D", check=False).strip() == "2")

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def run(self, *words, check=True, **variables):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=PATIENCE_S, cwd=self.place,
                              env={**self.environment, **variables}, check=False)
        assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def batch(self, name, body, *options):
        path = script(self.place / f"{name}.sh", f"#!/bin/sh\n{body}\n")
        return self.run("sbatch", "--parsable", "-o", self.place / f"{name}.out", *options, path).strip()

    def is_over(self, job):
        return not self.run("squeue", "-h", "-j", job, check=False).strip()

    def document(self, command, directory):
        done = subprocess.run([COMMTAP, command, "--format", "json", directory], capture_output=True, text=True, check=False)
        return json.loads(done.stdout)


def program(mpi, name):
    return PROGRAMS / mpi / name


def ranks_of(cluster, directory):
    return len(cluster.document("report", directory)["ranks"])


# ---- what is promised


def run_in_front_of_srun_records_whatever_is_exported(cluster):
    for i, options in enumerate([(), ("--export=NONE",), ("--export=A=1,LD_PRELOAD=libm.so.6",)]):
        where = cluster.place / f"mpich{i}"
        cluster.run(COMMTAP, "run", "-o", where, "--", "srun", "-N2", "-n4", "--mpi=pmi2", *options,
                    program("mpich", "train"), "--steps", 20)
        assert ranks_of(cluster, where) == 4, options
    where = cluster.place / "openmpi"
    cluster.run(COMMTAP, "run", "-o", where, "--", "srun", "-N1", "-n4", "--mpi=pmix", "--export=NONE",
                program("openmpi", "train"), "--steps", 20)
    assert ranks_of(cluster, where) == 4


def a_batch_job_that_exports_nothing_is_recorded(cluster):
    where = cluster.place / "batch"
    job = cluster.batch("batch", f"{COMMTAP} run -o {where} -- srun --mpi=pmi2 {program('mpich', 'train')} --steps 20",
                        "-n2", "--export=NONE")
    wait_for("the batch job", lambda: cluster.is_over(job))
    assert ranks_of(cluster, where) == 2
    assert [row["job_id"] for row in cluster.document("list", where)["jobs"]] == [job]


def steps_of_one_job_are_told_apart(cluster):
    where = cluster.place / "steps"
    srun = (f"srun --mpi=pmi2 --export=ALL,LD_PRELOAD={ROOT}/build/libcommtap.so,COMMTAP_DIR={where}/%j "
            f"{program('mpich', 'train')} --steps 20")
    job = cluster.batch("steps", f"{srun}\n{srun}", "-n2")
    wait_for("two steps", lambda: cluster.is_over(job))
    rows = cluster.document("list", where / job)["jobs"]
    assert len({row["run_id"] for row in rows}) == 2 and [row["dumps"] for row in rows] == [2, 2]


def a_hang_is_told_after_scancel(cluster):
    for name, prefix in (("under", f"{COMMTAP} run -o %s -- srun"),
                         ("without", f"srun --export=ALL,LD_PRELOAD={ROOT}/build/libcommtap.so,COMMTAP_DIR=%s")):
        where = cluster.place / f"hang-{name}"
        job = cluster.batch(f"hang-{name}", f"{prefix % where} --mpi=pmi2 {program('mpich', 'hang')} skip", "-N2", "-n4")
        wait_for("the hang", lambda: (cluster.place / f"hang-{name}.out").exists() and
                 (cluster.place / f"hang-{name}.out").read_text().count("ready") == 4)
        time.sleep(8)  # what stands for seconds is a hang: a heartbeat comes every two
        cluster.run("scancel", job)
        wait_for("the end of the hang", lambda: cluster.is_over(job))
        found = cluster.document("diagnose", where)
        assert found["verdict"] == "hang" and [row["rank"] for row in found["culprits"]] == [1], found


def prolog_and_epilog_serve_jobs_that_know_of_nothing(cluster):
    policy = cluster.place / "commtap.conf"
    policy.write_text(f"COMMTAP_DIR={cluster.place}/jobs/%u/%j\nCOMMTAP_QUIET=1\n", encoding="utf-8")
    cluster.run("srun", "-n2", "--mpi=pmi2", program("mpich", "train"), "--steps", 20, COMMTAP_POLICY=str(policy), USER="root",
                COMMTAP_LIBRARY=f"{ROOT}/build/libcommtap.so")
    [row] = cluster.document("list", cluster.place / "jobs")["jobs"]
    assert row["dumps"] == 2 and row["directory"].endswith(f"/root/{row['job_id']}")
    wait_for("the epilog", lambda: f"{row['directory']}\n" in (cluster.place / "collected").read_text())


def main():
    missing = [name for name in NEEDS if not shutil.which(name)]
    missing += [str(path) for path in (program("mpich", "hang"), program("openmpi", "train")) if not path.exists()]
    missing += ["root's rights"] if os.geteuid() != 0 else []
    if missing:
        print("check-slurm: skipped, not here:", *missing)
        return 77
    failed = 0
    with tempfile.TemporaryDirectory(prefix="commtap-slurm-") as place:
        os.chmod(place, 0o755)
        cluster = Cluster(pathlib.Path(place))
        try:
            cluster.start()
            for promise in (run_in_front_of_srun_records_whatever_is_exported, a_batch_job_that_exports_nothing_is_recorded,
                            steps_of_one_job_are_told_apart, a_hang_is_told_after_scancel,
                            prolog_and_epilog_serve_jobs_that_know_of_nothing):
                words = promise.__name__.replace("_", " ")
                try:
                    promise(cluster)
                    print("fine  ", words, flush=True)
                except (AssertionError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
                    failed += 1
                    print("failed", words, "-", error, flush=True)
        finally:
            cluster.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
