# SPDX-License-Identifier: Apache-2.0
#
# Call trees of real programs on four ranks, each with its own addresses: names, lines, counts; files that changed since.
# Lives here: what the trees of test/programs/calls.cc and calls.py are. Must not live here: the unwinder's own tests.
import ctypes.util
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import threading

import pytest

import jobs

RANKS = 4
SOURCES = jobs.ROOT / "test" / "programs"


def line_of(source, mark):
    lines = (SOURCES / source).read_text().splitlines()
    [number] = [i for i, line in enumerate(lines, 1) if line.endswith((f"// @{mark}", f"# @{mark}"))]
    return number


def build(mpi, path, *flags, source="calls.cc"):
    jobs.need_mpi(mpi)
    jobs.need("g++")
    subprocess.run([f"mpicxx.{mpi}", "-std=c++11", "-g", "-O2", *flags, SOURCES / source, "-o", path], check=True)
    return str(path)


def calls(directory, *options):
    return jobs.document("calls", *options, directory)


def sketch(node):
    """(name, line, count, children in any order): what must be equal."""
    return node["name"], node["line"], node["count"], frozenset(sketch(child) for child in node["children"])


def tree(name, line, count, *children):
    return name, line, count, frozenset(children)


def walk(node):
    yield node
    for child in node["children"]:
        yield from walk(child)


def cxx_tree():
    def at(mark):
        return line_of("calls.cc", mark)

    recursion = tree("recurse", at("barrier"), RANKS)
    for _ in range(3):
        recursion = tree("recurse", at("again"), RANKS, recursion)
    return tree(
        "Global", None, 10 * RANKS,
        tree("main", at("init"), RANKS),
        tree("main", at("loop"), 5 * RANKS,
             tree("app::step", at("step"), 5 * RANKS, tree("app::Halo<double>::run", at("halo"), 5 * RANKS))),
        tree("main", at("recurse"), RANKS, recursion),
        tree("main", at("sort"), RANKS, tree("compare", at("compare"), RANKS)),
        tree("main", at("main-handle"), RANKS, tree("handle", at("handle"), RANKS)),
        tree("main", at("finalize"), RANKS))


@pytest.fixture(scope="module", params=["openmpi", "mpich"])
def cxx(request, tmp_path_factory):
    """(directory of dumps, path of the program)"""
    here = tmp_path_factory.mktemp(request.param)
    program = build(request.param, here / "calls")
    jobs.run(request.param, RANKS, [program], here / "dumps")
    return here / "dumps", pathlib.Path(program)


def randomised():
    return pathlib.Path("/proc/sys/kernel/randomize_va_space").read_text().strip() != "0"


def test_a_cxx_programs_tree_is_the_expected_one(cxx):
    assert randomised(), "ranks must not agree on addresses by chance"
    result = calls(cxx[0])
    assert result["notes"] == []
    assert result["coverage"] == {"calls_without_stack": 0, "calls_lost": 0, "records_left_out": 0,
                                  "ranks_left_out": False, "posting_unknown": False,
                                  "source": "tables", "window": None}
    assert sketch(result["root"]) == cxx_tree()
    for node in walk(result["root"]):
        if node["kind"] == "native":
            assert node["file"].endswith("/test/programs/calls.cc")


@pytest.mark.parametrize("flags", [["-gdwarf-4"], ["-gdwarf-5"], ["-gdwarf-5", "-gsplit-dwarf"]],
                         ids=["dwarf-4", "dwarf-5", "split"])
def test_inlined_calls_are_frames_of_their_own(flags, tmp_path):
    def at(mark):
        return line_of("inlined.cc", mark)
    program = build("openmpi", tmp_path / "inlined", *flags, source="inlined.cc")
    jobs.run("openmpi", RANKS, [program], tmp_path / "dumps")
    assert sketch(calls(tmp_path / "dumps")["root"]) == tree(
        "Global", None, 8 * RANKS,
        tree("main", at("init"), RANKS),
        tree("main", at("main-solve"), 5 * RANKS,
             tree("solve", at("solve"), 5 * RANKS, tree("app::Grid<double>::exchange", at("exchange"), 5 * RANKS))),
        tree("main", at("main-barrier"), RANKS),
        tree("main", at("finalize"), RANKS))
    # what is a library's is told by its name, inlined or not: the site is the line that uses it
    sites = {row["op"]: row["site"] for row in jobs.summary(tmp_path / "dumps", "--by", "site,op")["summary"]}
    assert sites["MPI_Barrier"] == f"main (inlined.cc:{at('main-barrier')})"
    assert sites["MPI_Allreduce"] == f"app::Grid<double>::exchange (inlined.cc:{at('exchange')})"


def test_sums_are_those_of_the_summary(cxx):
    root = calls(cxx[0])["root"]
    by_op = {row["op"]: row for row in jobs.summary(cxx[0], "--by", "op")["summary"]}
    assert set(root["ops"]) == set(by_op)
    for op, sums in root["ops"].items():
        assert (sums["count"], sums["bytes"]) == (by_op[op]["count"], by_op[op]["bytes_total"])
        assert sums["time_us"] == pytest.approx(by_op[op]["time_total_us"], rel=0.01, abs=1)
    sites = {(row["site"], row["op"]): row["count"] for row in jobs.summary(cxx[0], "--by", "site,op")["summary"]}
    assert sites[f"app::Halo<double>::run (calls.cc:{line_of('calls.cc', 'halo')})", "MPI_Allreduce"] == 5 * RANKS
    assert sum(sites.values()) == root["count"]


def test_filters_and_noise(cxx):
    assert calls(cxx[0], "--op", "barrier", "--rank", "1-2")["root"]["ops"].keys() == {"MPI_Barrier"}
    assert calls(cxx[0], "--op", "barrier", "--rank", "1-2")["root"]["count"] == 4
    assert calls(cxx[0], "--comm", "no_such")["root"]["count"] == 0
    [halo] = [n for n in walk(calls(cxx[0], "--noise", "1")["root"]) if n["name"] == "app::Halo<double>::run"]
    assert halo["calls"][0]["ranks"] == [0, 1, 2, 3]
    assert halo["calls"][0]["sizes"] == [{"bytes": 8, "datatype": "double", "count": 5 * RANKS}]
    names = {n["name"] for n in walk(calls(cxx[0], "--noise", "2")["root"])}
    assert "__libc_start_main" in names or "__libc_start_call_main" in names
    assert not any("commtap" in (n.get("module") or "") for n in walk(calls(cxx[0], "--noise", "2")["root"]))
    [halo] = [n for n in walk(calls(cxx[0], "--noise", "3")["root"]) if n["name"] == "app::Halo<double>::run"]
    assert len(halo["records"]) == 5 * RANKS and {r["rank"] for r in halo["records"]} == {0, 1, 2, 3}
    assert calls(cxx[0], "--skip-frames", "function:recurse")["root"] != calls(cxx[0])["root"]
    jobs.commtap("calls", "--skip-frames", "colour:blue", cxx[0], codes=(2,))


def test_top_shows_the_costliest_frames_and_counts_the_others(cxx):
    """Of each frame one below it: all calls of the others stand in the lines that stand for them."""
    def lines(*words):
        text = jobs.commtap("calls", *words, cxx[0]).stdout
        return [line for line in text.partition("\n\n")[0].splitlines() if not line.lstrip().startswith("*")]

    node, expected = calls(cxx[0])["root"], []
    while node["children"]:  # as the JSON has them: all, the costliest first
        assert node["children"][0]["time_us"] == max(child["time_us"] for child in node["children"])
        expected += [sum(child["count"] for child in node["children"][1:])] if len(node["children"]) > 1 else []
        node = node["children"][0]
    rests = [re.search(r"\.\.\. and \d+ more: (\d+) calls", line) for line in lines("--top", "1")]
    assert expected and sorted(int(rest[1]) for rest in rests if rest) == sorted(expected)
    assert len(lines("--top", "1")) < len(lines()) == len(lines("--top", "1000"))
    assert jobs.commtap("calls", "--top", "0", cxx[0], codes=(2,)).stdout == ""


@pytest.mark.parametrize("weight", ["time", "bytes", "count", "wait"])
def test_folded_stacks_add_up(cxx, weight):
    root = calls(cxx[0], "--waits")["root"]
    lines = jobs.commtap("calls", "--format", "folded", "--weight", weight, cxx[0]).stdout.splitlines()
    total = sum(int(line.rsplit(" ", 1)[1]) for line in lines)
    whole = {"time": root["time_us"] * 1e3, "bytes": root["bytes"], "count": root["count"],
             "wait": root["wait_us"] * 1e3}[weight]
    assert total == pytest.approx(whole, abs=1) and total > 0
    assert all(line.split(";")[0].startswith("main (calls.cc:") for line in lines)


def check_module(module, is_root):
    """The recursive schema of CommDebugMode's JSON."""
    assert set(module) == {"fqn", "module_type", "parameters", "children", "collectives_forward",
                           "collectives_backward", "operations_forward", "operations_backward",
                           "operations_checkpointing"}
    assert isinstance(module["fqn"], str) and isinstance(module["module_type"], str)
    assert (module["fqn"] == "Global") == is_root
    assert all(isinstance(name, str) and isinstance(place, str) for name, place in module["parameters"])
    for key in ("collectives_forward", "collectives_backward"):
        assert all(isinstance(op, str) and type(count) is int for op, count in module[key])
    for key in ("operations_forward", "operations_backward", "operations_checkpointing"):
        for operation in module[key]:
            assert set(operation) == {"name", "input_shape", "input_sharding", "device_mesh", "is_bw",
                                      "is_activation_checkpointing"}
            assert isinstance(operation["name"], str) and isinstance(operation["device_mesh"], str)
            assert len(operation["input_shape"]) == len(operation["input_sharding"])
            assert isinstance(operation["is_bw"], bool)
            assert isinstance(operation["is_activation_checkpointing"], bool)
    for child in module["children"]:
        check_module(child, False)


def test_commdebug_json_has_its_schema(cxx, tmp_path):
    for noise in "0123":
        path = tmp_path / f"log{noise}.json"
        jobs.commtap("calls", "--format", "commdebug", "--noise", noise, "-o", path, cxx[0])
        text = path.read_text()
        module = json.loads(text)
        check_module(module, True)
        assert text.startswith('{\n    "fqn": "Global",\n'), "indented by 4, as there"
        assert dict(map(tuple, module["collectives_forward"]))["MPI_Allreduce"] == 5 * RANKS
    assert any(op["device_mesh"] == "DeviceMesh([0, 1, 2, 3])"
               for child in module["children"] for op in gather(child))


def gather(module):
    yield from module["operations_forward"]
    for child in module["children"]:
        yield from gather(child)


def test_text_has_the_layout_of_commdebugmode(cxx, tmp_path):
    path = tmp_path / "tree.txt"
    jobs.commtap("calls", "-o", path, cxx[0])
    lines = path.read_text().splitlines()
    assert "\033" not in path.read_text() and lines[0].startswith("Global ")
    [at] = [i for i, line in enumerate(lines) if line.lstrip().startswith("app::step ")]
    assert lines[at].startswith(" " * 8 + "app::step (calls.cc:")
    assert lines[at + 1].startswith(" " * 12 + f"*MPI_Allreduce: {5 * RANKS} ")
    assert "\033[" in jobs.commtap("calls", "--color", "always", cxx[0]).stdout


# ---- files that are not what they were ------------------------------------------------------------


@pytest.fixture(scope="module")
def stripped(tmp_path_factory):
    """A stripped program with its debug data beside it, and the dumps of its run."""
    here = tmp_path_factory.mktemp("stripped")
    program = build("openmpi", here / "calls")
    subprocess.run(["objcopy", "--only-keep-debug", program, here / "calls.debug"], check=True)
    subprocess.run(["strip", program], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={here / 'calls.debug'}", program], check=True)
    jobs.run("openmpi", RANKS, [program], here / "dumps")
    return here


def test_a_stripped_program_with_its_debug_file(stripped):
    assert sketch(calls(stripped / "dumps")["root"]) == cxx_tree()


def test_a_stripped_program(stripped, tmp_path):
    hidden = tmp_path / "calls.debug"
    shutil.move(stripped / "calls.debug", hidden)
    try:
        result = calls(stripped / "dumps")
    finally:
        shutil.move(hidden, stripped / "calls.debug")
    assert result["root"]["count"] == 10 * RANKS
    halo = [n for n in walk(result["root"]) if n["count"] == 5 * RANKS]
    assert len(halo) == 3 and all(n["name"].startswith("calls+0x") and n["line"] is None for n in halo)


def test_debug_files_by_build_id(stripped, tmp_path):
    notes = subprocess.run(["readelf", "-n", stripped / "calls"], capture_output=True, text=True, check=True).stdout
    build_id = notes.split("Build ID: ")[1].split()[0]
    place = tmp_path / ".build-id" / build_id[:2]
    place.mkdir(parents=True)
    shutil.move(stripped / "calls.debug", place / f"{build_id[2:]}.debug")
    try:
        assert sketch(calls(stripped / "dumps", "--debug-dir", tmp_path)["root"]) == cxx_tree()
    finally:
        shutil.move(place / f"{build_id[2:]}.debug", stripped / "calls.debug")


class Server(http.server.BaseHTTPRequestHandler):
    """debuginfod, for one build-id."""
    file, asked = None, []

    def do_GET(self):
        self.asked.append(self.path)
        data = self.file.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.mark.skipif(not ctypes.util.find_library("debuginfod"), reason="libdebuginfod is not installed")
def test_servers_are_asked_only_when_they_are_named(stripped, tmp_path, monkeypatch):
    hidden = tmp_path / "calls.debug"
    shutil.move(stripped / "calls.debug", hidden)
    Server.file, Server.asked = hidden, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    try:
        monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
        assert calls(stripped / "dumps", "--debug-dir", tmp_path)["root"]["children"][0]["line"] is None
        assert Server.asked == []
        monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{server.server_port}")
        assert sketch(calls(stripped / "dumps", "--debug-dir", tmp_path)["root"]) == cxx_tree()
        assert any(path.endswith("/debuginfo") for path in Server.asked)
    finally:
        server.shutdown()
        server.server_close()
        shutil.move(hidden, stripped / "calls.debug")


def test_a_program_that_is_gone_or_another_now(cxx, tmp_path):
    dumps, program = cxx
    hidden = tmp_path / "calls"
    shutil.move(program, hidden)
    try:
        result = calls(dumps)
        assert [note for note in result["notes"] if "not here" in note and str(program) in note]
        assert result["root"]["count"] == 10 * RANKS
        assert {c["name"].split("+")[0] for c in result["root"]["children"]} == {"calls"}
        shutil.copy("/bin/true", program)
        result = calls(dumps)
        [note] = [note for note in result["notes"] if str(program) in note]
        assert "replaced" in note
        assert {c["name"].split("+")[0] for c in result["root"]["children"]} == {"calls"}
    finally:
        shutil.move(hidden, program)
    assert calls(dumps)["notes"] == []


def test_a_library_loaded_by_a_relative_path_is_named(tmp_path):
    """Found by LD_LIBRARY_PATH=., by a program that goes elsewhere before its first call."""
    build("openmpi", tmp_path / "libhalf.so", "-fPIC", "-shared", "-DLIBRARY", source="halves.cc")
    build("openmpi", tmp_path / "halves", "-Wl,--no-as-needed", "-L", tmp_path, "-lhalf", source="halves.cc")
    command = f"cd {tmp_path} && LD_LIBRARY_PATH=. exec ./halves"
    jobs.run("openmpi", RANKS, ["sh", "-c", command], tmp_path / "dumps")
    result = calls(tmp_path / "dumps")
    assert result["notes"] == []
    assert sketch(result["root"]) == tree(
        "Global", None, 3 * RANKS,
        tree("main", line_of("halves.cc", "init"), RANKS),
        tree("main", line_of("halves.cc", "main-meet"), RANKS,
             tree("meet", line_of("halves.cc", "meet"), RANKS)),
        tree("main", line_of("halves.cc", "finalize"), RANKS))


def test_names_outlive_the_program(tmp_path):
    """`commtap run` keeps them: they are told of the program that ran, whatever lies in its place since."""
    dumps, program = tmp_path / "dumps", tmp_path / "inlined"
    build("openmpi", program, source="inlined.cc")
    jobs.run("openmpi", RANKS, [str(program)], dumps, way="run")
    before = calls(dumps)["root"]
    [kept] = dumps.glob("*.symbols")
    assert kept.stat().st_mode & 0o077 == 0
    build("openmpi", program, "-DLIBRARY=1", "-O0", source="inlined.cc")
    result = calls(dumps)
    assert result["root"] == before and "app::Grid<double>::exchange" in {node["name"] for node in walk(before)}
    assert result["notes"] == []
    program.unlink()
    assert calls(dumps)["root"] == before and calls(dumps)["notes"] == []
    # the build id decides: of another build nothing is believed
    text = kept.read_text()
    [module] = [line for line in text.splitlines() if line.startswith("module\t") and line.endswith("/inlined")]
    kept.write_text(text.replace(module, module.replace(module.split("\t")[1], "00" * 20)))
    result = calls(dumps)
    assert {c["name"].split("+")[0] for c in result["root"]["children"]} == {"inlined"}
    assert [note for note in result["notes"] if "not here" in note]
    # and what is damaged is said, by file, byte and reason
    kept.write_text(text[:-5])
    [note] = [note for note in calls(dumps)["notes"] if str(kept) in note]
    assert "cut off" in note and f"byte {text.rstrip().rindex(chr(10)) + 1}:" in note


def test_where_nothing_has_a_name_nothing_is_kept(tmp_path):
    jobs.run("openmpi", 2, [jobs.program("openmpi", "train"), "--steps", "5"], tmp_path, way="run",
             knobs={"COMMTAP_STACK": "off"})
    assert not list(tmp_path.glob("*.symbols*"))


# ---- Python -----------------------------------------------------------------------------------------


def test_an_mpi4py_programs_tree_is_the_expected_one(where):
    jobs.run("openmpi", RANKS, [jobs.PYTHON, str(SOURCES / "calls.py")], where)
    result = calls(where, "--op", "!*init*,!*finalize*,!*comm_*")  # what importing and leaving make of their own

    def at(mark):
        return line_of("calls.py", mark)

    folds = sum(n["count"] for n in walk(result["root"]) if n["name"] == "<lambda>")
    assert folds >= 2 * RANKS  # mpi4py's allreduce of objects may be several calls
    assert sketch(result["root"]) == tree(
        "Global", None, 7 * RANKS + folds,
        tree("<module>", at("main-train"), 4 * RANKS,
             tree("train", at("train"), 4 * RANKS,
                  tree("Model.forward", at("forward"), 4 * RANKS,
                       tree("Model.reduce", at("reduce"), 4 * RANKS)))),
        tree("<module>", at("main-sum"), 3 * RANKS, tree("numbers", at("generator"), 3 * RANKS)),
        tree("<module>", at("main-fold"), folds, tree("<lambda>", at("lambda"), folds)))
    assert {n["kind"] for n in walk(result["root"])} == {"root", "python"}


def test_reports_name_the_line_that_hurts(where):
    jobs.run("openmpi", RANKS, [jobs.program("openmpi", "train"), "--slow-rank", "2", "--slow-ms", "8"], where)
    result = jobs.report(where)
    assert result["sites"][0]["site"].startswith("train_step (train.c:")
    assert result["sites"][0]["wait_seconds"] > 0
    assert jobs.stragglers(result)[0]["site"] == result["sites"][0]["site"]
    assert result["sites"][0]["site"] in jobs.commtap("report", where).stdout.replace("\n         ", " ")
    assert result["sites"][0]["site"] in jobs.commtap("stragglers", where).stdout.replace("\n         ", " ")
