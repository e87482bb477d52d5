# SPDX-License-Identifier: Apache-2.0
#
# commtap's JSON against doc/commtap.schema.json, in a strict form: what the schema does not name is an error, though
# those who read the documents must expect further keys.
# Lives here: the strict form, which definition a command's output has to meet. Must not live here: running commtap.
import copy
import functools
import json
import pathlib

try:
    import jsonschema
except ImportError:  # documents are not checked then; test_schema.py says so
    jsonschema = None

PATH = pathlib.Path(__file__).resolve().parents[2] / "doc" / "commtap.schema.json"


@functools.lru_cache(maxsize=None)
def published():
    return json.loads(PATH.read_text())


def parts(schema):
    """Every schema within a schema, itself included."""
    yield schema
    for keyword in ("properties", "$defs"):
        for part in schema.get(keyword, {}).values():
            yield from parts(part)
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from parts(schema[keyword])


def strict(schema):
    """The same schema for objects that have the declared keys and no others."""
    schema = copy.deepcopy(schema)
    for part in parts(schema):
        if "properties" in part:
            part["additionalProperties"] = False
    return schema


@functools.lru_cache(maxsize=None)
def validator(name):
    chosen = {"$schema": published()["$schema"], "$ref": f"#/$defs/{name}", "$defs": strict(published())["$defs"]}
    return jsonschema.Draft202012Validator(chosen)


def value_of(words, option, otherwise):
    """What an option is set to on a command line, as `--option VALUE` or `--option=VALUE`."""
    value = otherwise
    for word, after in zip(words, [*words[1:], None]):
        if word == option:
            value = after
        elif word.startswith(option + "="):
            value = word.partition("=")[2]
    return value


def definition_of(words):
    """Name of the definition that the output of this command line meets; None where it is no JSON."""
    command, form = words[0], value_of(words, "--format", "text")
    if "--help" in words or form not in ("json", "jsonl", "commdebug"):
        return None
    if form == "jsonl":
        return "export_" + value_of(words, "--table", "records").removesuffix("s")
    return "commdebug" if form == "commdebug" else value_of(words, "--compat", command)


def likeness(row):
    """Equal for lines of export that differ only in how large their numbers are, for which the schema has no limit."""
    return tuple((key, (type(value), value < 0) if type(value) in (int, float) else value) for key, value in row.items())


def documents(name, text):
    """The documents in an output; of lines of export, which are many, one of each likeness."""
    if not name.startswith("export_"):
        return [json.loads(text)]
    return {likeness(row): row for row in map(json.loads, text.splitlines())}.values()


def check_document(name, document):
    """Fails where a document is not what this definition declares."""
    error = jsonschema.exceptions.best_match(validator(name).iter_errors(document))
    assert error is None, f"{name}: {error.json_path}: {error.message}"


def check(words, text):
    """Fails where the output of this command line is not what the schema declares; it may be no JSON at all."""
    name = definition_of(words)
    if jsonschema and name:
        for document in documents(name, text):
            check_document(name, document)
