# SPDX-License-Identifier: Apache-2.0
#
# Pages of commtap html of jobs that lack what most have, and of jobs larger than this machine: every view is drawn, or says
# why it is not, and shows what the commands say.
# Must not live here: what single views do (test_html.py, test_html_time.py, test_html_views.py).
import json
import re
import shutil
import subprocess

import pytest

import browsers
import jobs

PLAY = jobs.BUILD / "test" / "scenes" / "play"


@pytest.fixture(scope="module")
def browser():
    browsers.need()
    page = browsers.Page(None)
    yield page
    page.close()


@pytest.fixture
def opened(browser, tmp_path):
    def open_page(dumps):
        path = tmp_path / "report.html"
        jobs.commtap("html", "-o", path, dumps)
        browser.open(path)
        return browser
    return open_page


def play(where, kind, **settings):
    where.mkdir()
    subprocess.run([PLAY, where, kind, *(f"{name}={value}" for name, value in settings.items())], check=True, timeout=120)
    return where


def traces_without_common_groups(where):
    """Two ranks on hosts of one GPU each, which never meet: nothing tells how far their clocks are apart."""
    files = []
    for rank in range(2):
        group = {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float", "Group size": 1,
                 "Process Group Name": f"alone{rank}", "Process Group Ranks": f"[{rank}]"}
        events = [{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "pid": 0, "tid": 7,
                   "ts": 1000 + 100 * i, "dur": 50, "args": group} for i in range(30)]
        files.append(where / f"rank{rank}.json")
        files[-1].write_text(json.dumps({"deviceProperties": [{"id": 0}], "traceEvents": events,
                                         "distributedInfo": {"rank": rank, "world_size": 2}}))
    return files


def traces_with_memory(where):
    """Two ranks; of each GPU what PyTorch held, 2 ms apart: the second rank's holds twice as much."""
    files = []
    for rank in range(2):
        events = [{"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1000 + 2000 * i,
                   "args": {"Total Allocated": (rank + 1) * (1000000 + 1000 * i), "Total Reserved": (rank + 1) * 2000000,
                            "Bytes": 1000, "Device Id": rank, "Device Type": 1}} for i in range(30)]
        events += [{"ph": "X", "cat": "kernel", "name": "void gemm()", "pid": 0, "tid": 7, "ts": 1000 + 2000 * i, "dur": 50,
                    "args": {"device": rank}} for i in range(31)]
        files.append(where / f"rank{rank}.json")
        files[-1].write_text(json.dumps({"deviceProperties": [{"id": 0}, {"id": 1}], "traceEvents": events,
                                         "distributedInfo": {"rank": rank, "world_size": 2}}))
    return files


def imported(where, *traces):
    jobs.commtap("import", *traces, "-o", where)
    return where


JOBS = {
    "one rank": lambda tmp: play(tmp / "one", "data parallel", ranks=1, steps=20),
    "no steps": lambda tmp: play(tmp / "nosteps", "data parallel", ranks=2, steps=1, pieces=1),
    "unknown clocks": lambda tmp: imported(tmp / "clocks", *traces_without_common_groups(tmp)),
    "pipeline, imported": lambda tmp: imported(tmp / "st", jobs.ROOT / "test" / "data" / "traces" / "straggler-ST.json.gz"),
    "GPUs": lambda tmp: play(tmp / "gpu", "gpu", ranks=8, steps=40, slow_rank=2, factor=1.6),
    "1024 ranks": lambda tmp: play(tmp / "large", "data parallel", ranks=1024, ranks_per_host=8, steps=6, pieces=2,
                                   slow_rank=3, factor=2),
}
# Views that are empty, and say so.
EMPTY = {
    "one rank": {"findings", "hang", "links", "memory-of-gpus", "pipeline", "ranks", "times"},
    "no steps": {"hang", "memory-of-gpus", "overview", "pipeline", "rank", "ranks", "steps", "times"},
    "unknown clocks": {"hang", "links", "memory-of-gpus", "pipeline", "ranks", "times"},
    "pipeline, imported": {"hang", "memory-of-gpus", "sizes"},
    "GPUs": {"hang", "memory-of-gpus", "pipeline", "times"},
    "1024 ranks": {"hang", "memory-of-gpus", "pipeline", "times"},
}


def shown_operations(block):
    """Operations that lines of ranks show: not what the network did for them, nor their share that was exposed."""
    columns = block["columns"]["track"]
    tracks = columns if isinstance(columns, list) else [columns] * block["operations"]
    return sum(block["tracks"][track]["kind"] not in ("network", "exposed") for track in tracks)


@pytest.mark.parametrize("name", JOBS)
def test_every_view_is_drawn_or_says_why_not(opened, tmp_path, name):
    dumps = JOBS[name](tmp_path)
    page = opened(dumps)
    report = jobs.report(dumps)
    marks = {view: page.marks(view) for view in page.views()}
    empty = {view: page.find_all(f"section#{view} .empty") for view in marks}
    assert {view for view in marks if not marks[view]} <= {view for view in empty if empty[view]}
    assert {view for view in empty if empty[view]} == EMPTY[name]
    assert all(len(said[0].text) > 20 for said in empty.values() if said)
    assert marks["findings"] == len(report["findings"])
    assert marks["ranks"] == len(report["ranks"]) == report["job"]["ranks_seen"]
    assert marks["operations-table"] == len(report["summary"])
    assert marks["heat"] == len(report["ranks"]) * page.block("heat")["intervals"]
    assert marks["links"] == len(page.block("links")["links"]) == len(jobs.document("links", dumps)["links"])
    numbers = [row["step"] for row in jobs.document("steps", "--by", "step", dumps)["rows"]]
    assert marks["overview"] == sum(number is not None for number in numbers)
    assert marks["marey"] == shown_operations(page.block("operations"))
    assert page.complaints() == [] and page.requests() == []
    shutil.rmtree(dumps)  # those of many ranks take the better part of a gigabyte


POINT_EVERYWHERE = """
    const canvas = arguments[0];
    const target = canvas.parentNode.querySelector("svg.over") || canvas;
    const box = target.getBoundingClientRect();
    let told = 0;
    for (let i = 0; i < 400; i++) {
        const at = {clientX: box.left + box.width * ((i % 20) + 0.5) / 20, clientY: box.top + box.height * (Math.floor(i / 20) + 0.5) / 20};
        target.dispatchEvent(new MouseEvent("mousemove", Object.assign({bubbles: true, view: window}, at)));
        const beside = document.querySelector(".beside");
        told += beside && !beside.hidden && beside.textContent !== "" ? 1 : 0;
    }
    return told;
"""


# Between the rows of ranks, where nothing lies but what joins them: how dark it is on average, of 1.
DARK_BETWEEN_ROWS = """
    const canvas = document.querySelector("section#marey canvas");
    const row = (canvas.height - 28) / arguments[0];
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height); // once: it complains of more
    const shares = [];
    for (let n = 1; n < arguments[0]; n++) {
        for (let x = 100; x < canvas.width; x++) {
            shares.push(data[4 * (Math.round(n * row) * canvas.width + x) + 3] / 255);
        }
    }
    return shares.reduce((sum, share) => sum + share, 0) / shares.length;
"""


def test_many_operations_leave_the_picture_light(opened, tmp_path):
    dumps = JOBS["pipeline, imported"](tmp_path)
    page = opened(dumps)
    page.show("marey")
    next(button for button in page.find_all("section#marey button") if button.text == "Critical path").click()
    assert 0 < page.run(DARK_BETWEEN_ROWS, len(page.block("page")["dumps"])) < 0.1  # 0.19 where each is as dark as one alone


def peers_told(rows, rank, kind):
    """Of links of one kind, bytes to and from each peer of a rank."""
    told = {}
    for row in rows:
        if row["kind"] == kind and rank in (row["from"], row["to"]):
            sent = row["from"] == rank
            both = told.setdefault(row["to" if sent else "from"], [0, 0])
            both[0 if sent else 1] += row["bytes"] or 0
    return {peer: both for peer, both in told.items() if any(both)}


def test_every_picture_of_an_imported_pipeline_is_pointed_at_and_walked_through(opened, tmp_path):
    from selenium.webdriver.common.keys import Keys
    dumps = JOBS["pipeline, imported"](tmp_path)
    page = opened(dumps)
    views = [view for view in page.views() if page.show(view).find_elements("css selector", "canvas")]
    assert {"heat", "marey", "pipeline", "links"} <= set(views)
    for view in views:
        page.show(view)
        assert page.run(POINT_EVERYWHERE, page.find(f"section#{view} canvas")) > 0
        page.find(f"section#{view} canvas").send_keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_UP, Keys.ARROW_LEFT)
        assert page.find(f"section#{view} .said").text != ""
        assert page.complaints() == []


def test_what_a_rank_sent_its_peers_is_told_apart_from_what_is_estimated(opened, tmp_path):
    dumps = play(tmp_path / "stencil", "stencil", ranks=4, steps=12)
    page = opened(dumps)
    rows = jobs.document("links", dumps)["links"]
    kinds = {row["kind"] for row in rows}
    assert {"messages", "collectives"} <= kinds
    page.run("commtap.showRank(0)")
    page.show("rank")
    shown = page.run("""
        const [table] = Array.from(document.querySelectorAll("section#rank table")).slice(-1);
        const keys = Array.from(table.querySelectorAll("thead button"), (button) => button.dataset.key);
        return Array.from(table.querySelectorAll("tbody tr"), (row) =>
            Object.fromEntries(keys.map((key, n) => [key, row.cells[n].textContent])));""")
    as_text = lambda count: page.run("return commtap.format.bytes(arguments[0])", count)
    for kind in kinds:
        told = peers_told(rows, 0, kind)
        for row in shown:
            wanted = [as_text(count) for count in told.get(int(row["rank"]), [0, 0])]
            assert [row[f"{way}_{kind}"].replace("-", "0 B") for way in ("sent", "received")] == wanted
    assert "Estimated, not measured" in page.find("section#rank").text


def with_blocks(path, blocks):
    """Replaces blocks of a page's data."""
    text = path.read_text()
    for name, block in blocks.items():
        data = json.dumps(block).replace("<", "\\u003c")
        text, found = re.subn(rf'(<script type="application/json" id="data-{name}">).*?(</script>)', lambda at: at[1] + data + at[2],
                              text, flags=re.DOTALL)
        assert found == 1
    path.write_text(text)


# Ranks 1 and 2 wait in a circle, through a collective that rank 0 waits in, too.
CIRCLE = {
    "diagnosis": {"verdict": "deadlock", "severity": "error", "text": ["deadlock"], "culprits": [
        {"rank": rank, "host": "a", "state": "blocked", "where": "", "reason": ""} for rank in (1, 2)],
        "collectives": [{"comm": "c", "comm_name": "lost", "seq": 0, "op": "MPI_Allreduce", "entered": [0, 2], "missing": [1, 3]}],
        "cycle": [{"rank": 1, "waits_for": [2], "op": "MPI_Recv", "comm": "w", "seq": None},
                  {"rank": 2, "waits_for": [1, 3], "op": "MPI_Allreduce", "comm": "c", "seq": 0}]},
    "standstill": {"processes_found": 4, "waits_found": 3, "processes": [
        {"rank": rank, "doing": "user_code" if rank == 3 else "blocked", "op": None, "stopped": False} for rank in range(4)],
        "waits": [{"process": rank, "op": op, "comm": comm, "comm_name": comm, "seq": seq, "site": "main", "waits_for": peers,
                   "any": False, "collective": collective}
                  for rank, op, comm, seq, peers, collective in ((0, "MPI_Allreduce", "c", 0, [], 0), (1, "MPI_Recv", "w", None, [2], None),
                                                                 (2, "MPI_Allreduce", "c", 0, [], 0))]},
}


# As wide as rows of such a job's operations are.
WIDE_ROW = {"op": "MPI_Comm_set_name", "source": "host", "comm_name": "MPI_COMM_WORLD", "bytes": 524288, "bytes_total": 83886080,
            "time_total_us": 10800, "time_avg_us": 10800, "time_p50_us": 10800, "time_p99_us": 10800, "time_max_us": 10800,
            "wait_seconds": 0.0108, "busbw_gb_per_s": 0.0128}


def test_no_wait_runs_behind_a_rank_and_open_calls_are_said_to_be_in_no_figure(browser, tmp_path):
    path = tmp_path / "report.html"
    jobs.commtap("html", "-o", path, play(tmp_path / "circle", "data parallel", ranks=4, steps=4))
    browser.open(path)
    browser.show("heat")
    assert browser.find_all(".open-calls") == []
    report = browser.block("report")
    for row in report["summary"]:
        row.update(WIDE_ROW)
    with_blocks(path, CIRCLE | {"report": report})
    browser.open(path)
    browser.show("hang")
    nodes, edges, hidden = browser.run("""
        const box = (node) => node.getBoundingClientRect();
        const boxes = Array.from(document.querySelectorAll("section#hang g.process rect"), box);
        const paths = Array.from(document.querySelectorAll("section#hang path.wait"));
        const frame = box(document.querySelector("section#hang svg"));
        const hidden = paths.map((path) => {
            const origin = path.getScreenCTM();
            const length = path.getTotalLength();
            let found = 0;
            for (let n = 1; n < 100; n++) { // both ends lie on the border of a box
                const at = path.getPointAtLength(length * n / 100).matrixTransform(origin);
                found += boxes.some((one) => at.x > one.left + 3 && at.x < one.right - 3 && at.y > one.top + 3 && at.y < one.bottom - 3)
                    || at.x < frame.left || at.x > frame.right || at.y < frame.top || at.y > frame.bottom ? 1 : 0;
            }
            return found;
        });
        return [boxes.length, paths.length, hidden];""")
    assert (nodes, edges) == (5, 5) and hidden == [0] * edges
    for view in ("summary", "heat", "marey"):
        browser.show(view)
        note = browser.find(f"section#{view} .open-calls").text
        assert "ranks 0, 2 in MPI_Allreduce, rank 1 in MPI_Recv had not come back" in note and "no figure" in note
    browser.show("operations-table")
    assert browser.run("""
        const table = document.querySelector("section#operations-table .scroll");
        return table.scrollWidth - table.clientWidth""") == 0
    assert browser.complaints() == []


def test_what_fields_and_addresses_cannot_mean_is_said_beside_them(opened, tmp_path):
    from selenium.webdriver.common.keys import Keys
    page = opened(play(tmp_path / "fields", "stencil", ranks=4, steps=4))
    field, = (label for label in page.find_all(".bar label.control") if label.text.startswith("Ranks"))
    read, wrong = (field.find_element("css selector", name) for name in ("input", ".wrong"))
    chosen = lambda: page.run("return commtap.selection.ranks")
    for text, said in (("0,,3", "with a dash between"), ("0,3-1", "1-3"), ("x", "with a dash between")):
        read.clear()
        read.send_keys(text, Keys.TAB)
        assert said in wrong.text and chosen() is None
    for text, ranges, shown in (("1-3", [[1, 3]], [1, 2, 3]), ("2-3, 0", [[0, 0], [2, 3]], [0, 2, 3])):
        read.clear()
        read.send_keys(text, Keys.TAB)
        assert wrong.text == "" and chosen() == ranges
        assert page.run("return [0, 1, 2, 3].filter(commtap.selection.hasRank)") == shown
    assert read.get_attribute("value") == "0,2-3"
    page.run("location.hash = '#rank=77'")
    page.wait_for("word on rank 77", lambda: "No rank 77 is on record; there are ranks 0-3" in page.find("section#rank").text)
    page.run("location.hash = '#rank=3'")
    page.wait_for("rank 3", lambda: page.find_all("section#rank [data-rank='3']"))
    assert page.find_all("section#rank .wrong") == []
    rows = page.run("""
        return Array.from(document.querySelector("section#rank table").querySelectorAll("tbody tr"), (row) =>
            [row.cells[0], row.cells[2], row.cells[6]].map((cell) => cell.textContent))""")
    sends = {on: held for op, on, held in rows if op == "MPI_Isend"}
    assert sends["in flight"] == "-" and sends["thread"] not in ("-", "0 B")  # bytes of a request count once
    page.run("commtap.selection.clear()")
    page.show("links")
    assert page.find("section#links [data-labelled]").get_attribute("data-labelled") == "4"
    rates = page.run("return [7.65e-8, 7.6e-5, 0.076, 76, 1234].map(commtap.format.bandwidth)")
    assert rates == ["76.5 B/s", "76.0 kB/s", "76.0 MB/s", "76.0 GB/s", "1.23 TB/s"]
    assert page.complaints() == []


def test_clocks_that_nothing_compares_are_said_to_be_unknown(opened, tmp_path):
    page = opened(JOBS["unknown clocks"](tmp_path))
    assert page.block("report")["job"]["clock_error_us"] is None
    page.show("coverage")
    facts = dict(zip(*(page.run("return Array.from(document.querySelectorAll('section#coverage ' + arguments[0]), "
                                "(node) => node.textContent)", name) for name in ("dt", "dd"))))
    assert facts["Clocks of the hosts agree within"].startswith("not known")


def test_memory_that_a_trace_held_is_drawn(opened, tmp_path):
    page = opened(imported(tmp_path / "memory", *traces_with_memory(tmp_path)))
    assert page.marks("memory-of-gpus") == len(page.find_all("section#memory-of-gpus path.line")) == 4
    rows = [(row["rank"], row["device"], row["what"], row["peak_bytes"]) for row in page.table("section#memory-of-gpus table")]
    assert rows == [("1", "1", "memory reserved by PyTorch", "4.00 MB"), ("1", "1", "memory allocated by PyTorch", "2.06 MB"),
                    ("0", "0", "memory reserved by PyTorch", "2.00 MB"), ("0", "0", "memory allocated by PyTorch", "1.03 MB")]
    for device in page.block("memory")["devices"]:
        known = [value for value in device["bytes"] if value is not None]
        assert len(known) == 30 and known == sorted(known) and known[-1] == device["peak_bytes"]


def test_of_many_ranks_the_graph_has_a_node_per_host(opened, tmp_path):
    ranks, ranks_per_host = 72, 9
    dumps = play(tmp_path / "hosts", "stencil", ranks=ranks, ranks_per_host=ranks_per_host, steps=4, slow_rank=3, factor=2)
    page = opened(dumps)
    page.show("links")

    spent = {}
    for row in jobs.report(dumps)["ranks"]:
        comm, wait = spent.get(row["host"], (0, 0))
        spent[row["host"]] = (comm + row["comm_seconds"], wait + row["wait_seconds"])
    nodes = page.run("return Array.from(document.querySelectorAll('.graph-node'), (group) => [group.dataset.node, "
                     "Number(group.querySelector('circle').dataset.share), group.getAttribute('aria-label')])")
    assert {name for name, *_ in nodes} == set(spent) and len(spent) == ranks // ranks_per_host
    for name, share, label in nodes:
        assert share == pytest.approx(1 - spent[name][1] / spent[name][0], abs=1e-6)
        first = int(name.removeprefix("node")) * ranks_per_host
        assert label.startswith(f"{name}, ranks {first}-{first + ranks_per_host - 1}")
    told = [row for row in jobs.document("links", dumps)["links"] if row["kind"] == "messages"]
    pairs = {frozenset((row["from_host"], row["to_host"])) for row in told if row["from_host"] != row["to_host"]}
    assert len(page.find_all("svg.graph .edge")) == len(pairs)
    assert page.find("svg.graph").get_attribute("aria-label") == f"graph of {len(spent)} hosts"
    # a host that is chosen leaves the links among its own ranks
    from selenium.webdriver.common.keys import Keys
    page.find(".graph-node[data-node='node1']").send_keys(Keys.ENTER)
    inside = [row for row in told if row["from_host"] == row["to_host"] == "node1"]
    assert page.find("section#links .count").get_attribute("data-rows") == str(len(inside)) != "0"
    assert page.complaints() == []
