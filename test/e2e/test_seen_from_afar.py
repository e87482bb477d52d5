# SPDX-License-Identifier: Apache-2.0
#
# A job whose dumps lie in a shared directory, asked for from a host on which none of its processes run: these are seen by
# what they write alone. Must not live here: dumps that are not shared (test_staging.py), verdicts in general (test_diagnose.py).
import json
import os
import signal
import subprocess
import time

import pytest

import jobs
from test_diagnose import RANKS, hanging, states

pytestmark = pytest.mark.hangs

AFAR = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'


@pytest.fixture
def afar(tmp_path):
    """Runs commtap as on a host that was started another time."""
    if os.geteuid() != 0:
        pytest.skip("only root can have a boot id of its own")
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("11111111-2222-4333-8444-555555555555\n")
    line = ["unshare", "--mount", "sh", "-c", AFAR, str(boot_id)]
    if subprocess.run([*line, "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")

    def ask(command, where):
        done = subprocess.run([*line, str(jobs.COMMTAP), command, "--format", "json", str(where)], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), done
        return json.loads(done.stdout)
    return ask


def codes(report):
    return {finding["code"] for finding in report["findings"]}


def test_a_job_that_works(mpi, where, afar):
    """And one that was killed at work: nobody is to blame of whom nothing tells that he stood."""
    process = jobs.start(jobs.job_line(mpi, RANKS, [jobs.program(mpi, "train"), "--steps", "1000000"], where))
    try:
        end = time.monotonic() + 60
        while len(list(where.glob("*.ct"))) < RANKS:
            assert time.monotonic() < end
            time.sleep(0.1)
        time.sleep(5)  # two beats, and looks at all ranks
        assert afar("diagnose", where)["verdict"] == "ok"
        said = codes(afar("report", where))
        assert "running" in said and "killed" not in said
        pids = [row["pid"] for row in jobs.document("top", "--once", "--interval", "0.1", where)["ranks"]]
        for pid in [process.pid, *pids]:
            os.kill(pid, signal.SIGKILL)
    finally:
        jobs.stop(process)
    assert afar("diagnose", where)["severity"] != "error"
    said = codes(afar("report", where))
    assert "killed" in said and "running" not in said


def test_a_job_that_hangs(mpi, where, afar):
    """The verdict is the one of its own host, while it hangs and after it was killed."""
    with hanging(mpi, "skip", where):
        time.sleep(5)
        near, far = jobs.document("diagnose", where), afar("diagnose", where)
        assert (far["verdict"], far["severity"], states(far)) == (near["verdict"], near["severity"], states(near))
        assert far["standing"] is None and "by now" in " ".join(far["text"])
        assert "running" in codes(afar("report", where))
    dead = afar("diagnose", where)
    assert (dead["verdict"], states(dead)) == (near["verdict"], states(near))
    assert dead["standing"]["kind"] == "long" and dead["standing"]["seconds"] > 3
    assert "None of the processes is seen to live" in " ".join(dead["text"])
