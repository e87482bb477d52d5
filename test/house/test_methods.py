# SPDX-License-Identifier: Apache-2.0
"""doc/METHODS.md's tables of constants are true: every constant stands in its file with that value, every test exists."""
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
NAME = re.compile(r"\b[A-Z][A-Z_]{3,}\b")
TESTS = re.compile(r"(test_\w+): (\w+(?:, \w+)*)")


def rows():
    """(constant, file, value, tests) of every row; rotating stragglers have one file and one test program."""
    section, found = "", []
    for line in (ROOT / "doc/METHODS.md").read_text().split("## Constants")[1].splitlines():
        section = line.lstrip("# ") if line.startswith("#") else section
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|") or set(line) <= set("|-") or cells[0].lstrip("| ") == "constant":
            continue
        cells[0] = cells[0].lstrip("| ")
        if section == "Rotating stragglers":
            found.append((cells[0], "stragglers/rotating_stragglers.c, stragglers/rotating_stragglers.h", cells[1],
                          re.sub(r"(?<!: )\b((?!test_)[a-z]+(?:_[a-z]+)+)\b", r"test_rotating_stragglers: \1", cells[-1])))
        else:
            found.append((cells[0], cells[1], cells[2], cells[-1]))
    return found


def source_of(files):
    return "".join((ROOT / (file if file.startswith("shim/") else "analyzer/" + file)).read_text()
                   for file in files.split(", "))


def test_there_are_tables():
    assert len(rows()) > 60
    assert sum(1 for row in rows() if TESTS.search(row[3])) > 40


def test_constants_stand_where_they_are_said_to():
    wrong = [(name, file) for constant, file, _, _ in rows() for name in NAME.findall(constant)
             if not re.search(rf"\b{name}\b", source_of(file))]
    assert not wrong


def test_values_are_those_of_the_code():
    wrong = []
    for constant, file, value, _ in rows():
        number = re.fullmatch(r"(?:1/)?([0-9.]+)", value)
        if not NAME.fullmatch(constant) or not number:
            continue
        held = re.search(rf"\b{constant}\b(?: =)? +([0-9.]+)", source_of(file))
        if not held or float(held.group(1)) != float(number.group(1)):
            wrong.append((constant, value, held and held.group(1)))
    assert not wrong


def test_tests_exist():
    wrong = []
    for _, _, _, tests in rows():
        for program, names in TESTS.findall(tests):
            text = (ROOT / "test/unit" / f"{program}.c").read_text()
            wrong += [(program, name) for name in names.split(", ") if f"void {name}(" not in text]
    assert not wrong
