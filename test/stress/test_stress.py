# SPDX-License-Identifier: Apache-2.0
#
# A process that treats the shim badly ends as it does without it, and its counts stay exact.
# Must not live here: ordinary jobs (test/e2e).
import collections
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs  # noqa: E402  (its folder has to be on the path first)

STRESS = jobs.BUILD / "test" / "stress"


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request):
    return request.param


@pytest.fixture
def where(tmp_path):
    return tmp_path / "dumps"


def stress(mpi, way, where, preload=(), knobs=None):
    """What the program says it did. It is its own only rank: no launcher."""
    if not (STRESS / f"stress.{mpi}").exists():
        pytest.skip(f"{mpi} is not here")
    environment = {**jobs.clean_environment(), "LD_PRELOAD": ":".join([*preload, str(jobs.SHIM)]),
                   "COMMTAP_DIR": str(where), "COMMTAP_RUN_ID": "stress", **(knobs or {})}
    done = subprocess.run([STRESS / f"stress.{mpi}", way], env=environment, capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return {name: int(number) for name, number in (line.split() for line in done.stdout.splitlines())}


def calls(path):
    """op -> calls, of a directory of dumps."""
    total = collections.Counter()
    for row in jobs.report(path)["summary"]:
        total[row["op"]] += row["count"]
    return total


def check(done, where):
    counted = calls(where)
    assert {name: counted[name] for name in done} == done


@pytest.mark.parametrize("way", ["threads", "destructors", "small-stack", "requests"])
@pytest.mark.parametrize("ring", ["16", "16384"])
def test_counts_stay_exact(mpi, way, ring, where):
    check(stress(mpi, way, where, knobs={"COMMTAP_RING": ring}), where)


def test_jump_out_of_a_call(where):
    """MPICH itself does not survive this with MPI_THREAD_MULTIPLE."""
    done = stress("openmpi", "jump", where)
    assert done.pop("jumps") == 10
    check(done, where)


def test_forks_do_not_share_a_dump(mpi, where):
    done = stress(mpi, "forks", where)
    dumps = sorted(where.glob("*.ct"), key=os.path.getsize)
    assert len(dumps) == 1 + done["children"]
    counts = []
    for i, dump in enumerate(dumps):
        alone = where.parent / f"alone{i}"
        alone.mkdir()
        (alone / dump.name).symlink_to(dump)
        counts.append(calls(alone)["MPI_Allreduce"])
    assert sorted(counts) == [done["child"]] * done["children"] + [done["parent"]]


def test_children_forked_while_threads_create_communicators(mpi, where):
    """They are no ranks: they leave no dumps, and end."""
    done = stress(mpi, "creations", where)
    assert len(jobs.dumps(where)) == 1
    check(done, where)


def test_exit_while_threads_communicate(mpi, where):
    for _ in range(5):
        stress(mpi, "exit", where)
    assert calls(where)["MPI_Allreduce"] > 0
    jobs.commtap("check", where)


@pytest.mark.parametrize("order", ["before", "behind"])
def test_other_tools_beside_it(mpi, order, where):
    """A wrapper library of someone else's sees every call. Behind commtap both do; in front it calls PMPI, past us."""
    tool = str(STRESS / f"tool.{mpi}.so")
    shim = str(jobs.SHIM)
    environment = {**jobs.clean_environment(), "COMMTAP_DIR": str(where),
                   "LD_PRELOAD": f"{tool}:{shim}" if order == "before" else f"{shim}:{tool}"}
    done = subprocess.run([STRESS / f"stress.{mpi}", "threads"], env=environment, capture_output=True, text=True,
                          timeout=120, check=True)
    said = dict(line.split() for line in done.stdout.splitlines())
    assert said["tool"] == said["MPI_Allreduce"]
    if order == "behind":
        assert calls(where)["MPI_Allreduce"] == int(said["MPI_Allreduce"])
