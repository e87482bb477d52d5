# SPDX-License-Identifier: Apache-2.0
#
# Several jobs under one `commtap run`, in one directory, or in several: told apart, listed, chosen by their ids, and
# never added up.
# Must not live here: restarts of one job (test_endings.py), what the library is told of its job (test_places.py).
import re
import shutil
import subprocess
import time

import pytest

import jobs

ALLREDUCES = 50  # of program `ending`


def under_one_run(mpi, where, *scripts, **how):
    """Shell lines, of which $1 ... are the words that start program `ending` on one to four ranks."""
    jobs.need_mpi(mpi)
    line = " ".join(jobs.launch_line(mpi, 9, [jobs.program(mpi, "ending"), "proper"], {}))
    script = "\n".join(re.sub(r"\bjob (\d)", lambda found: line.replace("-n 9", f"-n {found[1]}"), text)
                       for text in scripts)
    done = subprocess.run([jobs.COMMTAP, "run", "-o", where, "--", "sh", "-c", script], capture_output=True, text=True,
                          env=jobs.clean_environment(), cwd=jobs.BUILD, timeout=120, **how)
    assert done.returncode == 0, done.stderr
    return done


def allreduces(document):
    return sum(row["count"] for row in document["summary"] if row["op"] == "MPI_Allreduce")


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def codes(document):
    return {finding["code"] for finding in document["findings"]}


@pytest.fixture
def two(mpi, where):
    """A job of 3 ranks, then one of 2."""
    under_one_run(mpi, where, "job 3", "job 2")
    return where


def test_launches_one_after_the_other_are_jobs_of_their_own(two):
    result = jobs.report(two)
    run = result["job"]["run_id"]
    assert [job["id"] for job in result["jobs"]] == [f"{run}/1", f"{run}/2"]
    assert [job["ranks_seen"] for job in result["jobs"]] == [3, 2]
    assert result["jobs"][0]["started"] <= result["jobs"][1]["started"]
    assert (result["job"]["id"], result["job"]["ranks_seen"]) == (f"{run}/2", 2)  # the newest, not the largest
    assert allreduces(result) == 2 * ALLREDUCES
    assert "several_launches" in codes(result) and "several_worlds" not in codes(result)
    said = jobs.commtap("report", two).stdout
    assert "one after the other" in said and f"{run}/1" in said and "side by side" not in said


def test_list_counts_launches_and_has_one_line_for_what_goes_together(two):
    row, = jobs.document("list", two)["jobs"]
    assert (row["dumps"], row["launches"]) == (5, 2)


def test_a_forked_process_that_outlives_its_parents_is_no_launch(mpi, where):
    """It makes its first call when all else is over."""
    done = jobs.run(mpi, 2, [jobs.program(mpi, "children"), "left", "1"], where)
    assert done.returncode == 0
    wait_until(lambda: len(jobs.dumps(where)) == 4)
    result = jobs.report(where)
    assert len(result["jobs"]) == 1 and result["job"]["ranks_seen"] == 2
    assert "several_launches" not in codes(result) and "duplicates" in codes(result)
    assert jobs.document("list", where)["jobs"][0]["launches"] == 1


def test_each_can_be_chosen_and_none_is_added_to_another(two):
    run = jobs.report(two)["job"]["run_id"]
    for id, ranks in ((f"{run}/1", 3), (f"{run}/2", 2), (run, 2)):
        chosen = jobs.document("report", "--run", id, two)
        assert chosen["job"]["ranks_seen"] == ranks and allreduces(chosen) == ranks * ALLREDUCES
        assert allreduces(jobs.summary(two, "--run", id)) == ranks * ALLREDUCES
        assert jobs.document("diagnose", "--run", id, two)["verdict"] == "ok"
        assert len({row["rank"] for row in jobs.records(two, "--run", id)}) == ranks
    plain = jobs.commtap("summary", "--format", "json", two)
    assert allreduces(jobs.json.loads(plain.stdout)) == 2 * ALLREDUCES
    assert "3 dumps of other jobs" in plain.stderr


def test_an_id_that_there_is_not_lists_those_that_there_are(two):
    run = jobs.report(two)["job"]["run_id"]
    for command in ("report", "summary", "stragglers", "steps", "calls", "diagnose", "export"):
        said = jobs.commtap(command, "--run", "nonsense", two, codes=(3,)).stderr
        listed = re.findall(r"^  (\S+)  (\d) ranks, generation \d, from \d{4}-\d\d-\d\d [\d:]+ UTC: .*ending proper$", said, re.M)
        assert "'nonsense'" in said and listed == [(f"{run}/1", "3"), (f"{run}/2", "2")], command


def test_two_jobs_of_one_directory_can_be_compared(two):
    run = jobs.report(two)["job"]["run_id"]
    result = jobs.document("diff", "--run-a", f"{run}/1", "--run-b", f"{run}/2", two, two)
    assert (result["a"]["ranks_seen"], result["b"]["ranks_seen"]) == (3, 2)


def test_programs_side_by_side_are_called_so_and_added_up(mpi, where):
    """They overlap: the first one is still there when the second one comes."""
    jobs.need_mpi(mpi)
    line = " ".join(jobs.launch_line(mpi, 2, [jobs.program(mpi, "train"), "--slow-rank", "0", "--slow-ms", "10"], {}))
    under_one_run(mpi, where, f"{line} >/dev/null & first=$!", f"{line} >/dev/null", "wait $first")
    result = jobs.report(where)
    assert {"several_worlds"} == codes(result) & {"several_worlds", "several_launches"}
    assert "side by side" in jobs.commtap("report", where).stdout
    assert allreduces(jobs.summary(where)) == 2 * allreduces(result)
    one = jobs.summary(where, "--run", result["jobs"][0]["id"])
    assert allreduces(one) == allreduces(result)


def test_programs_without_a_launcher_are_told_apart_though_all_their_names_are_alike(mpi, where):
    """Both are rank 0 of 1 below the same shell: nothing but the time tells them apart."""
    program = jobs.program(mpi, "pcontrol")
    jobs.need_mpi(mpi)
    environment = {**jobs.clean_environment(), "COMMTAP_RUN_ID": "alone", "COMMTAP_DIR": str(where),
                   "LD_PRELOAD": str(jobs.SHIM)}
    subprocess.run(["sh", "-c", f"{program}; {program}"], env=environment, check=True, capture_output=True, timeout=60)
    result = jobs.report(where)
    assert [job["ranks_seen"] for job in result["jobs"]] == [1, 1]
    assert "duplicates" not in codes(result) and "several_launches" in codes(result)
    check = jobs.document("check", where)
    assert [row["duplicate"] for row in check["dumps"]] == [False, False]


def test_a_copy_of_a_dump_is_a_duplicate_and_no_job(mpi, where):
    jobs.run(mpi, 2, [jobs.program(mpi, "ending"), "proper"], where)
    first = jobs.dumps(where)[0]
    shutil.copy(first, first.with_name(re.sub(r"\.[0-9a-f]{16}\.", ".0123456789abcdef.", first.name)))
    result = jobs.report(where)
    assert len(result["jobs"]) == 1 and "duplicates" in codes(result) and result["job"]["ranks_seen"] == 2


def test_imports_into_one_directory_are_jobs_of_their_own(tmp_path):
    traces = jobs.ROOT / "test" / "data" / "traces"
    kept = [path for path in sorted(traces.glob("straggler-*.json.gz"))][:2]
    assert len(kept) == 2
    for path in kept:
        jobs.commtap("import", path, "-o", tmp_path / "both")
        jobs.commtap("import", path, "-o", tmp_path / path.name)
    both = jobs.report(tmp_path / "both")
    assert len(both["jobs"]) == 2 and "side by side" not in jobs.commtap("report", tmp_path / "both").stdout
    for path in kept:
        alone = jobs.report(tmp_path / path.name)
        chosen = jobs.document("report", "--run", alone["job"]["id"], tmp_path / "both")
        assert chosen["summary"] == alone["summary"]


def test_a_death_is_said_of_the_launch_that_it_was_in(mpi, where):
    """The note of who died first is one file for all launches of a run."""
    jobs.need_mpi(mpi)
    line = " ".join(jobs.launch_line(mpi, 2, [jobs.program(mpi, "ending"), "kill"], {}))
    under_one_run(mpi, where, f"{line} || true", "job 2", f"{line.replace('-n 2', '-n 3')} || true")
    ids = [job["id"] for job in jobs.report(where)["jobs"]]
    verdicts = [jobs.document("diagnose", "--run", id, where) for id in ids]
    assert verdicts[1]["verdict"] == "ok" and not re.search("first|killed", " ".join(verdicts[1]["text"]))
    for killed in (verdicts[0], verdicts[2]):
        said = " ".join(killed["text"])
        assert "nobody is to blame" not in said  # of a job of which it is known who went first
        # under a launcher that kills by SIGKILL, too, whose end came first may be no more than a guess, which is said
        assert re.search("rank 1 on .*was the first to die|first process to end was that of rank 1"
                         "|first process to end was .*, the others followed at once", said), said


AFTER_A_STOP = """
"$0" hang 0 & hanging=$!
"$0" kill 0
sleep 1
kill -STOP $WATCHER
kill -9 $hanging; wait $hanging
"$0" hang 0 & hanging=$!
until [ $(ls "$1"/*.ct | wc -l) = 3 ]; do sleep 0.1; done
sleep 0.5
kill -CONT $WATCHER
sleep 1
kill -9 $hanging; wait $hanging
true
"""


def test_a_launch_is_told_from_one_whose_end_was_seen_late(where):
    """On a host so busy that the end of one launch and the dumps of the next are heard of at once."""
    jobs.need_mpi("mpich")
    script = 'WATCHER=$PPID; ' + AFTER_A_STOP
    done = subprocess.run([jobs.COMMTAP, "run", "-o", where, "--", "sh", "-c", script,
                           jobs.program("mpich", "ending"), where], capture_output=True, text=True,
                          env=jobs.clean_environment(), cwd=jobs.BUILD, timeout=120)
    assert done.returncode == 0, done.stderr
    notes = [line for path in where.glob("*.deaths") for line in path.read_text().splitlines()]
    died = [re.match("(?:died|first)=([0-9a-f]{16})", line)[1] for line in notes if re.match("died|first", line)]
    assert len(died) == len(set(died)) == 2, notes


ENDS_AT_ONCE = """
"$0" hang 0 & hanging=$!
until [ $(ls "$1"/*.ct | wc -l) = 1 ]; do sleep 0.1; done
sleep 0.5
kill -STOP $WATCHER
kill -9 $hanging; wait $hanging
(sleep 0.5; kill -CONT $WATCHER) &
"""


@pytest.mark.parametrize("end, is_asked", [("exit 0", False), ("exit 3", False), ("kill -9 $$", True)])
def test_a_script_that_ends_right_after_its_rank_died_was_not_killed(end, is_asked, where):
    """On a busy host both are seen ended in one look: how the script ended says whether it may have been the cause."""
    jobs.need_mpi("mpich")
    subprocess.run([jobs.COMMTAP, "run", "-o", where, "--", "sh", "-c", "WATCHER=$PPID; " + ENDS_AT_ONCE + end,
                    jobs.program("mpich", "ending"), where], capture_output=True, text=True,
                   env=jobs.clean_environment(), cwd=jobs.BUILD, timeout=120)
    notes = [line for path in where.glob("*.deaths") for line in path.read_text().splitlines()]
    assert any(line.startswith("died=") for line in notes) == (not is_asked), notes


# ---- several directories ----------------------------------------------------------------------------------------------


@pytest.fixture
def parted(mpi, tmp_path):
    """One job of 4 ranks, each with a directory of its own."""
    parent = tmp_path / "parted"
    jobs.run(mpi, 4, [jobs.program(mpi, "ending"), "proper"], parent / "rank" / "%r")
    return parent


@pytest.mark.parametrize("command", ["report", "summary", "stragglers", "steps", "calls", "diagnose", "export", "check"])
def test_commands_take_several_directories_or_their_parent(command, parted, tmp_path):
    together = tmp_path / "together"
    together.mkdir()
    for path in parted.rglob("*.ct"):
        shutil.copy(path, together)
    form = "csv" if command == "export" else "json"
    words = [command, "--format", form]
    expected = jobs.commtap(*words, together).stdout
    each = sorted((parted / "rank").iterdir())
    assert len(each) == 4
    for directories in ([parted], [parted / "rank"], each, each[::-1], [*each, each[0]]):
        assert jobs.commtap(*words, *directories).stdout == expected


def test_what_to_type_next_names_them_all(parted):
    each = sorted((parted / "rank").iterdir())
    said = jobs.commtap("report", *each).stdout  # where the machine was busy a rank may be slow in so short a job
    assert re.search(f"next: commtap (summary|stragglers) {re.escape(' '.join(map(str, each)))}", said)


def test_directories_below_one_that_has_dumps_are_left_alone(mpi, where):
    for place in (where, where / "older"):
        jobs.run(mpi, 2, [jobs.program(mpi, "ending"), "proper"], place)
    assert len(jobs.report(where)["jobs"]) == 1


def test_a_directory_without_dumps_says_what_to_check(tmp_path):
    (tmp_path / "sub").mkdir()
    for command in ("report", "summary", "stragglers", "steps", "calls", "diagnose", "export", "check"):
        said = jobs.commtap(command, tmp_path, codes=(3,)).stderr
        assert str(tmp_path) in said and all(word in said for word in ("LD_PRELOAD", "COMMTAP_DIR", "MPI_Init")), command
    (tmp_path / "sub" / "commtap.run.0123456789abcdef.ct.new").write_bytes(b"")
    assert "1 process" in jobs.commtap("report", tmp_path, codes=(3,)).stderr
