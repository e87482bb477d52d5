# SPDX-License-Identifier: Apache-2.0
#
# Files that are passed to commtap import: whatever they are called, and why one is passed over.
# Must not live here: files that mean harm (test_import_bombs.py).
import gzip
import io
import json
import os
import pickle
import tarfile

import pytest

import jobs
from flight_recorders import entry, flight
from test_import import TRACES, kernel, kineto, run_import


def recorder(**more):
    return {**flight([entry(number) for number in range(1, 4)], "[0, 1]"), **more}


@pytest.mark.parametrize("name", ["trace_{}.pkl", "rank_{}.pickle", "nccl_trace_rank_{}.dump", "rank_{}.txt", "rank_{}.v2.bin",
                                  "nccl_trace_rank_{}.gz", "nccl_trace_rank_{}.pkl.gz", "node7.lan_{}"])
def test_flight_recorders_of_any_name(name, tmp_path):
    (tmp_path / "log").mkdir()
    for rank in range(2):
        data = pickle.dumps(recorder(), 2)
        (tmp_path / "log" / name.format(rank)).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    said = run_import(tmp_path / "log", "-o", tmp_path / "out")
    assert "2 of 2 ranks, 6 operations" in said.stdout and said.stderr == ""
    run_import(*sorted((tmp_path / "log").iterdir()), "-o", tmp_path / "named")
    assert [path.name for path in sorted((tmp_path / "named").iterdir())] == [
        path.name for path in sorted((tmp_path / "out").iterdir())]


def test_a_recorder_whose_rank_nothing_tells(tmp_path):
    for name in "AB":
        (tmp_path / f"dump{name}").write_text(json.dumps(recorder()))
    said = run_import(tmp_path / "dumpA", tmp_path / "dumpB", "-o", tmp_path / "out", code=3).stderr
    assert "dumpB: nothing in it that can be imported: a flight recorder, and nothing tells of which rank" in said
    for rank, name in enumerate("AB"):
        (tmp_path / f"dump{name}").write_text(json.dumps(recorder(rank=rank)))
    assert "2 of 2 ranks" in run_import(tmp_path / "dumpA", tmp_path / "dumpB", "-o", tmp_path / "told").stdout


SENSE = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {}}


@pytest.mark.parametrize("data, reason", [
    (json.dumps(kineto(0, 1, [SENSE])), "a PyTorch profiler trace without a kernel or a copy of a GPU"),
    (json.dumps(flight([], "x") | {"pg_config": None, "entries": {"a": {}}}), "a flight recorder without entries"),
    (json.dumps({"lr": {"value": 0.1}}), "neither a trace of the PyTorch profiler, nor a flight recorder, nor a time line"),
    ("", "the file is empty"), (" \n", "the file is empty"), (gzip.compress(b"", mtime=0), "the file is empty")])
def test_what_is_passed_over_is_told_why(data, reason, tmp_path):
    path = tmp_path / "rank_0.json"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    said = run_import(path, "-o", tmp_path / "out", code=3).stderr
    assert f"{path}: " in said and reason in said


def test_half_a_file_is_told_once(tmp_path):
    events = [kernel("ncclDevKernel_AllReduce_Sum_f32(x)", 1000 * i, 50) for i in range(1, 400)]
    for rank in range(2):
        data = gzip.compress(json.dumps(kineto(rank, 2, events)).encode())
        (tmp_path / f"rank{rank}.json.gz").write_bytes(data[:len(data) // (1 + rank)])
    said = run_import(tmp_path / "rank0.json.gz", tmp_path / "rank1.json.gz", "-o", tmp_path / "out")
    assert said.stderr.count("\n") == 1 and "fd:" not in said.stderr
    assert said.stderr.startswith(f"commtap import: {tmp_path / 'rank1.json.gz'}: at byte ")
    assert "left out: 1 documents" in said.stdout


def packed_of(given, folder, *, cut=0, twice=False, outer=""):
    """The files of a tar archive in another one, each compressed for itself; `cut`: so many bytes less of the first."""
    folder.mkdir()
    with tarfile.open(given) as all_of_it, tarfile.open(folder / f"all.tar{outer}", "w:gz" if outer else "w") as tar:
        for number, member in enumerate(one for one in all_of_it if one.isfile()):
            text = all_of_it.extractfile(member).read()
            half = len(text) // 2 if twice else len(text)
            data = gzip.compress(text[:half]) + (gzip.compress(text[half:]) if twice else b"")
            data = data[:-cut] if cut and number == 0 else data
            info = tarfile.TarInfo(member.name + ".gz")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return folder / f"all.tar{outer}"


@pytest.mark.parametrize("how", [{}, {"twice": True}, {"outer": ".gz"}])
def test_compressed_files_in_an_archive(how, tmp_path):
    """Gzip allows several compressed streams in a row; an archive of compressed files may be compressed once more."""
    given = os.path.join(TRACES, "dlrm_kineto.tar.gz")
    jobs.commtap("import", given, "-o", tmp_path / "plain")
    jobs.commtap("import", packed_of(given, tmp_path / "packed", **how), "-o", tmp_path / "packed" / "dumps")
    plain, packed = (jobs.document("summary", where) for where in (tmp_path / "plain", tmp_path / "packed" / "dumps"))
    assert plain["summary"] and packed["summary"] == plain["summary"]


@pytest.mark.parametrize("cut", [1, 9, 1000])
def test_a_compressed_file_in_an_archive_that_ends_early(cut, tmp_path):
    given = os.path.join(TRACES, "dlrm_kineto.tar.gz")
    done = jobs.commtap("import", packed_of(given, tmp_path / "packed", cut=cut), "-o", tmp_path / "dumps", codes=(0, 1, 3))
    assert "unexpected end of file" in done.stderr and ".gz" in done.stderr
