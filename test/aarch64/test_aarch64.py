# SPDX-License-Identifier: Apache-2.0
#
# Two ranks of an NCCL job on emulated processors of the other kind: every call counted, stacks, the operator's policy.
# Must not live here: the unwinder (make check-stacks-aarch64), what calls do (test/e2e/test_nccl_calls.py).
import collections
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "support"))

import jobs  # noqa: E402

AARCH64 = jobs.BUILD / "aarch64"
# qemu itself must not be given what the emulated process is.
QEMU = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]


def start(rank, ranks, folder, **variables):
    variables = {"LD_PRELOAD": AARCH64 / "libcommtap.so", "LD_LIBRARY_PATH": AARCH64 / "standin", "COMMTAP_RUN_ID": "emulated",
                 "RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "MASTER_ADDR": "localhost", "MASTER_PORT": "1234", **variables}
    given = [word for name, value in variables.items() for word in ("-E", f"{name}={value}")]
    program = [AARCH64 / "test" / "programs" / "nccl" / "exercise", "all", rank, ranks, folder]
    return subprocess.Popen([str(word) for word in [*QEMU, *given, *program]], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=jobs.clean_environment())


def play(folder, **variables):
    """What both ranks say that they did."""
    folder.mkdir()
    running, books = [start(rank, 2, folder, **variables) for rank in range(2)], collections.Counter()
    for process in running:
        out, err = process.communicate(timeout=300)
        assert (process.returncode, err) == (0, "")
        for name, (count, _) in json.loads(out).items():
            books[name] += count
    return books


def test_all_that_it_did_is_on_record(tmp_path):
    jobs.need("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user")
    dumps = tmp_path / "dumps"
    books = play(tmp_path / "ids", COMMTAP_DIR=dumps)
    assert len(jobs.dumps(dumps)) == 2 and "0 problems" in jobs.commtap("check", dumps).stdout
    seen = collections.Counter()
    for row in jobs.summary(dumps)["summary"]:
        seen[row["op"]] += row["count"] * (row["source"] == "host")
    for name in ("ncclCommInitRank", "ncclCommSplit", "ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclAlltoAll"):
        assert seen[name] == books[name] > 0, name
    assert '"collectives"' in jobs.commtap("calls", "--format", "json", dumps).stdout  # its function, found by the stacks


def test_the_policy_is_read(tmp_path):
    jobs.need("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user")
    policy = tmp_path / "policy"
    policy.write_text(f"fixed COMMTAP_DIR={tmp_path}/of-policy\nCOMMTAP_QUIET=1\n")
    policy.chmod(0o644)
    play(tmp_path / "ids", COMMTAP_POLICY=policy, COMMTAP_DIR=tmp_path / "dumps")
    assert len(jobs.dumps(tmp_path / "of-policy")) == 2 and not (tmp_path / "dumps").exists()
    policy.chmod(0o666)
    with pytest.raises(AssertionError, match="others than its owner may write to it"):
        play(tmp_path / "more-ids", COMMTAP_POLICY=policy, COMMTAP_DIR=tmp_path / "dumps")
    os.chmod(policy, 0o644)
