# SPDX-License-Identifier: Apache-2.0
"""coverage.py on a source that is built twice and run in part."""
import pathlib
import subprocess
import sys

COVERAGE = pathlib.Path(__file__).parents[1] / "coverage.py"
SOURCE = """int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1)
        return 1;
    return 0;
}
"""


def report(folder):
    run = subprocess.run([sys.executable, COVERAGE, "build", "tree"], cwd=folder, text=True, stdout=subprocess.PIPE,
                         check=False)
    return run.returncode, run.stdout


def build(folder, name, *arguments):
    (folder / "tree/deep").mkdir(parents=True, exist_ok=True)
    (folder / "build" / name).mkdir(parents=True)
    (folder / "tree/deep/main.c").write_text(SOURCE)
    program = f"build/{name}/main"
    subprocess.run(["gcc", "-O0", "--coverage", "-c", "tree/deep/main.c", "-o", f"{program}.o"], cwd=folder, check=True)
    subprocess.run(["gcc", "--coverage", f"{program}.o", "-o", program], cwd=folder, check=True)
    subprocess.run([folder / program, *arguments], cwd=folder, check=False)


def test_a_line_is_reached_when_any_copy_of_it_ran(tmp_path):
    build(tmp_path, "library")
    # of the head of main, the condition and two returns
    assert report(tmp_path) == (0, "| folder | lines with code | reached |\n|---|---|---|\n"
                                   "| **tree** | 4 | 75.0 % |\n| tree/deep | 4 | 75.0 % |\n")
    build(tmp_path, "program", "argument")
    assert report(tmp_path)[1].endswith("| tree/deep | 4 | 100.0 % |\n")


def test_a_build_without_counts_is_no_success(tmp_path):
    (tmp_path / "build").mkdir()
    assert report(tmp_path) == (1, "build holds no counts\n")
