# SPDX-License-Identifier: Apache-2.0
#
# commtap elastic: what it prints, what it refuses, and its advice on real jobs, whose slow rank is put on a host of its
# own afterwards. Must not live here: the computation (test/unit/test_elastic.c, make check-elastic).
import json
import os
import struct

import pytest

import jobs

OFFSET_OF_RANK, OFFSET_OF_HOST, OFFSET_OF_BOOT_ID = 108, 128, 192  # in struct dump_header (shim/format.h)
OTHER_BOOT = "00000000-1111-2222-3333-444444444444"


def write_config(folder, **section):
    path = folder / "ds_config.json"
    path.write_text(json.dumps({"elasticity": {"enabled": True, "version": 0.1, **section}}))
    return path


def move(directory, rank, host):
    """Says in the dump of a rank that it ran elsewhere."""
    for path in jobs.dumps(directory):
        with path.open("r+b") as file:
            file.seek(OFFSET_OF_RANK)
            if struct.unpack("<i", file.read(4))[0] == rank:
                file.seek(OFFSET_OF_HOST)
                file.write(struct.pack("<64s40s", host.encode(), OTHER_BOOT.encode()))


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """Four ranks, the second of which takes many times as long, on a host of its own."""
    where = tmp_path_factory.mktemp("elastic") / "slow"
    jobs.run("openmpi", 4, [jobs.program("openmpi", "train"), "--steps", "60", "--slow-rank", "1", "--slow-ms", "15"], where)
    move(where, 1, "node2")
    return where


def elastic(config, *words, **codes):
    return json.loads(jobs.commtap("elastic", "-c", config, "--format", "json", *words, **codes).stdout)


def test_it_prints_the_fields_of_ds_elastic(tmp_path):
    config = write_config(tmp_path, max_train_batch_size=10000, micro_batch_sizes=[8, 12, 16, 17], min_gpus=32, max_gpus=1500)
    lines = jobs.commtap("elastic", "-c", config, "-w", "64", "--gpus-per-node", "8").stdout.splitlines()
    assert lines[0] == "final_batch_size .... 9792"
    assert lines[1].startswith("valid_gpus .......... [32, 34, 36, 48, 51, 64, ") and lines[1].endswith("816, 1224]")
    assert lines[2:4] == ["micro_batch_size .... 17", "gradient_accumulation_steps 9"]
    rows = {row["gpus"]: row for row in elastic(config, "-w", "64", "--gpus-per-node", "8")["sizes"]}
    assert rows[48]["nodes"] == 6 and rows[51]["nodes"] is None and rows[64]["is_world_size"]


def test_an_invalid_world_size_ends_with_1(tmp_path):
    config = write_config(tmp_path, max_train_batch_size=10000, micro_batch_sizes=[8, 12, 16, 17], min_gpus=32, max_gpus=1500)
    answer = elastic(config, "-w", "128", codes=(1,))
    assert (answer["world_size_valid"], answer["micro_batch_size"]) == (False, None)
    assert "world size 128 is not valid" in jobs.commtap("elastic", "-c", config, "-w", "128", codes=(1,)).stdout


@pytest.mark.parametrize("text, reason", [("{", "byte 1 (line 1): "), ("{}", "it has no section elasticity"),
                                          ('{"elasticity": {"enabled": true}}', "elasticity.max_train_batch_size is missing")])
def test_what_is_wrong_with_a_configuration_is_said(tmp_path, text, reason):
    path = tmp_path / "broken.json"
    path.write_text(text)
    said = jobs.commtap("elastic", "-c", path, codes=(3,))
    assert said.stderr.startswith(f"commtap elastic: {path}: {reason}") and not said.stdout


SPLIT = {"version": 0.2, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4], "num_gpus_per_node": 4,
         "model_parallel_size": 2}


def test_the_environments_world_size_is_gpus(tmp_path, monkeypatch):
    config = write_config(tmp_path, **SPLIT)
    monkeypatch.setenv("WORLD_SIZE", "16")
    answer = elastic(config)
    asked, = (row for row in answer["sizes"] if row["is_world_size"])
    assert (answer["world_size"], answer["world_size_valid"], answer["goes_on"]) == (8, True, None)
    assert (asked["gpus"], asked["nodes"]) == (16, 4)
    assert asked["gradient_accumulation_steps"] * asked["micro_batch_size"] * 8 == answer["final_batch_size"]
    monkeypatch.setenv("WORLD_SIZE", "17")
    answer = elastic(config, codes=(1,))
    assert (answer["world_size"], answer["world_size_valid"]) == (None, False)
    assert "17 GPUs are no whole number" in jobs.commtap("elastic", "-c", config, codes=(1,)).stdout


def test_sizes_that_start_stand_beside_one_that_does_not(tmp_path):
    config = write_config(tmp_path, **SPLIT)
    answer = elastic(config, "-w", "7", codes=(1,))
    assert (answer["valid_gpus"], answer["world_size_valid"]) == ([3], False)  # DeepSpeed's own words
    assert [row["gpus"] for row in answer["sizes"]] == [2 * count for count in answer["goes_on"]["valid_gpus"]]
    for count in answer["goes_on"]["valid_gpus"]:
        assert elastic(config, "-w", str(count))["final_batch_size"] == answer["goes_on"]["final_batch_size"]
    said = jobs.commtap("elastic", "-c", config, "-w", "7", codes=(1,)).stdout
    assert "world size 7 is not valid" in said and "It does with:" in said


def test_what_is_missing_on_the_command_line_is_said(tmp_path):
    config = write_config(tmp_path, max_train_batch_size=12, micro_batch_sizes=[1])
    assert "--config" in jobs.commtap("elastic", codes=(2,)).stderr
    assert "--drop-host" in jobs.commtap("elastic", "-c", config, "--drop-host", "a", codes=(2,)).stderr
    assert "'0'" in jobs.commtap("elastic", "-c", config, "-w", "0", codes=(2,)).stderr


def test_a_slow_host_is_evicted_where_a_smaller_job_is_faster(slow, tmp_path):
    config = write_config(tmp_path, max_train_batch_size=12, micro_batch_sizes=[1])
    answer = elastic(config, slow)
    eviction = answer["eviction"]
    assert (answer["world_size"], answer["world_size_valid"]) == (4, True)
    assert (eviction["host"], eviction["verdict"], eviction["gpus"], eviction["leaving_gpus"]) == ("node2", "evict", 4, 1)
    assert (eviction["next"]["gpus"], eviction["next"]["gradient_accumulation_steps"]) == (3, 4)
    assert eviction["next"]["cost_ratio"] == pytest.approx(4 / 3)
    assert eviction["gain_ratio"] == pytest.approx(eviction["straggler_speedup"] / (4 / 3))
    speedups = [one["what_if_speedup"] for one in jobs.document("stragglers", slow)["stragglers"]]
    assert eviction["straggler_speedup"] == pytest.approx(max(speedups), rel=1e-6)
    assert eviction["text"].startswith("evict node2: ") and eviction["text"] in jobs.commtap("elastic", "-c", config, slow).stdout


def test_a_host_is_known_by_all_names_of_its_containers(where, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can name containers")
    config = write_config(tmp_path, max_train_batch_size=12, micro_batch_sizes=[1])
    script = f"hostname box-$OMPI_COMM_WORLD_RANK; exec {jobs.program('openmpi', 'train')} --steps 5"
    jobs.run("openmpi", 2, ["unshare", "--uts", "sh", "-c", script], where)
    for name in "box-0", "box-1":
        assert elastic(config, "--drop-host", name, where)["eviction"]["leaving_gpus"] == 2


def test_a_host_that_nobody_waits_for_stays(slow, tmp_path):
    config = write_config(tmp_path, max_train_batch_size=12, micro_batch_sizes=[1])
    home = next(rank["host"] for rank in jobs.report(slow)["ranks"] if rank["rank"] == 0)
    eviction = elastic(config, "--drop-host", home, slow)["eviction"]
    assert (eviction["verdict"], eviction["leaving_gpus"], eviction["next"]["gpus"]) == ("no_straggler", 3, 1)
    assert "'nowhere'" in jobs.commtap("elastic", "-c", config, "--drop-host", "nowhere", slow, codes=(2,)).stderr
