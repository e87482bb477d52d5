# SPDX-License-Identifier: Apache-2.0
#
# Views of commtap html that show a job as it went by, and where it stopped: what they draw is what the commands say.
# Must not live here: starting a browser (support/browsers.py), the other views (test_html.py).
import re
import time

import pytest

import browsers
import jobs


@pytest.fixture(scope="module")
def browser():
    browsers.need()
    page = None

    def look_at(path):
        nonlocal page
        page = page or browsers.Page(path)
        page.open(path)
        return page

    yield look_at
    if page:
        page.close()


def write_page(dumps):
    path = dumps.parent / f"{dumps.name}.html"
    jobs.commtap("html", "--force", "-o", path, dumps)
    return path


def hung(mpi, mode, ranks, where):
    """A job that hung until it was killed, and what is said of it. Ranks say that they are ready, then come to where they
    wait: one of a busy machine may not have been there, so it is tried again."""
    for i in range(5):
        dumps = where / str(i)
        process = jobs.start(jobs.job_line(mpi, ranks, [jobs.program(mpi, "hang"), mode], dumps))
        try:
            assert process.stdout.read(ranks * len("ready\n")).count("ready") == ranks
            time.sleep(0.2 * (i + 1))
        finally:
            jobs.stop(process)
        told = jobs.document("diagnose", dumps)
        if told["cycle"] or [len(collective["entered"]) for collective in told["collectives"]] == [ranks - 1]:
            break
    return dumps, told


# ---- a job that hangs -----------------------------------------------------------------------------

def node_texts(page):
    return page.run("return Array.from(document.querySelectorAll('section#hang g.process'), (node) => node.getAttribute('aria-label'))")


def test_a_hang_is_told_in_words_above_who_waits_for_whom(browser, tmp_path):
    """Eight ranks wait in a collective that rank 1 never enters: they do the same, and are one."""
    dumps, told = hung("openmpi", "skip", 9, tmp_path)
    page = browser(write_page(dumps))
    section = page.show("hang")
    verdict = [item.text for item in page.find_all("section#hang .verdict li")]
    assert verdict == told["text"] and page.marks("hang") == len(told["text"])
    assert told["collectives"][0]["missing"] == [1]
    graph = page.find("section#hang .waits")
    assert (graph.get_attribute("data-nodes"), graph.get_attribute("data-edges")) == ("3", "2")
    waiting, blamed, collective = node_texts(page)
    if "to blame" in waiting:
        waiting, blamed = blamed, waiting
    assert waiting.startswith("ranks 0, 2-8; waits in MPI_Allreduce")
    assert blamed.startswith("rank 1; ") and "to blame: in user code" in blamed
    assert collective.startswith("1 rank missing; MPI_Allreduce #")
    assert verdict and section.text.index(told["text"][0]) < section.text.index("does something else")
    assert "was in its own code when last seen" in section.text
    page.show("findings")
    links = page.find_all("section#findings .error a, section#findings .warning a")
    assert {link.get_attribute("href").split("#")[1] for link in links} >= {"hang", "rank=1"}
    assert page.complaints() == []


def test_ranks_that_wait_in_a_circle_stand_in_one(browser, tmp_path):
    dumps, told = hung("mpich", "ring", 4, tmp_path)
    page = browser(write_page(dumps))
    page.show("hang")
    graph = page.find("section#hang .waits")
    assert (graph.get_attribute("data-nodes"), graph.get_attribute("data-edges")) == ("4", "4")
    assert len(page.find_all("section#hang path[data-circle=yes]")) == len(told["cycle"]) == 4
    assert all("waits in MPI_Recv" in text and "to blame" in text for text in node_texts(page))


# ---- the critical path ----------------------------------------------------------------------------

@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    where = tmp_path_factory.mktemp("path") / "train"
    jobs.run("mpich", 4, [jobs.program("mpich", "train"), "--steps", "10", "--slow-rank", "2", "--slow-ms", "10"], where)
    return where


def column(block, name, count):
    """A column of a block; one value stands for all where they are alike."""
    values = block["columns"][name]
    return values if isinstance(values, list) else [values] * count


def test_the_critical_path_runs_over_the_operations(browser, trained):
    report = jobs.report(trained)
    page = browser(write_page(trained))
    path = page.block("path")
    begins, lengths, dumps = (column(path, name, path["parts"]) for name in ("begin_ns", "length_ns", "dump"))
    assert len(begins) == path["parts"] > 10 and path["left_out"] == 0
    assert begins[1:] == [begin + length for begin, length in zip(begins, lengths)][:-1]
    assert sum(lengths) == path["length_ns"] == pytest.approx(report["critical_path"]["seconds"] * 1e9)
    for number, dump in enumerate(page.block("page")["dumps"]):
        rank = next(row for row in report["ranks"] if row["rank"] == dump["rank"])
        on_rank = sum(length for length, of in zip(lengths, dumps) if of == number)
        assert on_rank == pytest.approx(rank["critical_path_seconds"] * 1e9, abs=10)
    page.show("marey")
    assert page.find("section#marey [data-path]").get_attribute("data-path") == str(path["parts"])
    top = report["critical_path"]["sites"][0]
    row = page.table("section#marey table")[0]
    assert (row["site"], row["op"]) == (top["where"], top["op"])
    shown = next(button for button in page.find_all("section#marey button") if button.text == "Critical path")
    shown.click()
    assert shown.get_attribute("aria-pressed") == "false"
    assert page.find("section#marey [data-path]").get_attribute("data-path") == "0"
    assert page.complaints() == []


# ---- a pipeline -----------------------------------------------------------------------------------

def number(text):
    value, _, unit = text.partition(" ")
    return float(value.replace(",", "")) * {"%": 0.01, "ns": 1e-9, "us": 1e-6, "ms": 1e-3}.get(unit, 1)


def pipeline_tables(page):
    keys = page.run("return Array.from(document.querySelectorAll('section#pipeline table'), (table) =>"
                    "Array.from(table.querySelectorAll('thead button'), (button) => button.dataset.key))")
    rows = page.run("return Array.from(document.querySelectorAll('section#pipeline table'), (table) =>"
                    "Array.from(table.querySelectorAll('tbody tr'), (row) => Array.from(row.cells, (cell) => cell.textContent)))")
    return [[dict(zip(names, row)) for row in table] for names, table in zip(keys, rows)]


def test_a_pipeline_is_shown_with_its_bubbles(browser, tmp_path):
    """A published time line: two pipelines of four stages, four micro-batches a step; the last stage is the slow one."""
    jobs.commtap("import", jobs.ROOT / "test" / "data" / "traces" / "straggler-ST.json.gz", "-o", tmp_path / "st")
    page = browser(write_page(tmp_path / "st"))
    page.show("pipeline")
    step = int(page.find("section#pipeline [role=status]").text.split()[1])
    told = {row["rank"]: row for row in jobs.document("steps", "--by", "both", "--step", str(step), tmp_path / "st")["rows"]}
    bubbles, messages = pipeline_tables(page)
    assert [row["rank"] for row in bubbles] == ["0", "2", "4", "6"] and [row["stage"] for row in bubbles] == list("1234")
    for row in bubbles:  # work is on record: what is neither waited nor worked nor transferred is idle
        rank = told[int(row["rank"])]
        assert number(row["bubble_us"]) == pytest.approx(rank["wait_seconds"] + rank["idle_seconds"], rel=0.008)
    assert min(bubbles, key=lambda row: number(row["bubble_share"]))["stage"] == "4"
    assert [(row["from_stage"], row["to_stage"], row["per_step"]) for row in messages] == [
        ("1", "2", "4"), ("2", "1", "4"), ("2", "3", "4"), ("3", "2", "4"), ("3", "4", "4"), ("4", "3", "4")]
    picture = page.find("section#pipeline [data-pairs]")
    assert int(picture.get_attribute("data-pairs")) >= 24 and int(picture.get_attribute("data-bubbles")) > 0
    page.find_all("section#pipeline .controls button")[1].click()
    assert page.find("section#pipeline [role=status]").text == f"step {step + 1}"
    page.find("section#pipeline option[value='1']").click()
    assert [row["rank"] for row in pipeline_tables(page)[0]] == ["1", "3", "5", "7"]
    assert page.complaints() == []
    # what their communicators are called tells the layout
    rank = commtap_rank(page, 5)
    assert "DP rank 1 of 2" in rank and "PP rank 2 of 4" in rank and "Stage\n3" in rank
    page.show("summary")
    summary = page.find("section#summary").text
    assert "DP groups\n4 of 2 ranks" in summary and "PP groups\n2 of 4 ranks" in summary
    page.show("marey")
    lines = "return Number(document.querySelector('section#marey canvas').style.height.replace('px', ''))"
    high = page.run(lines)
    for button in page.find_all("section#marey button[aria-pressed=false]"):
        button.click()
    assert page.run(lines) < high  # a line for each of four stages, no longer for each of eight ranks
    assert page.complaints() == []


# ---- one rank -------------------------------------------------------------------------------------

def commtap_rank(page, rank):
    """The text of a rank's page, by its address."""
    page.run("location.hash = `#rank=${arguments[0]}`", rank)
    page.show("rank")
    page.wait_for("the rank's page", lambda: page.find("section#rank [data-rank]").get_attribute("data-rank") == str(rank))
    return page.find("section#rank").text


def test_whatever_names_a_rank_leads_to_its_page(browser, trained):
    report = jobs.report(trained)
    told = {row["rank"]: row for row in report["ranks"]}
    page = browser(str(write_page(trained)) + "#rank=1")
    page.wait_for("rank 1", lambda: page.find_all("section#rank [data-rank='1']"))
    page.show("ranks")
    link = next(node for node in page.find_all("section#ranks td a") if node.text == "2")
    link.click()
    page.wait_for("rank 2", lambda: page.find_all("section#rank [data-rank='2']"))
    assert page.run("return commtap.selection.ranks") is None  # other views still show all
    text = commtap_rank(page, 2)
    assert f"Host\n{told[2]['host']}" in text
    facts = page.run("return Array.from(document.querySelectorAll('section#rank .facts dd'), (node) => node.textContent)")
    times = [number(fact) for fact in facts if re.fullmatch(r"[0-9.]+ [mun]?s", fact)]
    for name in ("wait_seconds", "waited_for_seconds", "comm_seconds", "transfer_seconds", "critical_path_seconds"):
        assert pytest.approx(told[2][name], rel=0.01) in times, name
    named = [finding for finding in report["findings"] if "rank 2 " in finding["text"]]
    assert int(page.find("section#rank [data-findings]").get_attribute("data-findings")) >= len(named)
    calls = jobs.document("summary", "--by", "op", "--rank", "2", trained)["summary"]
    shown = page.table("section#rank table")
    assert sum(int(row["count"]) for row in shown if row["op"] == "MPI_Allreduce") == sum(
        row["count"] for row in calls if row["op"] == "MPI_Allreduce")
    page.find_all("section#rank .controls button")[1].click()
    page.wait_for("rank 3", lambda: page.find_all("section#rank [data-rank='3']"))
    assert page.complaints() == []
