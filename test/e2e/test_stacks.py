# SPDX-License-Identifier: Apache-2.0
#
# Call stacks of whole jobs: they cost the job's times nothing, and every call has one.
# Must not live here: whether frames are right (test/stacks), how the tree looks (the analyzer's tests).
import subprocess

import pytest

import jobs


def calls_by_operation(where):
    tree = jobs.document("calls", where)
    return {name: op["count"] for name, op in tree["root"]["ops"].items()}


@pytest.mark.parametrize("stack", ["site", "full"])
@pytest.mark.parametrize("name, arguments", [("collectives", []), ("pointtopoint", []), ("communicators", ["40"]),
                                             ("threads", ["300", "12"]), ("outstanding", ["1500"]), ("coverage", [])])
def test_the_tree_counts_what_the_summary_counts(mpi, stack, name, arguments, where):
    jobs.run(mpi, 2, [jobs.program(mpi, name), *arguments], where, knobs={"COMMTAP_STACK": stack})
    expected = {}
    for row in jobs.summary(where)["summary"]:
        expected[row["op"]] = expected.get(row["op"], 0) + row["count"]
    assert expected
    assert calls_by_operation(where) == expected


def test_walking_a_stack_is_no_communication(mpi, where):
    """Nine hundred frames, never the same: what the caller waits for is the walk, and the reported times know nothing of it."""
    done = jobs.run(mpi, 1, [jobs.program(mpi, "deepstack")], where,
                    knobs={"COMMTAP_STACK": "native", "COMMTAP_STACK_DEPTH": "1000"})
    seen_by_caller = float(done.stdout.split()[1])
    reported = [row for row in jobs.summary(where)["summary"] if row["op"] == "MPI_Allreduce"]
    assert sum(row["count"] for row in reported) == 300
    assert reported[0]["time_p50_us"] * 5 < seen_by_caller


# The return address in the function is the same in both; its frame and its name are not.
LIBRARY = """
__attribute__((noinline)) int {name}(int (*call)(void)) {{ volatile char b[{size}]; b[0] = 0; return call() + b[0]; }}
int step(int (*call)(void)) {{ return {name}(call) + 1; }}
"""


def test_a_library_in_the_place_of_another_is_told_from_it(mpi, where, tmp_path):
    paths = []
    for name, size in (("through_first", 600), ("through_second", 1200)):
        source, path = tmp_path / f"{name}.c", tmp_path / f"{name}.so"
        source.write_text(LIBRARY.format(name=name, size=size))
        subprocess.run(["gcc", "-O1", "-fPIC", "-shared", str(source), "-o", str(path)], check=True)
        paths.append(str(path))
    done = jobs.run(mpi, 1, [jobs.program(mpi, "reload"), *paths], where)
    if done.stdout != "in place 19\n":
        pytest.skip("the loader put them elsewhere")
    counts = {}

    def visit(node):
        if node["name"].startswith("through_"):
            counts[node["name"]] = counts.get(node["name"], 0) + node["count"]
        for child in node["children"]:
            visit(child)

    visit(jobs.document("calls", where, "--noise", "3")["root"])
    assert counts == {"through_first": 10, "through_second": 10}
