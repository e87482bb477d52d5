# SPDX-License-Identifier: Apache-2.0
#
# mpi4py's own test suite gives the same outcome, test by test and rank by rank, with commtap and without.
# Must not live here: what commtap records of it.
import os
import re

import pytest

import jobs
import mpi4py_builds

# MPI, ranks, which tests. Spawning is for one rank on Open MPI only: more ranks hang in it without commtap as well,
# and mpi4py skips it on MPICH.
SUITES = [
    ("openmpi", 1, ["-e", "spawn"]),
    ("openmpi", 2, ["-e", "spawn"]),
    ("openmpi", 1, ["-i", "spawn"]),
    ("mpich", 1, ["-e", "spawn"]),
    ("mpich", 2, ["-e", "spawn"]),
]
if os.environ.get("COMMTAP_TEST_MPI4PY") == "all":
    SUITES += [("openmpi", 4, ["-e", "spawn"]), ("mpich", 4, ["-e", "spawn"]), ("mpich", 3, ["-e", "spawn"])]
OUTCOME = re.compile(r"^(test\w+ \([\w.]+\)).*?\.\.\. .*?(ok|skipped .*|expected failure|FAIL|ERROR)$", re.M | re.S)


def outcomes(mpi, ranks, selection, directory, **how):
    """[{test: outcome}] by rank. Each rank writes a file of its own, so that lines stay whole."""
    directory.mkdir()
    script = 'exec "$0" "$@" >"$OUTPUT.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" 2>&1'
    tests = [jobs.PYTHON, str(mpi4py_builds.test_suite() / "runtests.py"), "--no-builddir", "-v", *selection]
    environment = {**mpi4py_builds.environment(mpi), "OUTPUT": str(directory / "rank")}
    done = jobs.run(mpi, ranks, ["sh", "-c", script, *tests], directory / "dumps", environment=environment,
                    check=False, **how)
    texts = [(directory / f"rank.{rank}").read_text() for rank in range(ranks)]
    return done.returncode, [dict(OUTCOME.findall(text)) for text in texts], texts


@pytest.mark.parametrize("mpi, ranks, selection", SUITES, ids=[f"{s[0]}-{s[1]}-{s[2][0][1]}-spawn" for s in SUITES])
def test_the_suite_passes_as_without(mpi, ranks, selection, tmp_path):
    code_without, without, _ = outcomes(mpi, ranks, selection, tmp_path / "without", way="none")
    code, outcome, texts = outcomes(mpi, ranks, selection, tmp_path / "with")
    assert len(without[0]) >= 40
    for rank in range(ranks):
        changed = {t: (o, outcome[rank].get(t)) for t, o in without[rank].items() if outcome[rank].get(t) != o}
        assert not changed, f"rank {rank}: {changed}\n{texts[rank][-3000:]}"
    assert code == code_without
    assert len(jobs.dumps(tmp_path / "with" / "dumps")) >= ranks
