# SPDX-License-Identifier: Apache-2.0
#
# Fixtures of the end-to-end tests. Must not live here: helpers that a test calls (test/support/jobs.py), tests.
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: tells by times who is slow; no other test may run beside it")
    config.addinivalue_line("markers", "hangs: looks at jobs that stand still; few tests may run beside it")


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request):
    """Each test that asks for it runs under both MPIs."""
    return request.param


@pytest.fixture
def where(tmp_path):
    """A directory for a job's dumps, not made yet: commtap makes it."""
    return tmp_path / "dumps"
