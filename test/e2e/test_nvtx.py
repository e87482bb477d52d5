# SPDX-License-Identifier: Apache-2.0
#
# What stands behind the native frames of a stack: Python's frames and the job's NVTX ranges, from the program to the
# call tree. Must not live here: frames compared with traceback (make check-python), native ones.
import glob
import os
import re
import subprocess
import textwrap

import pytest

import jobs

FOLDED = re.compile(r"(.*);(MPI_\w+) \d+$")


def stacks(directory, operation):
    """{stack as text, outermost first} of all calls of one operation."""
    lines = jobs.commtap("calls", "--format", "folded", directory).stdout.splitlines()
    found = [FOLDED.match(line) for line in lines]
    return {m.group(1) for m in found if m and m.group(2) == operation}


def labels(directory, operation):
    """The same without the native frames, and only what is not plumbing of the program's."""
    return {tuple(f for f in stack.split(";") if "ranges.c" not in f and "0x" not in f)
            for stack in stacks(directory, operation)}


def probe(environment):
    kept = {k: v for k, v in jobs.clean_environment().items() if k != "NVTX_INJECTION64_PATH"}
    done = subprocess.run([jobs.program("openmpi", "ranges"), "probe"], env={**kept, **environment}, cwd=jobs.BUILD,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done
    return done.stdout.rstrip("\n")


def test_ranges_are_labels(mpi, tmp_path):
    jobs.run(mpi, 2, [jobs.program(mpi, "ranges")], tmp_path)
    expected = {
        "MPI_Barrier": ("outer", "größer 日"),
        "MPI_Bcast": ("outer", "größer 日", "registered (mine)"),
        "MPI_Reduce": ("outer", "registered (mine)", "with attributes"),
        "MPI_Allreduce": ("first started", "second started", "of the thread"),
        "MPI_Scan": ("second started",),
        "MPI_Alltoall": (),
    }
    for operation, ranges in expected.items():
        got = {tuple(f for f in stack if f not in ("clone", "start_thread", "in_thread"))
               for stack in labels(tmp_path, operation)}
        assert got == {ranges}, operation


def test_named_ranges_mark_steps(mpi, tmp_path):
    """Each range "step N of 300" is a step, however many texts there are."""
    jobs.run(mpi, 2, [jobs.program(mpi, "ranges"), "numbered"], tmp_path, knobs={"COMMTAP_STEP": "step *"})
    rows = jobs.document("steps", "--marker", "pcontrol", tmp_path)["rows"]
    assert [row["rank"] for row in rows] == [0, 1]
    assert {row["operations"] for row in rows} == {1.0}
    assert all(row["steps"] > 128 for row in rows)


def test_numbered_ranges_are_folded(mpi, tmp_path):
    jobs.run(mpi, 2, [jobs.program(mpi, "ranges"), "numbered"], tmp_path)
    names = {stack[0] for stack in labels(tmp_path, "MPI_Barrier")}
    assert names == {f"step {i} of 300" for i in range(128)} | {"step # of #"}
    assert jobs.summary(tmp_path, "--op", "Barrier")["summary"][0]["count"] == 600


def test_library_offers_itself_to_nvtx():
    shim = str(jobs.SHIM)
    assert probe({"LD_PRELOAD": shim}) == f"tool {shim}"
    # The path holds wherever the process goes next.
    assert probe({"LD_PRELOAD": "./libcommtap.so"}) == f"tool {jobs.BUILD}/./libcommtap.so"


@pytest.mark.parametrize("knobs", [{"COMMTAP_ENABLE": "0"}, {"COMMTAP_STACK": "native"}, {"COMMTAP_STACK": "off"}])
def test_library_offers_nothing_unwanted(knobs):
    assert probe({"LD_PRELOAD": str(jobs.SHIM), **knobs}) == "none (null)"
    # ... and declines where the variable came from elsewhere.
    path = {"NVTX_INJECTION64_PATH": str(jobs.SHIM)}
    assert probe({"LD_PRELOAD": str(jobs.SHIM), **knobs, **path}) == f"none {jobs.SHIM}"


def test_profilers_choice_stays():
    assert probe({"LD_PRELOAD": str(jobs.SHIM), "NVTX_INJECTION64_PATH": "/profiler.so"}) == "none /profiler.so"


def test_child_without_the_preload_gets_no_tool():
    assert probe({"NVTX_INJECTION64_PATH": str(jobs.SHIM)}) == f"none {jobs.SHIM}"


def test_large_environments_survive():
    shim = str(jobs.SHIM)
    for count in (0, 1, 115, 135, 2000, 5000):
        many = {f"V{i}": str(i) for i in range(count)}
        done = subprocess.run(["/usr/bin/env"], env={"LD_PRELOAD": shim, **many}, capture_output=True, text=True)
        lines = set(done.stdout.splitlines())
        assert {f"{k}={v}" for k, v in many.items()} | {f"LD_PRELOAD={shim}"} <= lines
        assert (f"NVTX_INJECTION64_PATH={shim}" in lines) == (count <= 2000)


def nvtx_headers():
    places = [os.environ.get("CUDA_HOME", "/usr/local/cuda"), *sorted(glob.glob("/usr/local/cuda*")), "/usr"]
    return next((f"{p}/include" for p in places if os.path.exists(f"{p}/include/nvtx3/nvToolsExt.h")), None)


@pytest.mark.skipif(nvtx_headers() is None, reason="NVTX's headers are not installed")
def test_declarations_are_nvtxs_own(tmp_path):
    source = tmp_path / "real.c"
    same = ["NVTX_EXPORT_CALLBACKS == NVTX_ETID_CALLBACKS", "NVTX_MODULE_CORE == NVTX_CB_MODULE_CORE",
            "NVTX_MODULE_CORE2 == NVTX_CB_MODULE_CORE2", "NVTX_RANGE_START_EX == NVTX_CBID_CORE_RangeStartEx",
            "NVTX_RANGE_START_A == NVTX_CBID_CORE_RangeStartA", "NVTX_RANGE_START_W == NVTX_CBID_CORE_RangeStartW",
            "NVTX_RANGE_END == NVTX_CBID_CORE_RangeEnd", "NVTX_RANGE_PUSH_EX == NVTX_CBID_CORE_RangePushEx",
            "NVTX_RANGE_PUSH_A == NVTX_CBID_CORE_RangePushA", "NVTX_RANGE_PUSH_W == NVTX_CBID_CORE_RangePushW",
            "NVTX_RANGE_POP == NVTX_CBID_CORE_RangePop",
            "NVTX_DOMAIN_RANGE_START_EX == NVTX_CBID_CORE2_DomainRangeStartEx",
            "NVTX_DOMAIN_RANGE_END == NVTX_CBID_CORE2_DomainRangeEnd",
            "NVTX_DOMAIN_RANGE_PUSH_EX == NVTX_CBID_CORE2_DomainRangePushEx",
            "NVTX_DOMAIN_RANGE_POP == NVTX_CBID_CORE2_DomainRangePop",
            "NVTX_DOMAIN_REGISTER_STRING_A == NVTX_CBID_CORE2_DomainRegisterStringA",
            "NVTX_DOMAIN_REGISTER_STRING_W == NVTX_CBID_CORE2_DomainRegisterStringW",
            "NVTX_DOMAIN_CREATE_A == NVTX_CBID_CORE2_DomainCreateA",
            "NVTX_DOMAIN_CREATE_W == NVTX_CBID_CORE2_DomainCreateW", "NVTX_ASCII == NVTX_MESSAGE_TYPE_ASCII",
            "NVTX_UNICODE == NVTX_MESSAGE_TYPE_UNICODE", "NVTX_REGISTERED == NVTX_MESSAGE_TYPE_REGISTERED",
            "sizeof(struct nvtx_attributes) == sizeof(nvtxEventAttributes_t)",
            "offsetof(struct nvtx_attributes, message_type) == offsetof(nvtxEventAttributes_t, messageType)",
            "offsetof(struct nvtx_attributes, message) == offsetof(nvtxEventAttributes_t, message)",
            "sizeof(struct nvtx_callbacks) == sizeof(NvtxExportTableCallbacks)"]
    source.write_text("#include <nvtx3/nvToolsExt.h>\n#include <stddef.h>\n#include <stdio.h>\n"
                      "#include \"shim/intercept/nvtx.h\"\n"
                      + "".join(f"_Static_assert({s}, \"{s}\");\n" for s in same) + textwrap.dedent("""
        int main(void) {
            nvtxDomainHandle_t domain = nvtxDomainCreateA("d");
            nvtxEventAttributes_t e = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
            e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
            e.message.registered = nvtxDomainRegisterStringA(domain, "s");
            int levels[] = {nvtxRangePushA("a"), nvtxRangePushW(L"b"), nvtxDomainRangePushEx(domain, &e),
                            nvtxDomainRangePushEx(domain, &e)};
            nvtxRangeEnd(nvtxRangeStartA("c"));
            printf("%d %d %d %d", levels[0], levels[1], levels[2], levels[3]);
            return nvtxRangePop() != 1;
        }
        """))
    subprocess.run(["cc", "-D_GNU_SOURCE", "-I", str(jobs.ROOT), "-isystem", nvtx_headers(), str(source), "-o",
                    str(tmp_path / "real"), "-ldl"], check=True)
    for preload, levels in (({"LD_PRELOAD": str(jobs.SHIM)}, "0 1 0 1"), ({}, "-2 -2 -2 -2")):
        done = subprocess.run([str(tmp_path / "real")], env={**jobs.clean_environment(), **preload},
                              capture_output=True, text=True)
        assert done.stdout == levels


def test_python_frames_stand_in_the_tree(tmp_path):
    script = str(jobs.ROOT / "test" / "programs" / "frames.py")
    jobs.run("openmpi", 2, [jobs.PYTHON, script], tmp_path)
    got = {tuple(f for f in stack.split(";") if "frames.py" in f or "<made>" in f)
           for stack in stacks(tmp_path, "MPI_Barrier")}
    with open(script, encoding="utf-8") as file:
        text = file.read().splitlines()

    def line(part, nth=0):
        return [i + 1 for i, content in enumerate(text) if part in content][nth]

    def module(part, nth=0):
        return f"<module> (frames.py:{line(part, nth)})"

    assert got == {
        (module("Модель().вперёд()"), f"Модель.вперёд (frames.py:{line('Barrier()', 0)})"),
        (module("list(numbers())"), f"numbers (frames.py:{line('Barrier()', 1)})"),
        (module("asyncio.run"), f"coroutine (frames.py:{line('Barrier()', 2)})"),
        (module("recursion(2)"), *[f"recursion (frames.py:{line('recursion(depth - 1)')})"] * 2,
         f"recursion (frames.py:{line('Barrier()', 3)})"),
        (module("through_c()", 1),
         f"through_c (frames.py:{line('sorted')})", f"through_c.<locals>.<lambda> (frames.py:{line('sorted')})"),
        (module("spread_out()", 1), f"spread_out (frames.py:{line('(lambda:')})",
         f"spread_out.<locals>.<lambda> (frames.py:{line('world.Barrier(', 5)})"),
        (module("exec(compile"), "<module> (<made>:4)", "made (<made>:3)"),
        (f"in_thread (frames.py:{line('Barrier()', 5)})",),
        (module("world.Barrier()", -1),),
    }
