# SPDX-License-Identifier: Apache-2.0
#
# commtap links on real jobs: what a program says it sent, and the waits that report has.
# Must not live here: single figures (test/unit/test_link_table.c), who is slow (test_stragglers.py).
import csv
import io
import json
import os
import resource
import signal
import subprocess

import pytest

import jobs

RANKS = 4
STEPS = 30
BYTES = 2048  # of each message of test/programs/exchange.c


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """Synchronous sends around a ring; rank 2 is slow."""
    where = tmp_path_factory.mktemp("links") / "ring"
    jobs.run("openmpi", RANKS, [jobs.program("openmpi", "exchange"), "ring", str(STEPS), "2", "3", "1"], where)
    return where


def links(where, *words):
    return json.loads(jobs.commtap("links", *words, "--format", "json", where).stdout)


def test_every_message_is_on_its_link(ring):
    document = links(ring)
    rows = {(row["from"], row["to"]): row for row in document["links"]}
    assert set(rows) == {(rank, (rank + 1) % RANKS) for rank in range(RANKS)}
    assert {row["messages"] for row in rows.values()} == {STEPS}
    assert {row["bytes"] for row in rows.values()} == {STEPS * BYTES}
    assert {row["type"] for row in rows.values()} == {"host"}
    assert document["messages_matched"] == sum(row["messages_matched"] for row in rows.values()) == RANKS * STEPS
    assert document["totals_complete"]


def test_waits_are_those_of_the_ranks(ring):
    ranks = json.loads(jobs.commtap("report", "--format", "json", ring).stdout)["ranks"]
    rows = links(ring)["links"]
    for rank in ranks:
        sender = sum(row["late_sender_seconds"] for row in rows if row["to"] == rank["rank"])
        receiver = sum(row["late_receiver_seconds"] for row in rows if row["from"] == rank["rank"])
        assert sender == pytest.approx(rank["late_sender_seconds"], abs=1e-9)
        assert receiver == pytest.approx(rank["late_receiver_seconds"], abs=1e-9)
    assert sum(row["wait_seconds"] for row in rows) > 0


def test_all_forms_have_the_same_rows_for_any_number_of_threads(ring):
    document = links(ring)["links"]
    assert links(ring, "--threads", "1")["links"] == document
    table = list(csv.DictReader(io.StringIO(jobs.commtap("links", "--format", "csv", ring).stdout)))
    assert [(row["from"], row["to"], row["bytes"], row["method"]) for row in table] == [
        (str(row["from"]), str(row["to"]), str(row["bytes"]), row["method"]) for row in document]
    text = jobs.commtap("links", ring).stdout
    assert text.startswith("bytes of messages, from rank (down) to rank (across)\n")
    assert [line.split()[:3] for line in text.splitlines() if line.startswith("messages ")] == [
        ["messages", str(row["from"]), str(row["to"])] for row in document]


def test_hosts_ranks_and_the_top_are_as_asked(ring):
    host = links(ring, "--by", "host")["links"]
    assert [(row["from"], row["messages"], row["bytes"]) for row in host] == [
        (None, RANKS * STEPS, RANKS * STEPS * BYTES)]
    assert {(row["from"], row["to"]) for row in links(ring, "--rank", "1")["links"]} == {(0, 1), (1, 2)}
    top = links(ring, "--top", "1", "--sort", "to")
    assert (top["links_found"], [row["to"] for row in top["links"]]) == (RANKS, [RANKS - 1])
    for wrong in (["--top", "0"], ["--top", "x"], ["--sort", "nothing"]):
        jobs.commtap("links", *wrong, ring, codes=(2,))


def limit_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))


def test_a_file_keeps_what_was_there_until_the_new_one_is_complete(ring, tmp_path):
    path, link = tmp_path / "links.csv", tmp_path / "link"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path)
    done = subprocess.run([jobs.COMMTAP, "links", "--format", "csv", "-o", path, ring], capture_output=True, text=True,
                          preexec_fn=limit_files)
    assert done.returncode == 4 and str(path) in done.stderr
    assert path.read_text() == "before" and sorted(os.listdir(tmp_path)) == ["link", "links.csv"]
    for name in (path, link):
        jobs.commtap("links", "--format", "csv", "-o", name, ring)
        assert path.read_text().startswith("kind,from,to,") and path.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink() and sorted(os.listdir(tmp_path)) == ["link", "links.csv"]
    new = tmp_path / "new"
    subprocess.run(["sh", "-c", f"umask 027; {jobs.COMMTAP} links -o {new} {ring}"], check=True)
    assert new.stat().st_mode & 0o777 == 0o640
    jobs.commtap("links", "-o", "/dev/null", ring)
    assert "No space left" in jobs.commtap("links", "-o", "/dev/full", ring, codes=(4,)).stderr


def test_collectives_alone_are_an_estimate_without_times(tmp_path):
    where = tmp_path / "train"
    jobs.run("openmpi", 3, [jobs.program("openmpi", "train"), "--steps", "20"], where)
    document = links(where)
    sums = {row["op"]: row["bytes_total"]
            for row in json.loads(jobs.commtap("summary", "--by", "op", "--format", "json", where).stdout)["summary"]}
    assert {(row["from"], row["to"]) for row in document["links"]} == {(0, 1), (1, 2), (2, 0)}
    for row in document["links"]:
        assert (row["kind"], row["method"], row["unmeasured"]) == ("collectives", "estimated", "algorithm")
        assert row["bytes"] == pytest.approx(2 * 2 / 3 * sums["MPI_Allreduce"] / 3, abs=2)
        assert row["transfer_seconds"] is row["bandwidth_gb_per_s"] is row["wait_seconds"] is None
    assert [(row["op"], row["reason"]) for row in document["left_out"]] == [("MPI_Bcast", "root")]
