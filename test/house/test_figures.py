# SPDX-License-Identifier: Apache-2.0
"""figures.py on functions at the limits, and beyond each of them."""
import os
import pathlib
import subprocess
import sys

import pytest

FIGURES = pathlib.Path(__file__).with_name("figures.py")
pytestmark = pytest.mark.skipif(not (pathlib.Path(os.environ.get("LIZARD", "")) / "lizard.py").is_file(),
                                reason="lizard is not here (make check-figures fetches it)")

LOOP = """    for (int i = 0; i < count; i++) {
        total += first[i] * second[count - i];
        limit[i] = total > 7 ? first[i] : second[i] + limit[count];
        if (limit[i] > first[i] && second[i] != total)
            second[limit[i]] = first[total] - limit[second[i]];
        first[total] += second[limit[i]] * limit[first[i]];
    }
"""


def function(name, body):
    return f"int {name}(int count, int *first, int *second, int *limit) {{\n{body}}}\n"


def lines(count):
    return "".join(f"    count += {i};\n" for i in range(count))


def branches(count):
    return "".join(f"    if (count == {i}) count++;\n" for i in range(count))


def check(folder, **files):
    (folder / "tree/deep").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"tree/deep/{name}.c").write_text(text)
    run = subprocess.run([sys.executable, FIGURES, "tree"], cwd=folder, text=True, stdout=subprocess.PIPE, check=False)
    return run.returncode, run.stdout


def test_functions_at_the_limits(tmp_path):
    blank = "\n    // why\n    /* how\n     */\n" * 20
    code, out = check(tmp_path, a=function("long", lines(38) + blank), b=function("branched", branches(19)))
    assert (code, out) == (0, "tree: 2 functions, 30.5 lines on average, 40 at most, complexity 20 at most\n")


def test_one_line_too_many(tmp_path):
    code, out = check(tmp_path, a=function("long", lines(39)), b=function("short", lines(1)))
    assert (code, out) == (1, "tree/deep/a.c:1 long has 41 lines, more than 40\n")


def test_one_branch_too_many(tmp_path):
    code, out = check(tmp_path, a=function("branched", branches(20)))
    assert (code, out) == (1, "tree/deep/a.c:1 branched has complexity 21, more than 20\n")
    code, out = check(tmp_path, a=function("terse", "    return " + " || ".join(f"count == {i}" for i in range(21)) + ";\n"))
    assert (code, out) == (1, "tree/deep/a.c:1 terse has complexity 21, more than 20\n")


def test_the_same_lines_under_other_names(tmp_path):
    one, other = function("one", lines(1) + LOOP), function("other", lines(3) + LOOP)
    for name, new in ("total", "sum"), ("first", "left"), ("second", "right"):
        other = other.replace(name, new)
    code, out = check(tmp_path, a=one, b=other)
    assert code == 1
    assert out.startswith("repeated: tree/deep/a.c:") and ", tree/deep/b.c:" in out and out.count("\n") == 1
    assert check(tmp_path, b=function("different", lines(3)))[0] == 0


def test_tables_may_resemble_each_other(tmp_path):
    # as they stand, in functions, these would be a repetition
    entries = LOOP.split("{\n", 1)[1]
    table = f"int keys[] = {{\n{entries.replace(';', ',')}}};\n"
    code, out = check(tmp_path, a=table + function("one", lines(2)), b=table + function("other", lines(2)))
    assert code == 0, out
    code, out = check(tmp_path, a=function("one", table), b=function("other", table))
    assert code == 1 and out.startswith("repeated: tree/deep/a.c:"), out


def test_a_tree_without_functions_is_no_success(tmp_path):
    code, out = check(tmp_path, a="int x;\n")
    assert (code, out) == (1, "tree: no function found\n")
