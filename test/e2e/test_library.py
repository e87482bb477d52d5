# SPDX-License-Identifier: Apache-2.0
#
# The library itself: what it needs, what it exports, and that it tells the truth to those who look symbols up.
# Must not live here: jobs with more than the calls such a check needs.
import json
import re
import subprocess
import textwrap

import pytest

import jobs

OLDEST = (2, 28)


def preloaded(command, **variables):
    environment = {**jobs.clean_environment(), "LD_PRELOAD": str(jobs.SHIM), **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_needs_no_newer_libc_than_promised():
    symbols = subprocess.run(["objdump", "-T", str(jobs.SHIM)], capture_output=True, text=True, check=True).stdout
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"\(?GLIBC_([\d.]+)\)?", symbols)}
    assert versions and max(versions) <= OLDEST, sorted(versions)
    assert "GLIBC_PRIVATE" not in symbols


def test_needs_libc_only():
    dynamic = subprocess.run(["objdump", "-p", str(jobs.SHIM)], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED\s+(\S+)", dynamic))
    assert needed <= {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def test_exports_hooks_only():
    symbols = subprocess.run(["nm", "-D", "--defined-only", str(jobs.SHIM)], capture_output=True, text=True, check=True)
    names = {line.split()[-1].split("@")[0] for line in symbols.stdout.splitlines()}
    cuda = r"cu(da)?(Graph(Instantiate|Launch|Exec|Destroy|Clone|AddChild)|StreamBeginCaptureToGraph|EventRecord|StreamWaitEvent|DeviceReset|DevicePrimaryCtxReset|CtxDestroy|Profiler(Start|Stop)$)"
    allowed = rf"P?MPI_|nccl|ncclProfiler|dlv?sym$|dlopen$|dlclose$|dlerror$|InitializeInjection|{cuda}"
    strangers = {name for name in names if not re.match(allowed, name)}
    assert strangers == set()


def test_starting_it_touches_one_page_of_data():
    """Tables of pointers would be relocations, and pages, in every process below a preload; see shim/intercept/resolve.h (HOOK)."""
    headers = subprocess.run(["readelf", "-SW", str(jobs.SHIM)], capture_output=True, text=True, check=True).stdout
    written = re.findall(r"(\w*) +(?:PROGBITS|\w+_ARRAY|DYNAMIC) +(\w+) +\w+ +(\w+) +\w+ +WA ", headers)
    first = min(int(address, 16) for _, address, _ in written)
    last = max(int(address, 16) + int(size, 16) for _, address, size in written) - 1
    assert len(written) >= 6 and first // 4096 == last // 4096, f"data from {first:#x} to {last:#x}"
    relocations = subprocess.run(["readelf", "-rW", str(jobs.SHIM)], capture_output=True, text=True, check=True).stdout
    looked_up = re.findall(r"(?:GLOB_DAT|_64_64|ABS64) +\w+ +(\w+)", relocations)
    assert len(looked_up) <= 10 and not any(name.startswith(("MPI", "nccl", "cu")) for name in looked_up), looked_up


def test_absent_libraries_stay_absent():
    done = preloaded([str(jobs.PROGRAMS / "absent")])
    assert done.returncode == 0 and done.stderr == ""
    wrong = [line for line in done.stdout.splitlines() if not line.endswith((" absent", " right"))]
    assert wrong == [] and len(done.stdout.splitlines()) > 30


def test_a_library_finds_its_own_names():
    done = preloaded([str(jobs.PROGRAMS / "scope"), str(jobs.PROGRAMS / "scope.so")])
    assert (done.returncode, done.stdout, done.stderr) == (0, "5 1 2 3 4 5\n", "")


def test_two_versions_of_a_cuda_runtime_are_not_mixed_up():
    done = preloaded([str(jobs.PROGRAMS / "runtimes"), str(jobs.PROGRAMS / "cudarts")])
    assert (done.returncode, done.stdout, done.stderr) == (0, "1011 1012 1011 1012 gone\n", "")


def test_weak_references_without_mpi():
    done = preloaded([str(jobs.PROGRAMS / "weak")])
    assert (done.returncode, done.stdout, done.stderr) == (0, "no MPI here\n", "")


def test_ctypes_sees_no_mpi_in_an_interpreter_without():
    probe = "import ctypes; print(any(hasattr(ctypes.CDLL(None), n) for n in ('MPI_Init', 'MPI_Send', 'ncclAllReduce', 'cudaGraphLaunch', 'cuEventRecord')))"
    done = preloaded([jobs.PYTHON, "-c", probe])
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_dlerror_tells_of_the_jobs_last_error(mpi, where):
    """Finding a function for its first call must neither swallow a pending message nor leave one of its own."""
    command = [jobs.program(mpi, "lasterror")]
    without = jobs.run(mpi, 1, command, None, way="none")
    assert without.stdout.count("libmissing_") == 5 and without.stdout.count("nothing") == 2
    assert jobs.run(mpi, 1, command, where).stdout == without.stdout
    assert len(jobs.dumps(where)) == 1


@pytest.mark.parametrize("enable, dumps", [("1", 1), ("0", 0)])
def test_knobs_hold_for_calls_before_our_constructor(mpi, where, enable, dumps):
    """A library preloaded behind commtap starts before it, and calls MPI at once."""
    both = ":".join([str(jobs.SHIM), jobs.program(mpi, "early.so")])
    environment = {"LD_PRELOAD": both, "COMMTAP_DIR": str(where), "COMMTAP_RUN_ID": "early", "COMMTAP_ENABLE": enable}
    done = jobs.run(mpi, 1, ["/bin/true"], None, way="none", environment=environment)
    assert done.stdout == "early: 3\n"
    found = jobs.dumps(where)
    assert [dump.name.split(".")[1] for dump in found] == dumps * ["early"]
    if dumps:
        assert jobs.seen(jobs.summary(where))["MPI_Allreduce", 4] == 3


def test_errors_are_the_jobs_own(mpi, where):
    """Codes, classes, statuses, errno and a handler that longjmps: the same words as without commtap."""
    command = [jobs.program(mpi, "errors")]
    without = jobs.run(mpi, 2, command, None, way="none")
    done = jobs.run(mpi, 2, command, where)
    assert sorted(done.stdout.splitlines()) == sorted(without.stdout.splitlines())
    assert done.stderr == without.stderr
    result = jobs.report(where)
    after_the_jumps = sum(r["count"] for r in result["summary"] if r["op"] == "MPI_Allreduce" and r["comm_size"] == 2)
    assert after_the_jumps >= 2 * 77
    assert sum(r["count"] for r in result["summary"] if r["op"] == "MPI_Reduce") == 2 * 55


def test_training_is_bitwise_the_same(mpi, where):
    command = [jobs.program(mpi, "train"), "--steps", "60"]
    without = jobs.run(mpi, 4, command, None, way="none")
    for way in ("preload", "run"):
        done = jobs.run(mpi, 4, command, where / way, way=way)
        assert done.stdout == without.stdout
        assert "final loss" in done.stdout


def test_verbose_lines_are_whole_and_on_stderr(mpi, where):
    command = [jobs.program(mpi, "train"), "--steps", "30"]
    without = jobs.run(mpi, 4, command, None, way="none")
    done = jobs.run(mpi, 4, command, where, knobs={"COMMTAP_VERBOSE": "ranks:1,3"})
    assert done.stdout == without.stdout
    line = re.compile(r"^.*rank=?\s*(\d+).*\| comm op: (\S+) \| time \(ms\): [\d.]+ \| msg size: [\d.]+ ?[KMG]?B"
                      r" \| algbw \(Gbps\): [\d.]+ \| busbw \(Gbps\): [\d.]+\s*$")
    matches = [line.match(text) for text in done.stderr.splitlines() if "Allreduce" in text]
    assert all(matches), done.stderr[:2000]
    assert len(matches) == 2 * 2 * 30
    assert {match.group(1) for match in matches} == {"1", "3"}


def test_the_line_of_a_message_has_the_messages_own_time(where):
    """Posted 50 ms before it is sent, in no time; one line for each call, when it is complete."""
    jobs.need("python3-mpi4py")
    script = textwrap.dedent("""
        import time
        from mpi4py import MPI
        world, buffer = MPI.COMM_WORLD, bytearray(1000)
        if world.rank == 1:
            request = world.Irecv(buffer, source=0)
            world.Barrier()
            request.Wait()
        else:
            world.Barrier()
            time.sleep(0.05)
            world.Isend(buffer, dest=1).Wait()
    """)
    done = jobs.run("openmpi", 2, [jobs.PYTHON, "-c", script], where, knobs={"COMMTAP_VERBOSE": "all"})
    lines = re.findall(r"rank (\d) \| comm op: (\S+) \| time \(ms\): ([\d.]+) \| msg size: (\S+ ?\S*) ", done.stderr)
    [(rank, _, time, size)] = [line for line in lines if line[1] == "MPI_Irecv"]
    assert (rank, size) == ("1", "1000.0 B") and float(time) >= 50
    assert [line[0] for line in lines if line[1] == "MPI_Isend"] == ["0"]


def test_children_do_not_write_into_the_parents_dump(mpi, where):
    """Fork and exec in a rank: as many dumps as ranks, each sound."""
    jobs.run(mpi, 2, [jobs.program(mpi, "forkexec")], where)
    assert len(jobs.dumps(where)) == 2
    jobs.commtap("check", where)


def test_readme_has_every_knob():
    """The README's table is `commtap env`'s."""
    readme = (jobs.ROOT / "README.md").read_text()
    knobs = jobs.document("env")["knobs"]
    rows = [f"| `{k['name']}` | {'`' + k['default'] + '`' if k['default'] else ''} | {k['doc']} |" for k in knobs]
    assert len(rows) >= 8
    assert [row for row in rows if row not in readme] == []


@pytest.mark.parametrize("name, given, holds", [("COMMTAP_RING", "17", "32"), ("COMMTAP_RING", "16K", "16K"),
                                                ("COMMTAP_RING", "1", "16"), ("COMMTAP_RING", "33M", "16777216"),
                                                ("COMMTAP_STACK_DEPTH", "0", "1"), ("COMMTAP_MODE", "0777", "0600"),
                                                ("COMMTAP_QUOTA", "10G", "10G"), ("COMMTAP_QUOTA", "ten", "0"),
                                                ("COMMTAP_QUOTA", "10GB", "0"), ("COMMTAP_QUOTA", "-5", "0"),
                                                ("COMMTAP_ARGV", "No", "No"), ("COMMTAP_ARGV", "maybe", "1"),
                                                ("COMMTAP_STACK", "bogus", "full"), ("COMMTAP_KEEP", "foo", "all"),
                                                ("COMMTAP_GPU_TIMING", "kern", "auto"),
                                                ("COMMTAP_GPU_TIMING", "kernel", "kernel"),
                                                ("COMMTAP_VERBOSE", "ranks:a", "off"),
                                                ("COMMTAP_VERBOSE", "all on", "off"),
                                                ("COMMTAP_VERBOSE", "ranks:0,4-7", "ranks:0,4-7"),
                                                ("COMMTAP_RUN_ID", "ten", "ten")])
def test_env_shows_what_holds(name, given, holds):
    """Of a value that the library cannot take, `commtap env` shows the one that it uses, and says so."""
    done = subprocess.run([str(jobs.COMMTAP), "env", "--format", "json"], capture_output=True, check=True, text=True,
                          env={**jobs.clean_environment(), name: given})
    row = next(k for k in json.loads(done.stdout)["knobs"] if k["name"] == name)
    assert row["value"] == holds and row["set"] is True
    said = {f"commtap: {name}={given} {why}: {holds} is used\n"
            for why in ("is not understood", "is rounded to what is possible")}
    assert done.stderr == "" if holds == given else done.stderr in said


TABLES = {"Operations that took longest", "Ranks", "Efficiencies as POP defines them", "Waits by call site",
          "Critical path by call"}


def shape(page):
    """Of a report: how many lines tell of the job, and each table's titles and legend; no figures."""
    shapes = {}
    for block in page[page.index("Job\n"):].split("\n\n"):
        heading, *lines = [line.strip() for line in block.strip().splitlines()]
        heading = heading.partition(" (")[0]
        if heading == "Job":
            shapes[heading] = len(lines)
        elif heading in TABLES:
            legend = next(i for i, line in enumerate(lines) if re.match(r"[a-z][a-z. ]*: .*;", line))
            shapes[heading] = lines[0].split(), " ".join(lines[legend:])
    return shapes


def test_readme_shows_what_report_prints(tmp_path):
    """The README's page is a real one: it has the lines and columns that `commtap report` prints today."""
    readme = (jobs.ROOT / "README.md").read_text()
    start = readme.index("$ commtap report build/demo\n")
    shown = textwrap.dedent(readme[readme.index("\n    Job\n", start):readme.index("\n## What it costs", start)])
    jobs.run("openmpi", 4, [jobs.program("openmpi", "train"), "--slow-rank", "2", "--slow-ms", "8", "--steps", "40"],
             tmp_path)
    printed = shape(jobs.commtap("report", tmp_path).stdout)
    assert set(printed) == {"Job", *TABLES}
    assert shape(shown) == printed
