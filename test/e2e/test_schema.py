# SPDX-License-Identifier: Apache-2.0
#
# doc/commtap.schema.json itself: that it is a schema, is complete, says what each key means, keeps what was promised,
# and that its strict form misses nothing. That commtap's documents meet it is seen by every test that reads one (jobs.py).
import copy
import json
import os
import random
import re
import shutil
import struct
import subprocess

import pytest

import jobs
import schema

EVERY = {
    "report": ["report"], "summary": ["summary"], "stragglers": ["stragglers"], "steps": ["steps", "--by", "both"],
    "calls": ["calls", "--noise", "3", "--waits"], "diagnose": ["diagnose", "--op", "*"], "top": ["top"], "ctl": ["ctl"],
    "diff": ["diff"],
    "check": ["check"], "list": ["list"], "doctor": ["doctor"], "env": ["env"],
    "elastic": ["elastic", "-c", str(jobs.ROOT / "test" / "data" / "ds_config_elastic.json")], "links": ["links"],
    "export_record": ["export", "--format", "jsonl"],
    "export_operation": ["export", "--format", "jsonl", "--table", "operations"],
    "export_peer": ["export", "--format", "jsonl", "--table", "peers"],
    "export_transfer": ["export", "--format", "jsonl", "--table", "transfers"],
    "export_communicator": ["export", "--format", "jsonl", "--table", "communicators"],
    "deepspeed": ["summary", "--compat", "deepspeed"],
    "commdebug": ["calls", "--format", "commdebug", "--noise", "1"],
}
# Promised to those who read the documents: these keys may never go, nor may their meaning change.
FROZEN = {
    "report": """schema
        job: run_id ranks_expected ranks_seen hosts generations wall_seconds events events_lost clock_error_us
        coverage: from_seconds to_seconds matched_share
        summary: api op comm comm_name comm_size bytes count bytes_total time_total_us time_avg_us time_min_us
            time_max_us time_p50_us time_p95_us time_p99_us algbw_gbps busbw_gbps algbw_gb_per_s busbw_gb_per_s source
        ranks: rank host comm_seconds wait_seconds imposed_wait_seconds waited_for_seconds window_seconds self_ratio
        stragglers: kind rank ranks host hosts link imposed_wait_seconds waited_for_seconds slowdown_ratio persistence
            confidence what_if_speedup evidence
        stragglers.link: src dst
        findings: severity code text""",
    "diagnose": """schema verdict
        collectives: comm seq op entered missing
        cycle: rank waits_for op tag comm
        culprits: rank host state where reason""",
    "calls": """schema
        root: name file line kind count time_us bytes ops children
        root.ops: count bytes time_us""",
    "summary": "schema",
    "stragglers": "schema",
    "steps": "schema",
    "diff": "schema",
}
FROZEN_VALUES = {
    ("straggler", "kind"): "rank host link role rotating",
    ("summary_row", "api"): "mpi nccl",
    ("summary_row", "source"): "gpu-event in-kernel host inferred",
    ("diagnose", "verdict"): "ok hang desync deadlock dead_rank unknown",
    ("culprit", "state"): "never_entered blocked mismatch dead no_dump in_user_code finalised",
    ("call_node", "kind"): "native python nvtx root",
}
PAGE = 4096
OFFSET_OF_RANK = 108  # in struct dump_header (shim/format.h)
# What the end of a key says of its unit, and its description, too.
UNITS = {"_seconds": "(s)", "_ms": "(ms)", "_us": "(us)", "_ns": "(ns)", "_gbps": "(Gbit/s)",
         "_gb_per_s": "(1e9 bytes/s)", "_share": "(0 to 1)", "_ratio": "(ratio)", "bytes": "(bytes)",
         "bytes_total": "(bytes)", "confidence": "(0 to 1)", "persistence": "(0 to 1)"}


@pytest.fixture(autouse=True)
def validator():
    jobs.need("python3-jsonschema")


def definitions():
    return schema.published()["$defs"]


def properties():
    return [(name, key, value) for name, definition in definitions().items()
            for key, value in definition["properties"].items()]


def test_it_is_a_schema():
    schema.jsonschema.Draft202012Validator.check_schema(schema.published())
    listed = [entry["$ref"].removeprefix("#/$defs/") for entry in schema.published()["anyOf"]]
    assert listed == list(EVERY)


def test_every_key_has_a_type_and_a_meaning():
    for name, key, value in properties():
        assert ("type" in value) != ("$ref" in value), (name, key)
        assert 4 < len(value["description"]) <= 110 and "\n" not in value["description"], (name, key)
        assert None in value.get("enum", [None]) or "null" not in value["type"], (name, key)
        for end, unit in UNITS.items():
            if key.endswith(end) and value.get("type") not in ("boolean", "object") and "enum" not in value:
                assert value["description"].endswith(unit) or value.get("type") == "array", (name, key)


def commands():
    listed = jobs.commtap("--help").stdout.partition("commands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  (\w+)", listed, re.M)


def test_every_command_that_prints_json_has_its_document():
    assert {"run", "report", "import", "env"} <= set(commands())
    expected = set()
    for command in commands():
        text = re.sub(r"\n {20,}", " ", jobs.commtap(command, "--help").stdout)  # an option's lines as one
        choices = dict(re.findall(r"^  +--(\w+) [A-Z]+ +.*?([\w|]*\|[\w|]*)", text, re.M))
        forms = choices.get("format", "").split("|")
        if "json" in forms:
            expected.add(command)
        if "commdebug" in forms:
            expected.add("commdebug")
        if "jsonl" in forms:
            expected |= {f"export_{table.removesuffix('s')}" for table in choices["table"].split("|")}
        if "deepspeed" in text.partition("--compat ")[2]:
            expected.add("deepspeed")
    assert expected == set(EVERY)
    for name in expected:
        declared = definitions()[name]["properties"].get("schema")
        own = name in commands()
        assert (declared is not None) == own and (not own or declared["const"] == f"commtap.{name}/1"), name


def target(value):
    """What a property holds, or each element of it: references, arrays and maps followed."""
    while True:
        if "$ref" in value:
            value = definitions()[value["$ref"].removeprefix("#/$defs/")]
        elif value.get("type") == "array":
            value = value["items"]
        elif isinstance(value.get("additionalProperties"), dict):
            value = value["additionalProperties"]
        else:
            return value


def frozen(text):
    """(path of the object, key) of each line `path: key key`, the first line being of the document itself."""
    path = ""
    for word in text.split():
        if word.endswith(":"):
            path = word[:-1]
            yield "".join(path.rpartition(".")[:1]), path.rpartition(".")[2]
        else:
            yield path, word


@pytest.mark.parametrize("name", FROZEN)
def test_what_was_promised_is_still_there(name):
    for path, key in frozen(FROZEN[name]):
        value = definitions()[name]
        for part in filter(None, path.split(".")):
            value = target(value["properties"][part])
        assert key in value["properties"] and key in value["required"], f"{name}: {path}.{key}"


def test_promised_values_are_still_there():
    for (name, key), values in FROZEN_VALUES.items():
        assert set(values.split()) <= set(definitions()[name]["properties"][key]["enum"]), (name, key)


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Dumps of a job in which a rank is slow."""
    where = tmp_path_factory.mktemp("schema") / "train"
    jobs.run("openmpi", 3, [jobs.program("openmpi", "train"), "--slow-rank", "1", "--slow-ms", "2"], where)
    return where


def outputs(where, **codes):
    """(definition, text) of each document of these dumps; jobs.commtap checks it."""
    for name, words in EVERY.items():
        words = words if "--format" in words else [*words, "--format", "json"]
        directories = {"diff": [where, where], "doctor": [], "env": []}.get(name, [where])
        yield name, jobs.commtap(*words, *directories, **codes).stdout


def run_over_network(folder):
    """Dumps of two ranks of NCCL whose proxies were timed: they pass for two hosts."""
    folder.mkdir()
    ranks = [subprocess.Popen(
        [jobs.BUILD / "test" / "timing" / "ranks", "streams", str(rank), "2", folder / "id"], stdout=subprocess.DEVNULL,
        env={**jobs.clean_environment(), "LD_LIBRARY_PATH": str(jobs.BUILD / "standin"), "STANDIN_DEVICES": "2",
             "STANDIN_HOSTS": "2", "COMMTAP_GPU_TIMING": "kernel", "RANK": str(rank), "WORLD_SIZE": "2",
             "LD_PRELOAD": str(jobs.SHIM), "COMMTAP_DIR": str(folder / "dumps")}) for rank in range(2)]
    assert [rank.wait(timeout=60) for rank in ranks] == [0, 0]
    return folder / "dumps"


@pytest.fixture(scope="module")
def samples(train, tmp_path_factory):
    """A document of every kind."""
    pipeline = tmp_path_factory.mktemp("schema") / "pipeline"
    jobs.commtap("import", jobs.ROOT / "test" / "data" / "traces" / "straggler-ST.json.gz", "-o", pipeline)
    network = run_over_network(tmp_path_factory.mktemp("schema") / "network")
    over = {"codes": (0, 3)}  # what ctl says of jobs of which nobody runs any more
    texts = {**dict(outputs(train, **over)), "export_peer": dict(outputs(pipeline, **over))["export_peer"],
             "export_transfer": jobs.commtap(*EVERY["export_transfer"], network).stdout}
    return {name: next(iter(schema.documents(name, text))) for name, text in texts.items()}


def shortened(value):
    """The same document with one object in place of many alike."""
    if isinstance(value, dict):
        return {key: shortened(part) for key, part in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [shortened(value[0])]
    return value


def places(value, path=()):
    """Where something can be changed in a document: every key, every element."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []:
        yield (*path, key)
        yield from places(part, (*path, key))


def changed(document, path, change):
    copied = copy.deepcopy(document)
    parent = copied
    for key in path[:-1]:
        parent = parent[key]
    change(parent, path[-1])
    return copied


def put_nonsense(parent, key):
    parent[key] = [[[]]]


def add_a_key(parent, key):
    if isinstance(parent[key], dict):
        parent[key]["undeclared"] = 0


@pytest.mark.parametrize("name", EVERY)
def test_nothing_undeclared_and_no_wrong_type_passes(samples, name):
    document = shortened(samples[name])
    schema.check_document(name, document)
    tried = 0
    with pytest.raises(AssertionError, match="undeclared"):
        schema.check_document(name, {**document, "undeclared": 0})
    for path in places(document):
        for change in put_nonsense, add_a_key:
            wrong = changed(document, path, change)
            if wrong != document:
                tried += 1
                with pytest.raises(AssertionError):
                    schema.check_document(name, wrong)
    assert tried >= 3


def test_further_keys_are_no_error_to_readers(samples):
    published = schema.jsonschema.Draft202012Validator(schema.published())
    for document in samples.values():
        assert published.is_valid({**document, "added": 0})
    assert not published.is_valid({**samples["report"], "job": {}})
    assert not published.is_valid({})


@pytest.mark.parametrize("words, name", [
    (["report", "x"], None), (["report", "--format", "json", "x"], "report"), (["report", "x", "--format=json"], "report"),
    (["export", "--table", "peers", "x"], None), (["export", "--format=jsonl", "x"], "export_record"),
    (["summary", "--compat=deepspeed", "--format", "json", "x"], "deepspeed"),
    (["report", "--format", "json", "--help"], None),
])
def test_the_command_line_says_what_to_expect(words, name):
    assert schema.definition_of(words) == name


def test_lines_that_differ_in_kind_are_all_looked_at(samples):
    row = samples["export_record"]
    rows = [row, {**row, "ticket": 7}, {**row, "ticket": -1}, {**row, "kind": "other"}]
    text = "\n".join(map(json.dumps, rows))
    assert len(schema.documents("export_record", text)) == 3
    with pytest.raises(AssertionError):
        schema.check(["export", "--format", "jsonl"], text)


def overwrite(path, seed):
    """Puts bytes where others were, in pages that hold something."""
    dice = random.Random(seed)
    content = bytearray(path.read_bytes())
    used = [page for page in range(0, len(content), PAGE) if any(content[page:page + PAGE])]
    for _ in range(dice.choice((3, 30, 300))):
        place = min(dice.choice(used) + dice.randrange(PAGE), len(content) - 1)
        content[place] = dice.choice((0, 128, 255, dice.randrange(256)))
    path.write_bytes(content)


def claim_rank(path, rank):
    with path.open("r+b") as file:
        file.seek(OFFSET_OF_RANK)
        file.write(struct.pack("<i", rank))


def cut(path, size):
    os.truncate(path, size)


DAMAGES = [*((claim_rank, rank) for rank in (-1, -7, 2 ** 31 - 1)), *((cut, size) for size in (0, 5000, 200000)),
           *((overwrite, seed) for seed in (1, 3, 9, 17))]


@pytest.mark.parametrize("harm, how", DAMAGES, ids=lambda value: getattr(value, "__name__", str(value)))
@pytest.mark.parametrize("victims", [1, 3])
def test_documents_of_damaged_dumps_meet_it_too(train, tmp_path, harm, how, victims):
    where = tmp_path / "dumps"
    shutil.copytree(train, where)
    for path in jobs.dumps(where)[:victims]:
        harm(path, how)
    seen = dict(outputs(where, codes=(0, 1, 3)))
    assert seen["check"]
