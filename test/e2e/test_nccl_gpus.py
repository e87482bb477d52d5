# SPDX-License-Identifier: Apache-2.0
#
# Processes with several GPUs each on the stand-in, as JAX, single-process PyTorch and nccl-tests with -g have them: one
# GPU that is late is named, and no other; what it costs is what the program's own clock says. Each GPU is one place in
# every table and picture.
# Must not live here: processes with one GPU each (test_nccl_scenes.py).
import json
import sqlite3
import subprocess

import pytest

import jobs

pytestmark = pytest.mark.alone

GPUS = jobs.PROGRAMS / "nccl" / "gpus"
ROUNDS, LATE_MS = 120, 4


class Job:
    """A job that has ended: its dumps, and by its own clock how long it took and how late its late GPU was."""

    def __init__(self, folder, mode, gpus, late=-1, ranks=1):
        self.where = folder / "dumps"
        processes = [subprocess.Popen(
            [GPUS, mode, str(gpus), str(ROUNDS), str(late), str(LATE_MS), folder / "id", str(rank), str(ranks)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={
                **jobs.clean_environment(), "LD_LIBRARY_PATH": str(jobs.BUILD / "standin"),
                "LD_PRELOAD": str(jobs.SHIM), "COMMTAP_DIR": str(self.where), "COMMTAP_RUN_ID": "gpus"})
            for rank in range(ranks)]
        said = [process.communicate(timeout=60) for process in processes]
        assert [(process.returncode, err) for process, (_, err) in zip(processes, said)] == [(0, "")] * ranks
        words = dict(line.split() for out, _ in said for line in out.splitlines())
        self.took, self.late = int(words["took_us"]), int(words.get("late_us", 0))


def ends(row):
    return row["rank"], row["gpu"]


@pytest.mark.parametrize("mode", ["group", "threads"])
@pytest.mark.parametrize("ranks, gpus, late, named", [(1, 4, 2, (0, 2)), (2, 2, 3, (1, 3))])
def test_the_late_gpu_is_named_and_what_it_costs(tmp_path, mode, ranks, gpus, late, named):
    job = Job(tmp_path, mode, gpus, late, ranks)
    result = jobs.document("report", job.where)
    guilty = [straggler for straggler in result["stragglers"] if straggler["kind"] == "rank"]
    assert [ends(straggler) for straggler in guilty] == [named]
    assert guilty[0]["gpus"] == [named[1]] and guilty[0]["ranks"] == [named[0]]
    # the most that mending it could give: what held up others meanwhile is left
    truth = job.took / (job.took - job.late)
    assert 0.8 * truth < guilty[0]["what_if_speedup"] < 1.1 * truth
    assert any(f"rank {named[0]} GPU {named[1]} (0000:" in finding["text"] for finding in result["findings"]
               if finding["code"] == "straggler")
    assert result["job"]["ranks_seen"] == ranks
    assert result["coverage"]["matched_share"] == 1
    # everybody else waited for it, and nobody for them
    rows = {ends(row): row for row in result["ranks"]}
    assert sorted(rows) == [(rank, rank * gpus + gpu) for rank in range(ranks) for gpu in range(gpus)]
    waited = {which: row["wait_seconds"] or 0 for which, row in rows.items()}
    assert all(waited[which] > 10 * waited[named] for which in rows if which != named)
    assert rows[named]["caused_seconds"] > 0.9 * sum(row["caused_seconds"] for row in rows.values())


@pytest.mark.parametrize("mode", ["group", "threads"])
def test_alike_gpus_are_nobodys_fault(tmp_path, mode):
    job = Job(tmp_path, mode, 4)
    result = jobs.document("report", job.where)
    assert all(straggler["what_if_speedup"] < 1.1 for straggler in jobs.stragglers(result))
    assert len(result["ranks"]) == 4


def test_each_gpu_has_its_place_in_every_output(tmp_path):
    job = Job(tmp_path, "group", 2, 1, ranks=2)
    everyone = [(0, 0), (0, 1), (1, 2), (1, 3)]
    text = jobs.commtap("report", job.where).stdout
    assert "2 ranks with 4 GPUs on 1 host" in text
    assert [ends(row) for row in jobs.document("steps", job.where)["rows"]] == everyone
    assert jobs.commtap("metrics", job.where).stdout.count('rank="0",gpu="1"') > 2
    # calls are counted once, whatever the number of GPUs
    calls = [row for row in jobs.document("report", job.where)["summary"]
             if (row["op"], row["source"]) == ("ncclAllReduce", "gpu-event")]
    assert sum(row["count"] for row in calls) == 4 * ROUNDS
    jobs.commtap("export", job.where, "--format", "sqlite", "-o", tmp_path / "job.db")
    with sqlite3.connect(tmp_path / "job.db") as database:
        assert database.execute("SELECT rank, gpu FROM ranks ORDER BY 1, 2").fetchall() == everyone
        assert database.execute("SELECT COUNT(*) FROM collectives WHERE members = 4").fetchone() == (ROUNDS,)
        assert database.execute("SELECT last_rank, last_gpu FROM collectives GROUP BY 1, 2 ORDER BY COUNT(*) DESC"
                                ).fetchone() == (0, 1)
        assert database.execute("SELECT COUNT(*) FROM records JOIN functions ON functions.id = op_id WHERE kind = 'gpu'"
                                " AND name = 'ncclAllReduce'").fetchone() == (4 * ROUNDS,)
    jobs.commtap("timeline", job.where, "--format", "chrome", "-o", tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert [sum(name.startswith(f"GPU {gpu}") for name in names) for gpu in range(4)] == [1, 1, 1, 1]
    # memory is each GPU's own
    assert {f"GPU {gpu}, memory in use" for gpu in range(4)} <= {event["name"] for event in events if event["ph"] == "C"}
    jobs.commtap("html", job.where, "-o", tmp_path / "page.html")
    assert '"gpu":1' in (tmp_path / "page.html").read_text().replace(" ", "")
