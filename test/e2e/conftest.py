# SPDX-License-Identifier: Apache-2.0
#
# Fixtures of the end-to-end tests. Must not live here: helpers that a test calls (jobs.py), tests.
import pytest


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request):
    """Each test that asks for it runs under both MPIs."""
    return request.param


@pytest.fixture
def where(tmp_path):
    """A directory for a job's dumps, not made yet: commtap makes it."""
    return tmp_path / "dumps"
