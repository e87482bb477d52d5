# SPDX-License-Identifier: Apache-2.0
#
# commtap export --format sqlite: the figures of the reports, readable by whoever reads SQLite, whole or not at all.
# Must not live here: what figures mean.
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess

import pytest

import jobs

TABLES = {"runs", "hosts", "ranks", "operations", "sites", "site_waits", "links", "steps", "waits", "findings",
          "communicators", "functions", "records", "stacks", "collectives", "messages", "documentation"}
RENAMED = {"from": "from_rank", "to": "to_rank"}


def export(where, path, *words, **how):
    return jobs.commtap("export", "--format", "sqlite", "-o", path, *words, where, **how)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """Dumps of a job of collectives and one of messages, and a database of each."""
    base = tmp_path_factory.mktemp("database")
    if "sqlite" in export(base / "no-dumps", base / "no.db", codes=(3, 4)).stderr:
        pytest.skip("this commtap was built without SQLite")
    jobs.run("openmpi", 3, [jobs.program("openmpi", "train"), "--steps", "40", "--slow-rank", "1", "--slow-ms", "3"],
             base / "train")
    jobs.run("openmpi", 4, [jobs.program("openmpi", "exchange"), "ring", "20"], base / "ring")
    for name in ("train", "ring"):
        export(base / name, base / f"{name}.db")
    return base


def rows(path, query):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(query)]
    finally:
        connection.close()


def document(where, *words):
    return json.loads(jobs.commtap(*words, "--format", "json", where).stdout)


def plain(entries):
    """Rows of JSON as SQLite has them."""
    return [{RENAMED.get(key, key): int(value) if isinstance(value, bool) else value for key, value in entry.items()}
            for entry in entries]


def same(entries, expected):
    assert len(entries) == len(expected) > 0
    for entry, wanted in zip(entries, expected):
        assert set(entry) == set(wanted)
        for key, value in wanted.items():
            assert entry[key] == pytest.approx(value, rel=1e-12) if isinstance(value, float) else entry[key] == value, key


@pytest.mark.parametrize("name", ["train", "ring"])
def test_figures_are_those_of_the_reports(scene, name):
    where, path = scene / name, scene / f"{name}.db"
    report = document(where, "report")
    same(rows(path, "SELECT * FROM ranks"), plain(report["ranks"]))
    same(rows(path, "SELECT * FROM operations"), plain(report["summary"]))
    same(rows(path, "SELECT severity, code, text FROM findings"),
         [{key: finding[key] for key in ("severity", "code", "text")} for finding in report["findings"]])
    same(rows(path, "SELECT * FROM links"), plain(document(where, "links")["links"]))
    same(rows(path, "SELECT * FROM site_waits"), plain(report["sites"]))
    run = rows(path, "SELECT * FROM runs")[0]
    for key in ("run_id", "wall_seconds", "ranks_seen", "events", "command"):
        assert run[key] == pytest.approx(report["job"][key]) if key == "wall_seconds" else run[key] == report["job"][key]
    coverage = report["coverage"]
    assert rows(path, "SELECT count(*) AS n FROM messages")[0]["n"] == coverage["messages_matched"]
    assert rows(path, "SELECT count(*) AS n FROM collectives WHERE complete")[0]["n"] == coverage["collectives_matched"]
    steps = document(where, "steps", "--by", "both")["rows"]
    assert len(rows(path, "SELECT * FROM steps")) == len(steps)
    if steps:
        same(rows(path, "SELECT * FROM steps"), plain(steps))


def test_records_are_those_of_the_other_formats(scene):
    lines = jobs.commtap("export", "--format", "jsonl", scene / "ring").stdout.splitlines()
    expected = [json.loads(line) for line in lines]
    keys = ("rank", "op", "comm", "kind", "lane", "seq", "operation", "peer_rank", "tag", "bytes", "duration_ns", "send")
    entries = rows(scene / "ring.db", "SELECT * FROM calls ORDER BY id")
    order = lambda row: (row["rank"], row["lane"], row["start_ns"], str(row["op"]), row["duration_ns"], str(row["seq"]))
    assert len(entries) == len(expected) > 100
    for entry, wanted in zip(sorted(entries, key=order), sorted(expected, key=order)):
        assert {key: entry[key] for key in keys} == {
            key: int(wanted[key]) if key == "send" else wanted[key] for key in keys}
        assert entry["end_ns"] - entry["start_ns"] == pytest.approx(wanted["end_ns"] - wanted["start_ns"], abs=50, rel=1e-4)
    assert {entry["site"] for entry in entries if entry["op"] == "MPI_Ssend"} != {None}


def test_every_table_is_documented_and_holds_what_it_declares(scene):
    for path in (scene / "train.db", scene / "ring.db"):
        tables = {row["name"] for row in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert tables == TABLES
        told = {(row["table_name"], row["column_name"]) for row in rows(path, "SELECT * FROM documentation")}
        views = {row["name"] for row in rows(path, "SELECT name FROM sqlite_master WHERE type = 'view'")}
        assert views == {"calls"} and {table for table, _ in told} == (tables | views) - {"documentation"}
        assert all(row["meaning"] for row in rows(path, "SELECT * FROM documentation"))
        for table in (tables | views) - {"documentation"}:
            columns = rows(path, f"SELECT * FROM pragma_table_info('{table}')")
            assert {(table, column["name"]) for column in columns} == {pair for pair in told if pair[0] == table}
            if table in views:
                continue
            for column in columns:
                types = {row["t"] for row in rows(path, f'SELECT DISTINCT typeof({column["name"]}) AS t FROM {table}')}
                assert types <= {column["type"].lower(), "null"}, (table, column["name"])
        assert rows(path, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]


def questions():
    text = (jobs.ROOT / "README.md").read_text().split("```sql\n")[1].split("```")[0]
    return [part.strip() for part in re.split(r"^-- \d+\. .*$", text, flags=re.M) if part.strip()]


def test_the_ten_questions_have_answers(scene):
    assert len(questions()) == 10
    for number, query in enumerate(questions(), 1):
        assert rows(scene / "train.db", query) or rows(scene / "ring.db", query), number
    slow = rows(scene / "train.db", questions()[0])
    assert slow[0]["rank"] == 1
    assert [row["bytes"] for row in rows(scene / "ring.db", questions()[9])] == [2048]


def test_what_is_no_step_of_all_ranks_is_no_answer(scene, tmp_path):
    """Stretches of ranks whose steps are not alike have no number."""
    path = tmp_path / "odd.db"
    shutil.copy(scene / "train.db", path)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO steps (rank, step, step_seconds) VALUES (0, NULL, 1000), (1, NULL, 2000)")
    connection.close()
    wanted = rows(scene / "train.db", questions()[8])
    assert rows(path, questions()[8]) == wanted and len(wanted) == 5


def test_others_read_it_alike(scene):
    jobs.need("sqlite3")
    query = "SELECT rank, waited_for_seconds FROM ranks ORDER BY rank"
    wanted = [(row["rank"], row["waited_for_seconds"]) for row in document(scene / "train", "report")["ranks"]]
    shell = subprocess.run(["sqlite3", "-json", scene / "train.db", query], capture_output=True, text=True, check=True)
    assert [tuple(row.values()) for row in json.loads(shell.stdout)] == pytest.approx(wanted)


def test_pandas_reads_it(scene):
    pandas = pytest.importorskip("pandas")
    with sqlite3.connect(scene / "train.db") as connection:
        frame = pandas.read_sql("SELECT * FROM ranks", connection)
    wanted = [row["waited_for_seconds"] for row in document(scene / "train", "report")["ranks"]]
    assert list(frame["waited_for_seconds"]) == pytest.approx(wanted)


def test_only_commtaps_own_files_are_overwritten(scene, tmp_path):
    theirs, other, ours = tmp_path / "notes.txt", tmp_path / "other.db", tmp_path / "ours.db"
    theirs.write_text("mine")
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    for path in (theirs, other):
        before = path.read_bytes()
        assert "--force" in export(scene / "ring", path, codes=(4,)).stderr
        assert path.read_bytes() == before
    export(scene / "ring", theirs, "--force")
    assert rows(theirs, "SELECT count(*) AS n FROM runs") == [{"n": 1}]
    export(scene / "train", ours)
    export(scene / "ring", ours)
    assert rows(ours, "SELECT ranks_seen FROM runs") == [{"ranks_seen": 4}]
    for path in (tmp_path, "/dev/null"):
        export(scene / "ring", path, "--force", codes=(4,))
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "other.db", "ours.db"]


def test_a_dash_is_standard_output_and_a_link_to_nothing_stays(scene, tmp_path, monkeypatch):
    where, link = scene / "ring", tmp_path / "link"
    link.symlink_to(tmp_path / "none" / "file")
    wanted = jobs.commtap("export", where).stdout
    monkeypatch.chdir(tmp_path)
    assert jobs.commtap("export", "-o", "-", where).stdout == wanted
    assert "name it with -o" in export(where, "-", codes=(2,)).stderr
    for format in ("csv", "sqlite"):
        refused = jobs.commtap("export", "--format", format, "-o", link, where, codes=(4,))
        assert "is a link to a file that is not there" in refused.stderr and link.is_symlink()
    assert os.listdir(tmp_path) == ["link"]


def test_a_database_that_is_open_elsewhere_stays(scene, tmp_path):
    path = tmp_path / "job.db"
    export(scene / "train", path)
    with sqlite3.connect(path) as viewer:
        viewer.execute("PRAGMA journal_mode = WAL")
        viewer.execute("CREATE TABLE note (text)")
        viewer.commit()
        before = path.read_bytes()
        refused = export(scene / "ring", path, "--force", codes=(4,))
        assert "job.db-wal" in refused.stderr and path.read_bytes() == before
    viewer.close()
    export(scene / "ring", path)
    assert rows(path, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]


def test_a_file_that_cannot_grow_leaves_the_old_one(scene, tmp_path):
    path = tmp_path / "job.db"
    export(scene / "train", path)
    before = path.read_bytes()

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, len(before) // 2))

    done = subprocess.run([jobs.COMMTAP, "export", "--format", "sqlite", "-o", path, scene / "train"],
                          capture_output=True, text=True, preexec_fn=limit)
    assert done.returncode == 4 and str(path) in done.stderr
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["job.db"]


def test_a_full_disk_leaves_the_old_one(scene, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "none", small], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        path = small / "job.db"
        export(scene / "ring", path)
        before = path.read_bytes()
        (small / "filler").write_bytes(bytes(os.statvfs(small).f_bavail * os.statvfs(small).f_bsize - 65536))
        assert "No space left on device" in export(scene / "ring", path, codes=(4,)).stderr
        assert path.read_bytes() == before and sorted(os.listdir(small)) == ["filler", "job.db"]
    finally:
        subprocess.run(["umount", small], check=True)


def test_the_same_database_for_any_number_of_threads(scene, tmp_path):
    for threads in ("1", "4"):
        export(scene / "train", tmp_path / f"{threads}.db", "--threads", threads)
    assert (tmp_path / "1.db").read_bytes() == (tmp_path / "4.db").read_bytes()


@pytest.mark.parametrize("seed", range(4))
def test_damaged_dumps_make_a_sound_database_or_none(scene, tmp_path, seed):
    dice = random.Random(seed)
    where = tmp_path / "dumps"
    shutil.copytree(scene / ("train", "ring")[seed % 2], where)
    for path in jobs.dumps(where):
        content = bytearray(path.read_bytes())
        pages = [page for page in range(0, len(content), 4096) if any(content[page:page + 4096])]
        for _ in range(dice.choice((3, 30, 300))):
            content[min(dice.choice(pages) + dice.randrange(4096), len(content) - 1)] = dice.choice((0, 128, 255, dice.randrange(256)))
        path.write_bytes(content)
    if export(where, tmp_path / "x.db", codes=(0, 3)).returncode == 0:
        assert rows(tmp_path / "x.db", "PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        assert len(rows(tmp_path / "x.db", "SELECT * FROM runs")) == 1


def test_what_does_not_go_together_is_said(scene, tmp_path):
    for words in (["--rank", "1"], ["--from", "1"], ["--table", "records"], ["--op", "all*"]):
        export(scene / "ring", tmp_path / "x.db", *words, codes=(2,))
    jobs.commtap("export", "--format", "sqlite", scene / "ring", codes=(2,))
    empty = tmp_path / "empty"
    empty.mkdir()
    export(empty, tmp_path / "x.db", codes=(3,))
    assert os.listdir(tmp_path) == ["empty"]
