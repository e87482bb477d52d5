# SPDX-License-Identifier: Apache-2.0
#
# Jobs that are started anew with another world size, and with a rank that was killed and replaced: under mpirun, and with
# the environment that torchrun gives its workers (which is not here; a shell around each rank sets it), or Slurm a job
# that it requeued.
# Must not live here: several programs under one `commtap run` (test_launches.py).
import json
import sqlite3
import subprocess

import pytest

import jobs
import test_nccl_calls as nccl

ALLREDUCES = 50  # of program `ending`

# As torchrun's workers see it: the agent's run id, and how often it has restarted them.
WORKER = ("RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE "
          "LOCAL_WORLD_SIZE=$OMPI_COMM_WORLD_SIZE TORCHELASTIC_RUN_ID=elastic MASTER_ADDR=localhost MASTER_PORT=29400 "
          "TORCHELASTIC_RESTART_COUNT={} exec {} {}")


def start_under_torchrun(where, count, ranks, ending):
    worker = WORKER.format(count, jobs.program("openmpi", "ending"), ending)
    jobs.run("openmpi", ranks, ["sh", "-c", worker], where, check=ending == "proper")


def start_under_mpirun(where, count, ranks, ending):
    jobs.run("openmpi", ranks, [jobs.program("openmpi", "ending"), ending], where,
             knobs={"COMMTAP_RUN_ID": "again"}, check=ending == "proper")


@pytest.fixture(scope="module", params=[start_under_torchrun, start_under_mpirun], ids=["torchrun", "mpirun"])
def restarted(request, tmp_path_factory):
    """4 ranks, of which one kills itself; as many again; then 3."""
    where = tmp_path_factory.mktemp("generations") / "dumps"
    for count, (ranks, ending) in enumerate([(4, "kill"), (4, "proper"), (3, "proper")]):
        request.param(where, count, ranks, ending)
    return where


def test_every_start_is_listed_beside_the_others(restarted):
    listed = jobs.report(restarted)["jobs"]
    assert [(job["generation"], job["ranks_seen"]) for job in listed] == [(0, 4), (1, 4), (2, 3)]
    assert listed[0]["gap_seconds"] is None
    assert all(job["gap_seconds"] > 0 and job["recorded_seconds"] > 0 for job in listed[1:])
    assert len({tuple(job["host_names"]) for job in listed}) == 1


@pytest.mark.parametrize("number, ranks", [(0, 4), (1, 4), (2, 3)])
def test_each_can_be_looked_at(restarted, number, ranks):
    result = jobs.document("report", "--generation", number, restarted)
    assert result["job"]["ranks_seen"] == ranks
    assert sum(row["count"] for row in result["summary"] if row["op"] == "MPI_Allreduce") == ALLREDUCES * ranks
    alone = jobs.summary(restarted, "--generation", str(number))["summary"]
    assert sum(row["count"] for row in alone if row["op"] == "MPI_Allreduce") == ALLREDUCES * ranks


@pytest.mark.parametrize("number, ranks", [(0, 4), (1, 4), (2, 3)])
def test_each_can_be_exported_and_says_its_number(restarted, number, ranks, tmp_path):
    assert jobs.document("report", "--generation", number, restarted)["job"]["generation"] == number
    rows = jobs.commtap("export", "--table", "operations", "--format", "jsonl", "--generation", number, restarted).stdout
    calls = [json.loads(row) for row in rows.splitlines()]
    assert sum(row["count"] for row in calls if row["op"] == "MPI_Allreduce") == ALLREDUCES * ranks
    assert {row["generation"] for row in calls} == {number}
    jobs.commtap("export", "--format", "sqlite", "--generation", number, "-o", tmp_path / "job.db", restarted)
    with sqlite3.connect(tmp_path / "job.db") as database:
        assert database.execute("SELECT generation FROM runs").fetchall() == [(number,)]
    assert f'generation="{number}"' in jobs.commtap("metrics", "--generation", number, restarted).stdout


def test_all_of_them_are_told_apart_in_one_export(restarted):
    for table in ("operations", "records"):
        rows = jobs.commtap("export", "--table", table, "--format", "jsonl", restarted).stdout.splitlines()
        processes = {(row["generation"], row["rank"]) for row in map(json.loads, rows)}
        assert processes == {(number, rank) for number, ranks in enumerate((4, 4, 3)) for rank in range(ranks)}


def test_starts_stand_side_by_side(restarted):
    rows = jobs.report(restarted)["generations"]
    assert [(row["generation"], row["ranks_seen"], row["hosts"]) for row in rows] == [(0, 4, 1), (1, 4, 1), (2, 3, 1)]
    assert [row["gap_seconds"] is None for row in rows] == [True, False, False]
    text = jobs.commtap("report", restarted).stdout
    assert "Generations: the starts of this job" in text and "lost before" in text
    assert jobs.document("report", "--generation", "0", restarted)["generations"] == rows


def test_who_was_slow_in_each_and_who_died_first(tmp_path):
    """4 ranks, of which 2 is slow; again, rank 1 being slow; then one kills itself at once, and is replaced."""
    for program, *words in (("train", "--slow-rank", "2", "--slow-ms", "8"), ("train", "--slow-rank", "1", "--slow-ms", "8")):
        jobs.run("openmpi", 4, [jobs.program("openmpi", program), *words], tmp_path / "slow",
                 knobs={"COMMTAP_RUN_ID": "again"})
    rows = jobs.report(tmp_path / "slow")["generations"]
    assert [(row["slow_rank"], row["slow_after"]) for row in rows] == [(2, "stayed"), (1, None)]
    assert all(row["slowdown_ratio"] > 1.2 and row["dead_rank"] is None for row in rows)
    for ending in ("kill", "proper"):
        jobs.run("openmpi", 4, [jobs.program("openmpi", "ending"), ending], tmp_path / "killed", way="run",
                 knobs={"COMMTAP_RUN_ID": "again"}, check=ending == "proper")
    first, second = jobs.report(tmp_path / "killed")["generations"]
    assert first["dead_rank"] is not None and first["dead_after"] == "replaced" and first["slow_host"] is None
    assert second["dead_rank"] is None


def test_who_left_first_is_told_without_commtap_run(tmp_path):
    """Rank 1 leaves by exit() before it should; the launcher ends the other three."""
    for count, ending in enumerate(("exit", "proper")):
        start_under_torchrun(tmp_path / "dumps", count, 4, ending)
    first, second = jobs.report(tmp_path / "dumps")["generations"]
    assert (first["dead_rank"], first["dead_after"], second["dead_rank"]) == (1, "replaced", None)


def test_a_job_that_was_started_once_has_no_such_table(tmp_path):
    jobs.run("openmpi", 2, [jobs.program("openmpi", "ending"), "proper"], tmp_path / "once")
    assert jobs.report(tmp_path / "once")["generations"] == []
    assert "Generations" not in jobs.commtap("report", tmp_path / "once").stdout


def test_the_report_says_what_changed(restarted):
    said = {number: [one["text"] for one in jobs.document("report", "--generation", number, restarted)["findings"]
                     if one["code"] == "generation_before"] for number in range(3)}
    assert said[0] == []
    assert "it has as many ranks on each host as before" in said[1][0] and "of 4 ranks; generation 0, of 4," in said[1][0]
    assert "1 of 4 ranks on " in said[2][0] and " left. --generation 1 shows it." in said[2][0]


def test_one_that_there_is_not_lists_those_that_there_are(restarted):
    for text in ("3", "x", "-1", ""):
        said = jobs.commtap("report", f"--generation={text}", restarted, codes=(3,)).stderr
        assert f"'{text}'" in said and said.count(" ranks, generation ") == 3


TORCHRUN = """#!/bin/sh
# torchrun --nnodes 2 --node-rank K COMMAND..., as far as its two workers see it
node=$4; shift 4
for local in 0 1; do
    RANK=$((2 * node + local)) LOCAL_RANK=$local WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_RANK=$node MASTER_ADDR=localhost \\
        MASTER_PORT=41000 TORCHELASTIC_RUN_ID=both TORCHELASTIC_RESTART_COUNT=0 "$@" &
done
wait
"""


def test_each_node_may_have_a_commtap_run_of_its_own(tmp_path):
    torchrun = tmp_path / "torchrun"
    torchrun.write_text(TORCHRUN)
    torchrun.chmod(0o755)
    train = [str(nccl.PROGRAMS / "train"), "--steps", "20"]
    environment = nccl.environment(0, 4, tmp_path / "dumps", preload=False, launcher=False,
                                   NCCL_MULTI_RANK_GPU_ENABLE="1", TRAIN_ID_FILE=str(tmp_path / "id"))
    del environment["COMMTAP_DIR"]
    nodes = [jobs.start([str(jobs.COMMTAP), "run", "-o", str(tmp_path / "dumps"), "--", str(torchrun), "--nnodes", "2", "--node-rank",
                         str(node), *train], env=environment) for node in range(2)]
    for node in nodes:
        assert (node.communicate(timeout=60), node.returncode)[1] == 0
    job = jobs.report(tmp_path / "dumps")["job"]
    assert (job["ranks_seen"], job["missing_ranks"]) == (4, [])


def test_a_requeued_torchrun_with_a_rendezvous_of_its_own_each_time_is_one(tmp_path):
    """Two torchruns side by side in one batch job, which starts again: each goes on where the same command was."""
    dumps = tmp_path / "dumps"
    for start in range(2):
        workers = [subprocess.Popen([nccl.PROGRAMS / "train", "--steps", steps], env=nccl.environment(
            rank, 2, dumps, TRAIN_ID_FILE=str(tmp_path / f"id.{start}.{steps}"), MASTER_PORT=str(40000 + 10 * start + int(steps)),
            SLURM_JOB_ID="4711", TORCHELASTIC_RUN_ID=f"drawn-{start}-{steps}", TORCHELASTIC_RESTART_COUNT="0",
            **({"SLURM_RESTART_COUNT": str(start)} if start else {}))) for steps in ("20", "30") for rank in range(2)]
        assert [worker.wait(timeout=60) for worker in workers] == [0] * 4
    listed = jobs.report(dumps)["jobs"]
    assert len(listed) == 4
    for steps in ("20", "30"):
        (newest,) = [job["id"] for job in listed if job["generation"] == 1 and f"--steps {steps}" in job["command"]]
        rows = jobs.document("report", "--run", newest, dumps)["generations"]
        assert [(row["generation"], row["ranks_seen"]) for row in rows] == [(0, 2), (1, 2)], rows
        assert rows[1]["gap_seconds"] > 0


def start_under_agents(folder, start, counts):
    """Two of torchrun's agents with two workers each, on the stand-in: each counts the restarts that it made by itself."""
    ids = folder / f"id.{start}"
    workers = [subprocess.Popen([nccl.PROGRAMS / "train", "--steps", "20"], stderr=subprocess.PIPE, text=True,
                                env=nccl.environment(rank, 4, folder / "dumps", TRAIN_ID_FILE=str(ids), LOCAL_RANK=str(rank % 2), NCCL_MULTI_RANK_GPU_ENABLE="1",
                                                     GROUP_RANK=str(rank // 2), LOCAL_WORLD_SIZE="2", MASTER_PORT=str(40000 + start),
                                                     TORCHELASTIC_RUN_ID="elastic", TORCHELASTIC_RESTART_COUNT=str(counts[rank // 2])))
               for rank in range(4)]
    for worker in workers:
        assert (worker.communicate(timeout=60)[1], worker.returncode) == ("", 0)


def test_agents_that_count_for_themselves(tmp_path):
    """A worker of one node fails, then one of the other: torchrun counts each on its own node, and takes another port."""
    all_counts = [(0, 0), (0, 1), (1, 1)]
    for start, counts in enumerate(all_counts):
        start_under_agents(tmp_path, start, counts)
    dumps = tmp_path / "dumps"
    result = jobs.report(dumps)
    assert [(row["generation"], row["ranks_seen"]) for row in result["generations"]] == [(0, 4), (1, 4), (2, 4)]
    assert all(row["gap_seconds"] > 0 for row in result["generations"][1:])
    for number in range(len(all_counts)):
        start = jobs.document("report", "--generation", number, dumps)
        assert (start["job"]["ranks_seen"], start["job"]["missing_ranks"], start["coverage"]["matched_share"]) == (4, [], 1)


@pytest.mark.parametrize("way", ["preload", "run"])
def test_a_requeued_job_is_one(way, tmp_path):
    for count, ranks in enumerate((2, 3)):
        slurm = {"SLURM_JOB_ID": "4711", **({"SLURM_RESTART_COUNT": str(count)} if count else {})}
        jobs.run("openmpi", ranks, [jobs.program("openmpi", "ending"), "proper"], tmp_path, way=way, environment=slurm)
    rows = jobs.report(tmp_path)["generations"]
    assert [(row["generation"], row["ranks_seen"]) for row in rows] == [(0, 2), (1, 3)]
    assert rows[1]["gap_seconds"] > 0
    for number, ranks in enumerate((2, 3)):
        result = jobs.document("report", "--generation", number, tmp_path)
        assert sum(row["count"] for row in result["summary"] if row["op"] == "MPI_Allreduce") == ALLREDUCES * ranks
    assert "joined" in " ".join(jobs.commtap("report", tmp_path).stdout.split())
