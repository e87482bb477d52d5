# SPDX-License-Identifier: Apache-2.0
#
# mpi4py's own test suite gives the same outcome, test by test and rank by rank, with commtap and without.
# Must not live here: what commtap records of it.
import os
import re

import pytest

import jobs
import mpi4py_builds

SUITES = [("openmpi", 1), ("openmpi", 2), ("mpich", 1), ("mpich", 2)]
if os.environ.get("COMMTAP_TEST_MPI4PY") == "all":
    SUITES += [("openmpi", 4), ("mpich", 3), ("mpich", 4)]
NOT_RUN = "spawn"  # hangs now and then on Open MPI without commtap as well; mpi4py itself skips it on MPICH
NAME = re.compile(r"^(test\w+ \([\w.]+\))")
OUTCOME = re.compile(r"(ok|skipped .*|expected failure|FAIL|ERROR)$")


def parse(text):
    """{test: outcome} of a verbose run; the outcome may stand on a later line than the name."""
    found, name = {}, None
    for line in text.splitlines():
        started, ended = NAME.match(line), OUTCOME.search(line)
        name = started.group(1) if started else name
        if name and ended:
            found[name], name = ended.group(1), None
    return found


def outcomes(mpi, ranks, directory, **how):
    """The exit code, [{test: outcome}] by rank, the output. Each rank writes a file of its own: lines stay whole."""
    directory.mkdir()
    script = 'exec "$0" "$@" >"$OUTPUT.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" 2>&1'
    tests = [jobs.PYTHON, str(mpi4py_builds.test_suite() / "runtests.py"), "--no-builddir", "-v", "-e", NOT_RUN]
    environment = {**mpi4py_builds.environment(mpi), "OUTPUT": str(directory / "rank")}
    done = jobs.run(mpi, ranks, ["sh", "-c", script, *tests], directory / "dumps", environment=environment,
                    check=False, **how)
    texts = [(directory / f"rank.{rank}").read_text() for rank in range(ranks)]
    return done.returncode, [parse(text) for text in texts], texts


@pytest.mark.parametrize("mpi, ranks", SUITES)
def test_the_suite_passes_as_without(mpi, ranks, tmp_path):
    code_without, without, _ = outcomes(mpi, ranks, tmp_path / "without", way="none")
    code, outcome, texts = outcomes(mpi, ranks, tmp_path / "with")
    for rank in range(ranks):
        assert len(without[rank]) > 1000
        changed = {t: (o, outcome[rank].get(t)) for t, o in without[rank].items() if outcome[rank].get(t) != o}
        assert not changed, f"rank {rank}: {changed}\n{texts[rank][-1000:]}"
    assert code == code_without
    assert len(jobs.dumps(tmp_path / "with" / "dumps")) == ranks
