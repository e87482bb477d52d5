# SPDX-License-Identifier: Apache-2.0
#
# doc/GLOSSARY.md: every heading and every key of commtap's output has an entry there, and no entry is of something gone.
# Must not live here: what keys mean and whether documents have them (test_schema.py).
import json
import pathlib
import re

import pytest

import jobs

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Documents in the form of other programs, with their words.
OTHERS = ("deepspeed", "commdebug")
TABLES = [["report"], ["stragglers"], ["steps"], ["steps", "--by", "both"], ["summary"], ["summary", "--transfers"],
          ["summary", "--by", "op,rank"], ["summary", "--by", "site"], ["diff", "--all"], ["check"], ["links"], ["links", "--by", "host"]]
# What a row of a table of columns begins with: its key, its heading, how it looks.
COLUMN = re.compile(r'^    \{"([a-z0-9_]+)", (?:"([^"]+)"|NULL),? (?:LOOK_\w+|\.\w+)', re.MULTILINE)


def section(title):
    """The first cells of the rows of a section's table, its heading and rule left out."""
    text = (ROOT / "doc" / "GLOSSARY.md").read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")][2:]


def keys_of(document):
    if isinstance(document, dict):
        return set(document) | set().union(*map(keys_of, document.values()))
    return set().union(*map(keys_of, document)) if isinstance(document, list) else set()


def declared_keys():
    """The keys that the schema declares."""
    def walk(schema):
        if isinstance(schema, dict):
            properties = schema.get("properties", {})
            return set(properties) | set().union(*map(walk, schema.values()))
        return set().union(*map(walk, schema)) if isinstance(schema, list) else set()

    definitions = json.loads((ROOT / "doc" / "commtap.schema.json").read_text())["$defs"]
    return set().union(*(walk(part) for name, part in definitions.items() if not name.startswith(OTHERS)))


def columns():
    """{heading} and {key} of all tables of columns in the sources."""
    rows = [row for folder in ("render", "screen", "commands", "file_commands") for path in (ROOT / "analyzer" / folder).glob("*.c")
            for row in COLUMN.findall(path.read_text())]
    assert len(rows) > 100  # the pattern still fits how they are written
    return {heading for _, heading in rows if heading}, {key for key, _ in rows}


def headings():
    return {heading for cell in section("Headings of the tables") for heading in cell.split(", ")}


def keys():
    return {key for cell in section("JSON and CSV keys") for key in re.findall(r"`(\w+)`", cell)}


def test_every_key_has_an_entry_and_no_entry_is_stale():
    assert declared_keys() == keys()


def test_every_heading_has_an_entry_and_no_entry_is_stale():
    told, known = headings(), columns()
    assert known[0] <= told and told - known[0] <= known[1]


def test_entries_are_in_order_and_single():
    cells = [cell.strip("`") for cell in section("JSON and CSV keys")]
    assert cells == sorted(set(cells))


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    where = tmp_path_factory.mktemp("glossary") / "dumps"
    jobs.run("openmpi", 4, [jobs.program("openmpi", "train"), "--steps", "40", "--slow-rank", "1", "--slow-ms", "5"], where)
    return where


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_what_is_printed_has_entries(train, words):
    directories = [train, train] if words[0] == "diff" else [train]
    lines = jobs.commtap(*words, *directories).stdout.splitlines()
    cells = [re.split(r"  +", line.strip()) for line in lines]
    # headings are words; every other line of three cells has figures
    heads = [head for head in cells if len(head) > 2 and not re.search(r"\d", " ".join(set(head) - {"p50", "p99"}))]
    assert heads
    for head in heads:
        assert set(head) <= headings()


@pytest.mark.parametrize("words", [["report"], ["summary"], ["stragglers"], ["steps"], ["calls"], ["diagnose"], ["check"], ["diff"], ["links"]],
                         ids=" ".join)
def test_what_is_written_has_entries(train, words):
    directories = [train, train] if words[0] == "diff" else [train]
    document = json.loads(jobs.commtap(*words, "--format", "json", *directories).stdout)
    functions = {key for key in keys_of(document) if key.startswith("MPI_")}  # of calls: sums by function
    assert keys_of(document) - functions <= keys()
