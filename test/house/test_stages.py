# SPDX-License-Identifier: Apache-2.0
"""stages.py on objects compiled from a few lines each."""
import pathlib
import subprocess
import sys

STAGES = pathlib.Path(__file__).with_name("stages.py")

PURE = """#include <stdio.h>
static const char *const names[] = {"low", "high"};
static const int limits[] = {1, 2};
void say(char *text, unsigned long size, int i) { snprintf(text, size, "%s %d", names[i & 1], limits[i & 1]); }
"""


def check(folder, source, *options):
    (folder / "stage.c").write_text(source)
    subprocess.run(["cc", "-O2", "-fPIE", "-c", "stage.c", "-o", "stage.o"], cwd=folder, check=True)
    run = subprocess.run([sys.executable, STAGES, *options, "stage.o"], cwd=folder, text=True, stdout=subprocess.PIPE,
                         check=False)
    return run.returncode, run.stdout.strip()


def test_tables_and_text_in_memory_are_pure(tmp_path):
    assert check(tmp_path, PURE) == (0, "1 objects hold no state, open nothing, print nothing")


def test_state_is_told(tmp_path):
    code, out = check(tmp_path, "static long calls; long next(void) { return ++calls; }")
    assert (code, out) == (1, "stage.o holds 8 bytes of state (.bss)")
    code, out = check(tmp_path, "static _Thread_local long calls = 3; long next(void) { return ++calls; }")
    assert (code, out) == (1, "stage.o holds 8 bytes of state (.tdata)")


def test_files_environment_and_clocks_are_told(tmp_path):
    for call, header in (('fopen("x", "r")', "stdio.h"), ('getenv("X")', "stdlib.h"), ("time(0)", "time.h")):
        code, out = check(tmp_path, f"#include <{header}>\nlong f(void) {{ return (long){call}; }}", "--may-print")
        assert (code, out) == (1, f"stage.o calls {call.split('(')[0]}")


def test_printing_is_told_unless_it_is_allowed(tmp_path):
    source = '#include <stdio.h>\nvoid f(FILE *stream, int i) { fprintf(stream, "%d", i); }'
    code, out = check(tmp_path, source)
    assert code == 1 and out.startswith("stage.o calls ") and "fprintf" in out
    assert check(tmp_path, source, "--may-print")[0] == 0
