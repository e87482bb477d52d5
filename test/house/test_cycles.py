# SPDX-License-Identifier: Apache-2.0
"""cycles.py on small trees that are sound, and on ones with a cycle planted."""
import pathlib
import subprocess
import sys

CYCLES = pathlib.Path(__file__).with_name("cycles.py")

SOUND = {"tree/base/list.c": ["list.h"], "tree/base/list.h": [], "tree/load/read.c": ["read.h", "tree/base/list.h"],
         "tree/load/read.h": ["private.h"], "tree/load/private.h": [], "tree/main.c": ["load/read.h"],
         "tree/format.h": [], "tree/base/text.h": ["../format.h"]}


def check(folder, changes, *options):
    for name, includes in {**SOUND, **changes}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f'#include "{other}"\n' for other in includes) + "#include <stdio.h>\n")
    run = subprocess.run([sys.executable, CYCLES, *options, "tree"], cwd=folder, text=True, stdout=subprocess.PIPE, check=False)
    return run.returncode, run.stdout


def test_sound_tree(tmp_path):
    # main.c above the folders and format.h below them lie side by side at the top: no cycle through that
    code, out = check(tmp_path, {})
    assert code == 0
    assert out.splitlines() == ["tree: 6 modules, 6 includes, no cycle", "order: tree/base < tree/load"]


def test_cycle_of_modules_in_one_folder(tmp_path):
    code, out = check(tmp_path, {"tree/base/text.h": ["list.h"], "tree/base/list.c": ["text.h"]})
    assert code == 1
    assert out.splitlines() == ["cycle of 2 modules: tree/base/list tree/base/text",
                                "    tree/base/list.c includes tree/base/text.h",
                                "    tree/base/text.h includes tree/base/list.h"]


def test_cycle_of_three_modules_over_headers_alone(tmp_path):
    code, out = check(tmp_path, {"tree/base/a.h": ["b.h"], "tree/base/b.h": ["c.h"], "tree/base/c.h": ["a.h"]})
    assert code == 1
    assert out.startswith("cycle of 3 modules: tree/base/a tree/base/b tree/base/c\n")


def test_cycle_of_folders_without_one_of_modules(tmp_path):
    code, out = check(tmp_path, {"tree/base/late.c": ["tree/load/read.h"]})
    assert code == 1
    assert out.splitlines() == ["cycle of 2 folders: tree/base tree/load",
                                "    tree/base/late.c includes tree/load/read.h",
                                "    tree/load/read.c includes tree/base/list.h"]


def test_private_header_from_another_folder(tmp_path):
    code, out = check(tmp_path, {"tree/render/page.c": ["tree/load/private.h"],
                                 "tree/render/page_build.h": [], "tree/steps/steps.c": ["../render/page_build.h"]})
    assert code == 1
    assert out.splitlines() == ["tree/render/page.c includes tree/load/private.h, which is private to its folder",
                                "tree/steps/steps.c includes tree/render/page_build.h, which is private to its folder"]


def test_folder_with_too_many_files(tmp_path):
    code, out = check(tmp_path, {f"tree/base/f{i}.c": [] for i in range(19)})
    assert (code, out.splitlines()[0]) == (0, "tree: 25 modules, 6 includes, no cycle")
    code, out = check(tmp_path, {"tree/base/one_more.c": []})
    assert (code, out) == (1, "tree/base holds 21 .c files, more than 20\n")


def test_order_of_folders(tmp_path):
    late = {"tree/base/late.c": [], "tree/steps/steps.c": ["tree/base/list.h"]}
    assert check(tmp_path, late, "--order", "tree/base tree/load tree/steps")[0] == 0
    code, out = check(tmp_path, late, "--order", "tree/load tree/base tree/steps")
    assert (code, out) == (1, "tree/load/read.c includes tree/base/list.h: tree/load stands below tree/base\n")
    code, out = check(tmp_path, late, "--order", "tree/base tree/load")
    assert (code, out) == (1, "tree/steps has no place in the order of the folders\n")


def test_what_lies_at_the_top_may_include_any_folder_and_be_included_by_it(tmp_path):
    changes = {"tree/base/text.h": ["../format.h"], "tree/main.c": ["load/read.h", "base/list.h"]}
    assert check(tmp_path, changes, "--order", "tree/base tree/load")[0] == 0
