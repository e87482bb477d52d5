# SPDX-License-Identifier: Apache-2.0
#
# Dumps of other versions of the format: every earlier one, as kept in test/corpus/format, and made-up later minor ones,
# whose header, items and sections are longer and more than this version knows.
import gzip
import json
import re
import shutil
import struct

import pytest

import jobs

CORPUS = jobs.ROOT / "test" / "corpus" / "format"
KEPT = sorted(f"{folder.parent.name}/{folder.name}" for folder in CORPUS.glob("*/*/"))
CALLER_OF = {"mpi": "MPI_Allreduce", "nccl": "ncclAllReduce", "polls": "MPI_Test", "region": "MPI_Allreduce",
             "groups": "ncclSend+ncclRecv (all-to-all)", "replays": "ncclAllReduce",
             "budget": "MPI_Allreduce", "fences": "MPI_Win_fence", "epochs": "MPI_Win_post", "orders": "MPI_Allreduce",
             "beats": "MPI_Allreduce", "asks": "MPI_Win_test", "neighbours": "MPI_Neighbor_alltoall",
             "ring": "ncclSend+ncclRecv", "shares": "ncclAllReduce", "captures": "ncclAllReduce"}

# Places in struct dump_header and struct section (shim/format.h).
VERSION, HEADER_BYTES, SECTION_LIMIT, SECTIONS = 8, 16, 1600, 1608
HEADER_END = 6728  # of 1.0
HEADER_BYTES_KNOWN = 8560  # of this version
SECTION = struct.Struct("<IIQQII")  # kind, index, offset, bytes, count, item_bytes
ALIGN = 65536
KINDS_OF_ONE_LENGTH = {6, 7, 9, 17}  # definitions, windows, rings, ring pages: the same within a major version


def unpack(kept, where):
    where.mkdir(exist_ok=True)
    for path in sorted((CORPUS / kept).glob("*.ct.gz")):
        (where / path.name.removesuffix(".gz")).write_bytes(gzip.decompress(path.read_bytes()))
    return where


def sections_of(dump):
    limit = struct.unpack_from("<I", dump, SECTION_LIMIT)[0]
    return [SECTION.unpack_from(dump, SECTIONS + i * SECTION.size) for i in range(limit)]


def major_of(dump):
    return struct.unpack_from("<H", dump, VERSION)[0]


def with_longer_items(dump, minor, more):
    """The dump as a later minor version might write it: `more` bytes that nobody knows behind the header and every
    item, and a section of an unknown kind."""
    header = bytearray(dump[:HEADER_BYTES_KNOWN]) + b"\xee" * more
    struct.pack_into("<I", header, VERSION, major_of(dump) | minor << 16)
    struct.pack_into("<I", header, HEADER_BYTES, HEADER_BYTES_KNOWN + more)
    body = bytearray()
    used = 0
    for i, (kind, index, offset, size, count, item) in enumerate(sections_of(dump)):
        if kind == 0:
            continue
        held = dump[offset:offset + size]
        if kind not in KINDS_OF_ONE_LENGTH:
            held = b"".join(held[at:at + item] + b"\xee" * more for at in range(0, count * item, item))
            item += more
        held += b"\0" * (-len(held) % ALIGN)
        SECTION.pack_into(header, SECTIONS + i * SECTION.size, kind, index, ALIGN + len(body), len(held), count, item)
        body += held
        used = i + 1
    SECTION.pack_into(header, SECTIONS + used * SECTION.size, 97, 0, ALIGN + len(body), ALIGN, 10, 8)
    return bytes(header) + b"\0" * (ALIGN - len(header)) + bytes(body) + b"\xee" * ALIGN


def rewrite(where, change):
    for path in jobs.dumps(where):
        path.write_bytes(change(path.read_bytes()))


def everything(where):
    """What the commands say of the dumps, as JSON; without what names the directory, and without the age of what is seen
    on another machine: there it goes on until now."""
    said = {name: json.loads(jobs.commtap(name, "--format", "json", where).stdout)
            for name in ("summary", "stragglers", "steps", "calls", "diagnose", "report", "check")}
    for row in said["check"]["dumps"]:
        row.pop("format", None)
    text = json.dumps(said).replace(str(where), "DIR")
    text = re.sub(r'"away_seconds": [0-9.]+', '"away_seconds": 0', text)
    return json.loads(re.sub(r"away from the library for \S+ \S+ by now", "away", text))


@pytest.mark.parametrize("kept", KEPT)
def test_a_dump_of_every_version_says_what_it_said_when_it_was_written(kept, tmp_path):
    where = unpack(kept, tmp_path / "dumps")
    expected = json.loads((CORPUS / f"{kept}.summary.json").read_text())
    rows = jobs.summary(where)["summary"]
    assert [{key: row[key] for key in expected[0]} for row in rows] == expected
    assert {row["op"] for row in rows} >= {CALLER_OF[kept.split("/")[1]]}
    check = json.loads(jobs.commtap("check", "--format", "json", where).stdout)
    assert [row["format"] for row in check["dumps"]] == [kept.split("/")[0]] * 2
    assert [row["problems"] for row in check["dumps"]] == [0, 0]


def test_the_slow_rank_of_a_kept_job_is_named(tmp_path):
    for kept in (kept for kept in KEPT if kept.endswith("/nccl")):
        named = jobs.stragglers(jobs.report(unpack(kept, tmp_path / kept.replace("/", "_"))))
        assert [(straggler["kind"], straggler["rank"]) for straggler in named] == [("rank", 1)]


def test_polls_of_a_kept_job_are_read(tmp_path):
    kinds = [row["kind"] for row in jobs.records(unpack("2.2/polls", tmp_path / "dumps"))]
    assert kinds.count("poll") > 50


def test_the_region_of_a_kept_job_is_said(tmp_path):
    said = [finding["text"] for finding in jobs.report(unpack("2.3/region", tmp_path / "dumps"))["findings"]
            if finding["code"] == "region"]
    assert len(said) == 1 and "COMMTAP_REGION=pcontrol" in said[0]


def test_the_pause_of_a_kept_job_is_said(tmp_path):
    where = unpack("2.5/orders", tmp_path / "dumps")
    said, = [finding["text"] for finding in jobs.report(where)["findings"] if finding["code"] == "paused"]
    assert "commtap ctl" in said and "on 2 ranks, 1 time each" in said
    assert "over" in jobs.commtap("ctl", where, "pause", codes=(3,)).stderr


def test_replays_of_a_kept_job_are_matched(tmp_path):
    where = unpack("2.4/replays", tmp_path / "dumps")
    assert [row["kind"] for row in jobs.records(where)].count("replay") > 100
    assert jobs.report(where)["coverage"]["matched_share"] > 0.9


def test_what_the_budget_of_a_kept_job_left_out_is_said(tmp_path):
    report = jobs.report(unpack("2.6/budget", tmp_path / "dumps"))
    assert {"left_out", "over_budget"} <= {finding["code"] for finding in report["findings"]}
    assert [step["ranks"] for step in report["own_cost"]["shed"]] == [0, 2, 2]
    assert report["own_cost"]["calls_measured"] > 0 and report["losses"]["records_shed"] > 10000


def test_fences_of_a_kept_job_are_waited_in(tmp_path):
    report = jobs.report(unpack("2.7/fences", tmp_path / "dumps"))
    assert [(straggler["kind"], straggler["rank"]) for straggler in jobs.stragglers(report)] == [("rank", 1)]
    waits = {row["rank"]: row["wait_at_fence_seconds"] for row in report["ranks"]}
    assert waits[0] > 2 * waits[1]


def test_epochs_of_a_kept_job_are_waited_in(tmp_path):
    report = jobs.report(unpack("2.8/epochs", tmp_path / "dumps"))
    assert [(straggler["kind"], straggler["rank"]) for straggler in jobs.stragglers(report)] == [("rank", 1)]
    waits = {row["rank"]: row["late_post_seconds"] + row["early_wait_seconds"] for row in report["ranks"]}
    assert waits[0] > 2 * waits[1]


def test_neighbours_of_a_kept_job_are_waited_for(tmp_path):
    report = jobs.report(unpack("2.11/neighbours", tmp_path / "dumps"))
    assert [(straggler["kind"], straggler["rank"]) for straggler in jobs.stragglers(report)] == [("rank", 1)]
    waits = {row["rank"]: row["wait_at_neighbours_seconds"] for row in report["ranks"]}
    assert waits[0] > 2 * waits[1]


def test_shares_of_a_kept_job_have_no_bandwidth(tmp_path):
    rows = jobs.summary(unpack("2.13/shares", tmp_path / "dumps"))["summary"]
    assert {row["bytes"] for row in rows if row["shared_times"]} == {320, 360}
    assert all(row["busbw_gb_per_s"] is None for row in rows if row["shared_times"])


def test_who_did_not_launch_a_kept_jobs_graph_is_named(tmp_path):
    result = jobs.document("diagnose", unpack("2.14/captures", tmp_path / "dumps"))
    assert result["verdict"] == "hang" and [row["rank"] for row in result["culprits"]] == [1]
    assert "having launched CUDA graphs with ncclAllReduce" in result["culprits"][0]["reason"]


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("more", [8, 24, 136])
def test_a_later_minor_version_says_the_same(kept, more, tmp_path):
    where = unpack(kept, tmp_path / "dumps")
    before = everything(where)
    rewrite(where, lambda dump: with_longer_items(dump, 19, more))
    assert everything(where) == before
    check = json.loads(jobs.commtap("check", "--format", "json", where).stdout)
    version = kept.split(".")[0] + ".19"
    assert {row["format"] for row in check["dumps"]} == {version}
    assert version in jobs.commtap("check", where).stdout


def test_an_unknown_section_is_a_problem_where_the_version_is_known(tmp_path):
    where = unpack("1.0/mpi", tmp_path / "dumps")
    rewrite(where, lambda dump: with_longer_items(dump, 0, 8))
    assert "section of unknown kind 97" in jobs.commtap("check", where, codes=(1,)).stdout


@pytest.mark.parametrize("version, named", [(3, "3.0"), (3 | 5 << 16, "3.5"), (0, "0.0")])
def test_another_major_version_is_refused_with_its_number(version, named, tmp_path):
    where = unpack("1.0/mpi", tmp_path / "dumps")
    rewrite(where, lambda dump: dump[:VERSION] + struct.pack("<I", version) + dump[VERSION + 4:])
    said = jobs.commtap("report", where, codes=(3,)).stderr
    assert f"format version {named}, this commtap reads versions 1.x to 2.x" in said
    assert f"offset {VERSION}" in said


@pytest.mark.parametrize("kind, item", [(10, 760), (3, 56), (9, 72), (7, 4104), (1, 0), (17, 4080)])
def test_items_that_no_version_writes_are_left_out(kind, item, tmp_path):
    """Shorter than in format 1.0, or of another length where the length is fixed."""
    def spoil(dump):
        spoilt = bytearray(dump)
        for i, section in enumerate(sections_of(dump)):
            if section[0] == kind:
                SECTION.pack_into(spoilt, SECTIONS + i * SECTION.size, *section[:5], item)
        return bytes(spoilt)

    where = unpack("2.0/mpi" if kind == 17 else "1.0/mpi", tmp_path / "dumps")
    rewrite(where, spoil)
    assert f"items of {item} bytes" in jobs.commtap("check", where, codes=(1,)).stdout


def test_a_truncated_dump_of_a_later_version_gives_what_is_left(tmp_path):
    whole = unpack("1.0/nccl", tmp_path / "whole")
    rewrite(whole, lambda dump: with_longer_items(dump, 1, 24))
    length = min(path.stat().st_size for path in jobs.dumps(whole))
    for share in (3, 6, 9):
        where = tmp_path / f"cut{share}"
        shutil.copytree(whole, where)
        rewrite(where, lambda dump, share=share: dump[:length * share // 10])
        jobs.commtap("report", where)
