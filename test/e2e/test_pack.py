# SPDX-License-Identifier: Apache-2.0
#
# commtap pack on the dumps of a real job: every command says of packed dumps what it says of loose ones.
# Must not live here: damage, full disks and interruptions (test/unit/test_pack.c).
import re
import shutil
import subprocess

import pytest

import jobs

COMMANDS = ["report", "summary", "stragglers", "calls", "steps", "links", "diagnose", "export", "check"]


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    jobs.need("libzstd-dev")
    jobs.need_mpi("openmpi")
    directory = tmp_path_factory.mktemp("pack") / "dumps"
    jobs.run("openmpi", 2, [jobs.program("openmpi", "train"), "--steps", "20"], directory)
    return directory


@pytest.fixture
def copy(dumps, tmp_path):
    shutil.copytree(dumps, tmp_path / "dumps")
    return tmp_path / "dumps"


def said(directory):
    texts = [jobs.commtap(command, directory, codes=(0, 1)).stdout for command in COMMANDS]
    return [re.sub(r"commtap\.[^ :]*\.ctz:", "", text) for text in texts]


def test_commands_say_the_same_of_packed_dumps(copy):
    before = said(copy)
    jobs.commtap("pack", "--delete", copy)
    assert not list(copy.glob("*.ct")) and len(list(copy.glob("*.ctz"))) == 1
    # widths of columns follow the names that were taken out
    assert [text.split() for text in said(copy)] == [text.split() for text in before]


def test_a_packed_file_is_one_of_zstandard(copy):
    jobs.need("zstd")
    jobs.commtap("pack", copy)
    packed, = copy.glob("*.ctz")
    unpacked = subprocess.run(["zstd", "-dc", packed], capture_output=True, check=True).stdout
    assert unpacked.count(b"COMMTAP\n") == len(list(copy.glob("*.ct"))) == 2
