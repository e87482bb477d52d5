# SPDX-License-Identifier: Apache-2.0
#
# commtap metrics: the text format read strictly, figures beside those of other commands, a job under way, and the
# dashboard's names. Must not live here: how single figures come about.
import json
import re
import shutil
import subprocess
import time

import pytest

import jobs

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf'({NAME})(?:\{{((?:{NAME}="(?:[^"\\\n]|\\[\\"n])*",?)+)\}})? (\S+)')
LABEL = re.compile(rf'({NAME})="((?:[^"\\]|\\.)*)"')


def parse(text):
    """{name: (type, {labels: value})}; stricter than Prometheus: order, help and type, no series twice, no timestamp."""
    assert text.endswith("\n") and "\n\n" not in text
    families, name = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, words = line.split(" ", 3)[2:]
            assert name not in families and words.endswith(".")
            families[name] = (None, {})
        elif line.startswith("# TYPE "):
            of, kind = line.split(" ")[2:]
            assert of == name and families[name] == (None, {}) and kind in ("counter", "gauge")
            families[name] = (kind, {})
        else:
            of, labels, value = SAMPLE.fullmatch(line).groups()
            labels = tuple(LABEL.findall(labels or ""))
            assert of == name and len(dict(labels)) == len(labels) and labels not in families[name][1]
            families[name][1][labels] = float(value)
    return families


def metrics(*words):
    return parse(jobs.commtap("metrics", *words).stdout)


def values(family, *labels):
    """{values of these labels: sum}."""
    sums = {}
    for held, value in family[1].items():
        key = tuple(dict(held).get(label) for label in labels)
        sums[key] = sums.get(key, 0) + value
    return sums


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """Of three ranks two that a busy machine delays are uneven work, and no straggler is told."""
    where = tmp_path_factory.mktemp("metrics") / "slow"
    jobs.run("openmpi", 4, [jobs.program("openmpi", "train"), "--steps", "60", "--slow-rank", "1", "--slow-ms", "8"], where)
    return where


def test_names_follow_the_conventions(slow):
    families = metrics(slow)
    assert len(families) > 20
    for name, (kind, samples) in families.items():
        assert name.startswith("commtap_") and samples, name
        assert name.endswith("_total") == (kind == "counter"), name
        assert not re.search(r"_(ms|us|ns|kb|mb|gb|gbps|percent|minutes|milliseconds|microseconds)\b", name), name
        assert all(dict(labels)["run"] for labels in samples), name


def find_promtool():
    """The one of the distribution. Its package starts a server where it is installed: unpacked it does not."""
    home = jobs.BUILD / "test" / "promtool"
    fetched = home / "usr" / "bin" / "promtool"
    if shutil.which("promtool") or fetched.exists():
        return shutil.which("promtool") or fetched
    home.mkdir(parents=True, exist_ok=True)
    for line in ["apt-get", "download", "-q", "prometheus"], ["sh", "-c", "dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb"]:
        if not shutil.which(line[0]) or subprocess.run(line, cwd=home, capture_output=True, timeout=300).returncode:
            pytest.skip("promtool (Debian's package prometheus) cannot be had")
    return fetched


def test_promtool_has_nothing_against_it(slow):
    said = subprocess.run([find_promtool(), "check", "metrics"], input=jobs.commtap("metrics", slow).stdout, text=True,
                          capture_output=True, timeout=60, check=False)
    assert (said.returncode, said.stdout + said.stderr) == (0, "")


def test_totals_are_those_of_the_summary(slow):
    families, rows = metrics(slow), jobs.summary(slow)["summary"]
    for name, key, scale in (("calls_total", "count", 1), ("bytes_total", "bytes_total", 1), ("seconds_total", "time_total_us", 1e6)):
        mine = values(families[f"commtap_operation_{name}"], "op", "comm_name")
        for op, comm in {(row["op"], row["comm_name"] or "") for row in rows}:
            theirs = sum(row[key] or 0 for row in rows if row["op"] == op and (row["comm_name"] or "") == comm) / scale
            assert mine[op, comm] == pytest.approx(theirs, rel=1e-6), (name, op)
    sizes = {int(size) for (op, size) in values(families["commtap_operation_calls_total"], "op", "message_size_min") if op == "MPI_Allreduce"}
    assert sizes == {1 << (row["bytes"].bit_length() - 1) for row in rows if row["op"] == "MPI_Allreduce"}


def test_ranks_add_up_to_the_sum(slow):
    whole, parts = metrics(slow), metrics("--per-rank", slow)
    for name in ("commtap_operation_calls_total", "commtap_operation_bytes_total"):
        assert values(whole[name], "op", "message_size_min") == values(parts[name], "op", "message_size_min")
        assert {rank for _, rank in values(parts[name], "op", "rank")} == {"0", "1", "2", "3"}


def test_waits_and_stragglers_are_those_of_stragglers(slow):
    families, told = metrics(slow), jobs.document("stragglers", slow)
    assert values(families["commtap_straggler_speedup_ratio"], "kind", "rank") == pytest.approx(
        {(one["kind"], str(one["rank"])): one["what_if_speedup"] for one in told["stragglers"]})
    assert ("rank", "1") in values(families["commtap_straggler_confidence_ratio"], "kind", "rank")
    for name, key in (("delay_cost", "caused_seconds"), ("wait", "wait_seconds"), ("communication", "comm_seconds")):
        assert values(families[f"commtap_rank_{name}_seconds"], "rank") == pytest.approx(
            {(str(row["rank"]),): row[key] for row in told["ranks"]}, rel=1e-6), name


def test_the_dashboard_knows_only_names_that_are_exported(slow):
    dashboard = json.loads((jobs.ROOT / "doc" / "grafana-dashboard.json").read_text())
    used = set(re.findall(r"\bcommtap_\w+", json.dumps(dashboard)))
    exported = metrics(slow)
    assert len(used) > 12 and used <= set(exported)
    for panel in dashboard["panels"]:
        for query in panel["targets"]:
            labels = {name for held in (exported[one][1] for one in re.findall(r"commtap_\w+", query["expr"]))
                      for series in held for name, _ in series}
            assert set(re.findall(r"\{\{(\w+)\}\}", query["legendFormat"])) <= labels, panel["title"]
            assert ("rate(" in query["expr"]) <= all(exported[one][0] == "counter" for one in re.findall(r"commtap_\w+", query["expr"]))


def test_a_running_job_is_followed_to_its_end(tmp_path):
    """The collector sees whole files only; counters grow; it ends with the job."""
    where, file = tmp_path / "dumps", tmp_path / "job.prom"
    job = jobs.start(jobs.job_line("openmpi", 2, [jobs.program("openmpi", "train"), "--steps", "100", "--slow-rank", "1",
                                                  "--slow-ms", "15"], where))
    try:
        until = time.monotonic() + 60
        while len(jobs.dumps(where)) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        follower = subprocess.Popen([jobs.COMMTAP, "metrics", "--textfile", file, "--interval", "0.1", where])
        seen = []
        while follower.poll() is None and time.monotonic() < until:
            if file.exists():
                families = parse(file.read_text())
                seen.append((families["commtap_job_ranks_running"], sum(families["commtap_operation_calls_total"][1].values())))
            time.sleep(0.02)
        assert follower.wait(timeout=30) == 0
    finally:
        jobs.stop(job)
    assert any(sum(running[1].values()) > 0 for running, _ in seen)
    counts = [calls for _, calls in seen]
    assert counts == sorted(counts) and len(set(counts)) > 2
    last = parse(file.read_text())
    assert sum(last["commtap_job_ranks_running"][1].values()) == 0
    assert last["commtap_operation_calls_total"] == metrics(where)["commtap_operation_calls_total"]
    assert list(tmp_path.glob("job.prom*")) == [file]


def test_what_makes_no_sense_is_refused(slow, tmp_path):
    assert "--textfile" in jobs.commtap("metrics", "--interval", "1", slow, codes=(2,)).stderr
    assert "'0'" in jobs.commtap("metrics", "--interval", "0", "--textfile", tmp_path / "x.prom", slow, codes=(2,)).stderr
    assert not list(tmp_path.iterdir())
