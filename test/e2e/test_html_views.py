# SPDX-License-Identifier: Apache-2.0
#
# Views of commtap html that take a job apart: links, call tree, operations, and the tables that all views share.
# Must not live here: starting a browser (support/browsers.py), the page as a whole (test_html.py).
import json
import random
import re
import statistics
import warnings

import pytest

import browsers
import jobs

RANKS = 4
STEPS = 30


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """Synchronous sends around a ring; rank 2 is slow."""
    where = tmp_path_factory.mktemp("views") / "ring"
    jobs.run("openmpi", RANKS, [jobs.program("openmpi", "exchange"), "ring", str(STEPS), "2", "3", "1"], where)
    return where


@pytest.fixture(scope="module")
def opened(dumps):
    browsers.need()
    path = dumps.parent / "report.html"
    jobs.commtap("html", "-o", path, dumps)
    page = browsers.Page(path)
    yield page
    assert page.complaints() == []
    page.close()


@pytest.fixture
def page(opened):
    """The page as it is when it is opened, at its top."""
    opened.run("history.scrollRestoration = 'manual'")
    opened.driver.refresh()
    return opened


# ---- tables ------------------------------------------------------------------------------------


def test_rows_are_ordered_as_their_values_are(page):
    draw = random.Random(1)
    numbers = [draw.choice([None, draw.randrange(-9, 9), draw.uniform(-1e9, 1e9), draw.random() * 1e-9, 0, -0.0, 2.0**60])
               for _ in range(3000)]
    texts = [draw.choice([None, "", "b", "a", "rank 10", "rank 9", "\u00e9"]) for _ in range(500)]
    for column in (numbers, texts, [None, None], [], [7, 7, 7]):
        for descending in (False, True):
            known = [row for row, value in enumerate(column) if value is not None]
            wanted = sorted(known, key=lambda row: column[row], reverse=descending)  # equal ones stay in their order
            wanted += [row for row, value in enumerate(column) if value is None]
            assert page.run("return commtap.orderOf(arguments[0], arguments[1])", column, descending) == wanted


ROWS = 100000
LARGE_TABLE = """
    const node = document.createElement("div");
    node.id = "large";
    document.querySelector("main").prepend(node);
    const rows = Array.from({length: arguments[0]}, (_, n) => ({rank: n % 1024, host: "node" + n % 128, bytes: n * 7919 % 65536}));
    const column = commtap.column;
    const table = new commtap.Table(node, [column("rank", "rank"), column("host", "host", {left: true}),
        column("bytes", "bytes", {heat: true})], {name: "large", filters: ["rank", "host"], search: (row) => row.host});
    table.show(rows);
"""


def rows_found(page):
    return int(page.find("#large .count").get_attribute("data-rows"))


def choose(page, label, text):
    from selenium.webdriver.support.ui import Select
    Select(label.find_element("css selector", "select")).select_by_visible_text(text)


def type_range(label, text):
    from selenium.webdriver.common.keys import Keys
    field = label.find_element("css selector", "input")
    field.clear()
    field.send_keys(text, Keys.TAB)


def test_a_table_of_a_hundred_thousand_rows_sorts_searches_and_filters(page):
    page.run(LARGE_TABLE, ROWS)
    values = [(n % 1024, f"node{n % 128}", n * 7919 % 65536) for n in range(ROWS)]
    assert rows_found(page) == ROWS and len(page.find_all("#large tbody tr")) == 50
    page.find("#large th button[data-key=bytes]").click()
    first = page.table("#large table")[0]
    largest = max(range(ROWS), key=lambda n: (values[n][2], -n))
    assert (first["rank"].replace(",", ""), first["host"]) == (str(values[largest][0]), values[largest][1])
    ranks, hosts = page.find_all("#large label.control")
    type_range(ranks, "3-7")
    assert rows_found(page) == sum(3 <= rank <= 7 for rank, _, _ in values)
    choose(page, hosts, "node5")
    assert rows_found(page) == sum(3 <= rank <= 7 and host == "node5" for rank, host, _ in values)
    choose(page, hosts, "all")
    type_range(ranks, "8, 0-3,1020-2000")
    assert rows_found(page) == sum(rank <= 3 or rank == 8 or rank >= 1020 for rank, _, _ in values)
    choose(page, hosts, "node5")
    type_range(ranks, "")
    page.find("#large input[type=search]").send_keys("NODE5")
    assert rows_found(page) == sum(host == "node5" for _, host, _ in values)
    choose(page, hosts, "all")
    assert rows_found(page) == sum("node5" in host for _, host, _ in values)
    assert page.find("#large th[aria-sort=descending] button").text == "bytes"


def test_links_are_filtered_by_source_destination_and_type(page, dumps):
    told = jobs.document("links", dumps)["links"]
    page.show("links")
    labels = {label.text.split("\n")[0].strip(): label for label in page.find_all("section#links label.control")}
    shown = lambda: {(row["from"], row["to"]) for row in page.table("section#links table")}
    type_range(labels["from"], "1-2")
    assert shown() == {(str(row["from"]), str(row["to"])) for row in told if row["from"] in (1, 2)}
    type_range(labels["to"], "3")
    assert shown() == {("2", "3")}
    choose(page, labels["type"], "host")
    assert shown() == {("2", "3")}


def test_the_head_leads_to_every_view(page):
    """Views and blocks of data have the same names."""
    ids = page.run("return Array.from(document.querySelectorAll('[id]'), (node) => node.id)")
    assert len(ids) == len(set(ids))
    for title, view in (("Call tree", "calls"), ("Step trace", "steps"), ("Links", "links")):
        next(link for link in page.find_all("nav a") if link.text == title).click()
        page.wait_for(f"drawn {view}", lambda: page.find(f"section#{view}").get_attribute("data-drawn") == "yes")


# ---- links -------------------------------------------------------------------------------------


def drag_by(page, element, start, by):
    """Over an element, from a place in it (pixels from its upper left corner)."""
    from selenium.webdriver import ActionChains
    size = element.rect
    chain = ActionChains(page.driver, duration=20)
    chain.move_to_element_with_offset(element, start[0] - int(size["width"]) // 2, start[1] - int(size["height"]) // 2)
    chain.click_and_hold().move_by_offset(by[0] // 2, by[1] // 2).move_by_offset(by[0] - by[0] // 2, by[1] - by[1] // 2)
    chain.release().perform()


def nodes_of(page):
    """Place, radius and share of every node of the graph."""
    return {node: tuple(figures) for node, *figures in page.run("""
        const frame = document.querySelector("svg.graph").getBoundingClientRect();
        return Array.from(document.querySelectorAll(".graph-node"), (group) => {
            const circle = group.querySelector("circle");
            const box = circle.getBoundingClientRect();
            return [group.dataset.node, box.left + box.width / 2 - frame.left, box.top + box.height / 2 - frame.top,
                    Number(circle.getAttribute("r")), Number(circle.dataset.share)];
        })""")}


def test_the_graph_has_a_node_per_rank_and_an_edge_per_pair(page, dumps):
    page.show("links")
    ranks = {str(row["rank"]): row for row in jobs.report(dumps)["ranks"]}
    nodes = nodes_of(page)
    assert nodes.keys() == ranks.keys()
    pairs = {frozenset((row["from"], row["to"])) for row in jobs.document("links", dumps)["links"]}
    assert len(page.find_all("svg.graph .edge")) == len(pairs) and not page.find_all("svg.graph .estimated")
    by_time = sorted(nodes, key=lambda node: ranks[node]["comm_seconds"])
    assert by_time == sorted(nodes, key=lambda node: nodes[node][2])  # the radius grows with communication and wait
    for node, row in ranks.items():
        moved = row["comm_seconds"] - row["wait_seconds"]
        assert nodes[node][3] == pytest.approx(max(0, moved / row["comm_seconds"]), abs=1e-9)


def free_corner(page, x, y):
    """A way from a node's centre to a place where a rectangle around it can begin: no node and no edge lies there."""
    return next(way for way in ((-25, -25), (-25, 25), (25, -25), (25, 25)) if page.run("""
        const frame = document.querySelector("svg.graph").getBoundingClientRect();
        const there = document.elementFromPoint(frame.left + arguments[0], frame.top + arguments[1]);
        return there !== null && there.classList.contains("overlay");""", x + way[0], y + way[1]))


def choose_around(page, node):
    """The nodes that a rectangle around one chooses, or None, with a warning, where it chose none: once in three whole runs
    it did, beside other tests; the cause is not known."""
    x, y = (int(part) for part in nodes_of(page)[node][:2])
    way = free_corner(page, x, y)
    drag_by(page, page.find("svg.graph"), (x + way[0], y + way[1]), (-2 * way[0], -2 * way[1]))
    chosen = [each.get_attribute("data-node") for each in page.find_all(".graph-node:not(.unchosen)")]
    if len(chosen) == RANKS:
        warnings.warn("a rectangle in the graph chose nothing")
        return None
    return chosen


def test_a_node_is_dragged_and_nodes_are_chosen(page):
    page.show("links")
    svg = page.find("svg.graph")
    before = nodes_of(page)
    drag_by(page, svg, [int(part) for part in before["0"][:2]], (40, 30))
    after = nodes_of(page)
    assert after["0"][:2] == pytest.approx((before["0"][0] + 40, before["0"][1] + 30), abs=4)
    assert after["1"] == before["1"]
    shown = lambda: {row["from"] for row in page.table("section#links table")}
    assert shown() == {"0", "1", "2", "3"}
    right = sorted(after, key=lambda node: after[node][0])[-1]
    chosen = page.wait_for("choice of nodes", lambda: choose_around(page, right))
    assert right in chosen
    assert shown() <= set(chosen)
    page.run("document.querySelector('svg.graph').dispatchEvent(new MouseEvent('contextmenu', {cancelable: true}))")
    assert shown() == {"0", "1", "2", "3"} and not page.find_all(".graph-node.unchosen")
    from selenium.webdriver.common.keys import Keys
    for node in ("1", "2"):
        page.find(f".graph-node[data-node='{node}']").send_keys(Keys.ENTER)
    assert [(row["from"], row["to"]) for row in page.table("section#links table")] == [("1", "2")]
    assert "of 2 ranks" in page.find("section#links canvas").get_attribute("aria-label")


def test_the_graph_is_worked_by_keyboard(page):
    from selenium.webdriver.common.keys import Keys
    page.show("links")
    node = lambda key: page.find(f".graph-node[data-node='{key}']")
    label = node("0").get_attribute("aria-label")
    assert label.startswith("rank 0 on ") and " with rank " in label  # with whom, which lines alone would show
    before = nodes_of(page)
    node("0").send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_LEFT)
    after = nodes_of(page)
    moved = [after["0"][axis] - before["0"][axis] for axis in (0, 1)]
    assert moved[0] < 0 < moved[1] == pytest.approx(-2 * moved[0], abs=1)
    assert {key: after[key] for key in after if key != "0"} == {key: before[key] for key in before if key != "0"}
    node("1").send_keys(Keys.SPACE)
    node("2").send_keys(Keys.ENTER)
    assert [(row["from"], row["to"]) for row in page.table("section#links table")] == [("1", "2")]
    node("2").send_keys(Keys.ESCAPE)
    assert {row["from"] for row in page.table("section#links table")} == {"0", "1", "2", "3"}
    assert page.complaints() == []


def test_sizes_of_buffers_are_marked_as_bounds(page, dumps):
    """The program's receives have no status; its sends know what they send, as do its links."""
    told = jobs.report(dumps)["summary"]
    page.show("operations-table")
    for row, known in zip(page.table("section#operations-table table"), told):
        assert row["op"] == known["op"]
        assert [row[key].startswith("\u2264 ") for key in ("bytes", "bytes_total")] == [known["posted_sizes"] > 0] * 2
    assert {row["posted_sizes"] > 0 for row in told if row["op"].endswith(("recv", "Recv"))} == {True}
    posted = sum(row["posted_sizes"] for row in told)
    assert f"{posted} receives had no status" in page.find("section#operations-table").text
    page.show("links")
    assert {row["counted_by"] for row in page.table("section#links table")} == {"sender"}
    page.draw_anew("links", "Object.assign(commtap.block('links').links[0], {bytes: 1200000000, counted_by: 'receiver'})")
    assert [(row["bytes"], row["counted_by"]) for row in page.table("section#links table")][0] == ("\u2264 1.20 GB", "receiver")
    assert {row["counted_by"] for row in page.table("section#links table")[1:]} == {"sender"}


def timed_messages(block):
    """Seconds, sender and receiver, reckoned from both ends of every message of blocking calls."""
    columns, tracks = block["columns"], block["tracks"]
    at = lambda key, i: columns[key][i] if isinstance(columns[key], list) else columns[key]
    ends = {}
    for i in range(block["operations"]):
        if at("place", i) in (4, 5):
            ends.setdefault(at("flow", i), {})[at("place", i)] = i
    messages = []
    for sent, received in ((pair[4], pair[5]) for pair in ends.values() if len(pair) == 2):
        begin = max(at("begin_ns", sent), at("begin_ns", received))
        end = at("begin_ns", received) + at("length_ns", received)
        if at("begin_ns", sent) + at("length_ns", sent) > at("begin_ns", received) and end > begin:
            messages.append(((end - begin) / 1e9, *(tracks[at("track", i)]["dump"] for i in (sent, received))))
    return sorted(messages)


def test_boxes_hold_the_times_that_links_has_and_outlying_messages_are_named(page, dumps):
    told = jobs.document("links", dumps)["links"]
    times = timed_messages(page.block("operations"))
    assert page.marks("times") == sum(row["messages_matched"] for row in told)
    assert len(times) == sum(row["messages_timed"] for row in told) > 0
    assert sum(time for time, *_ in times) == pytest.approx(sum(row["transfer_seconds"] or 0 for row in told), rel=1e-6)
    assert page.find("section#times [data-messages]").get_attribute("data-messages") == str(len(times))
    low, _, high = statistics.quantiles([time for time, *_ in times], n=4, method="inclusive")
    fences = low - 1.5 * (high - low), high + 1.5 * (high - low)
    beyond = [message for message in times if not fences[0] <= message[0] <= fences[1]]
    count = page.find("section#times .count")
    assert count.get_attribute("data-rows") == str(len(beyond)) == str(len(page.find_all("section#times .box circle")))
    if beyond:
        first = page.table("section#times table")[0]
        assert (first["from"], first["to"]) == (str(beyond[-1][1]), str(beyond[-1][2]))
    assert [box.get_attribute("data-type") for box in page.find_all("section#times .box")] == ["host"]


def test_links_that_proxies_measured_have_a_box_of_their_own(page):
    """Nobody has a network here, so their rows are made up: eight links alike and one that takes ten times as long."""
    steps = 1000
    rows = [{"kind": "network", "from": n % 3, "to": 3, "bytes": 524288 * steps, "messages": steps, "messages_matched": 0,
             "transfer_seconds": 5e-5 * steps * (10 if n == 8 else 1 + n / 100), "method": "timed", "type": "network",
             "bandwidth_gb_per_s": 10.0, "wait_seconds": None, "unmeasured": None} for n in range(9)]
    single = page.marks("times")
    page.driver.refresh()
    page.run("""
        const block = document.getElementById("data-links");
        const links = JSON.parse(block.textContent);
        links.links.push(...arguments[0]);
        block.textContent = JSON.stringify(links)""", rows)
    assert page.marks("times") == single + len(rows)
    assert [box.get_attribute("data-type") for box in page.find_all("section#times .box")] == ["host", "proxies"]
    labels = page.run("return Array.from(document.querySelectorAll('section#times svg > text'), (node) => node.textContent)")
    assert labels[0] == "host" and "message" in labels[1] and labels[2:] == ["proxies", "9 links"]
    types = next(label for label in page.find_all("section#times label.control") if label.text.startswith("type"))
    choose(page, types, "proxies")
    first, = page.table("section#times table")
    slow = rows[-1]
    assert (first["type"], first["from"], first["to"]) == ("proxies", str(slow["from"]), "3")
    assert (first["op"], first["bytes"], first["seconds"]) == ("mean of 1,000 steps", "524 kB", "500 us")
    assert "Of links that network proxies measured each counts once" in page.find("section#times").text


# ---- call tree ---------------------------------------------------------------------------------


def frames_of(node):
    yield node
    for child in node["children"]:
        yield from frames_of(child)


def name_of(node):
    return node["name"] + (f" ({node['file']}:{node['line']})" if node["file"] else "")


def tree_rows(page):
    """Name and number of calls of every row of the call tree, and what it is."""
    return [tuple(row) for row in page.run("""
        return Array.from(document.querySelectorAll("table.calls tbody tr"), (row) =>
            [row.cells[0].className.replace("left ", ""), row.cells[0].textContent.replace(/^[\u25be\u25b8] /, ""),
             row.cells[1].textContent])""")]


def set_noise(page, level):
    from selenium.webdriver.support.ui import Select
    Select(page.find("section#calls select")).select_by_index(level)


def test_the_call_tree_has_the_frames_and_operations_of_calls(page, dumps):
    page.show("calls")
    root = jobs.document("calls", "--noise", "1", "--waits", dumps)["root"]
    rows = tree_rows(page)
    assert rows[0] == ("frame", "Global", str(root["count"]))
    assert rows[1:1 + len(root["ops"])] == [("op", op, str(sums["count"])) for op, sums in root["ops"].items()]
    told = {(name_of(node), str(node["count"])) for node in frames_of(root)}
    shown = [(name, count) for kind, name, count in rows if kind == "frame"]
    assert set(shown) <= told and page.marks("calls") == len(shown) > 1
    closed = page.find("table.calls button[aria-expanded=false]")
    name = closed.text[2:]
    closed.send_keys(" ")
    assert len(tree_rows(page)) > len(rows)
    assert page.run("return document.activeElement.textContent").endswith(name)


def test_noise_adds_sizes_then_frames_then_records(page, dumps):
    page.show("calls")
    assert page.block("frames") == jobs.document("calls", "--noise", "3", "--waits", dumps)
    details = lambda: [name for kind, name, _ in tree_rows(page) if kind == "detail"]
    page.find("section#calls input[type=search]").send_keys("mpi_ssend")
    page.find("section#calls tr.found button").click()
    assert details() == []
    set_noise(page, 1)
    page.find("section#calls tr.found button").click()
    assert [name.split(" char")[0] for name in details()] == [f"MPI_Ssend on MPI_COMM_WORLD of {RANKS}: 2.05 kB"]
    found = lambda: [row for row in tree_rows(page) if row[0] == "frame"]
    least = len(found())
    set_noise(page, 2)
    every = [node for node in frames_of(page.block("frames")["root"]) if any(call["op"] == "MPI_Ssend" for call in node["calls"])]
    assert len(found()) >= least and page.find("section#calls .count").text.startswith(f"{len(every)} frame")
    assert not any("rank 0, 20" in name for name in details())
    set_noise(page, 3)
    page.find("section#calls tr.found button").click()
    assert sum("MPI_Ssend" in name and ", rank " in name for name in details()) > 1


def test_of_many_records_the_page_holds_every_frame_alone(tmp_path):
    jobs.need("node-d3")
    for rank in range(2):
        events = [{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "pid": 0, "tid": 7,
                   "ts": 1000 + 100 * i, "dur": 50, "args": {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float",
                                                             "Group size": 2, "Process Group Ranks": "[0, 1]"}}
                  for i in range(2600)]
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(
            {"deviceProperties": [{"id": 0}], "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}))
    jobs.commtap("import", *sorted(tmp_path.glob("*.json")), "-o", tmp_path / "dumps")
    assert jobs.report(tmp_path / "dumps")["job"]["events"] > 5000
    jobs.commtap("html", "-o", tmp_path / "report.html", tmp_path / "dumps")
    text = (tmp_path / "report.html").read_text()
    block = json.loads(re.search(r'<script type="application/json" id="data-frames">(.*?)</script>', text).group(1))
    assert block["noise"] == 2 and all("records" not in node for node in frames_of(block["root"]))


def flames(page):
    """Kind, name and share of what was spent, of every frame that is drawn."""
    return [tuple(frame) for frame in page.run("""
        return Array.from(document.querySelectorAll("svg.flame g"), (group) =>
            [group.dataset.kind, group.getAttribute("aria-label").split(", ")[0], Number(group.dataset.value),
             group.querySelector("rect").getBoundingClientRect().width])""")]


def folded(dumps, weight):
    lines = jobs.commtap("calls", "--format", "folded", "--weight", weight, dumps).stdout.splitlines()
    return sorted(int(line.rsplit(" ", 1)[1]) for line in lines)


def test_the_flame_graph_is_as_wide_as_folded_stacks_are_heavy(page, dumps):
    from selenium.webdriver.support.ui import Select
    page.show("flame")
    width = page.find("svg.flame").size["width"]
    for choice, weight, unit in (("time", "time", 1e3), ("waiting", "wait", 1e3), ("bytes", "bytes", 1), ("calls", "count", 1)):
        Select(page.find("section#flame select")).select_by_visible_text(choice)
        drawn, heavy = flames(page), folded(dumps, weight)
        assert drawn[0][1] == "Global" and drawn[0][2] * unit == pytest.approx(sum(heavy), rel=1e-6, abs=1)
        operations = sorted(value * unit for kind, _, value, _ in drawn if kind == "op")
        assert operations == pytest.approx(heavy[len(heavy) - len(operations):], rel=1e-6, abs=1)
        assert all(wide == pytest.approx(width * value / drawn[0][2], abs=1.5) for _, _, value, wide in drawn)
        assert page.marks("flame") == len(drawn)


def test_the_flame_graph_is_searched_and_looked_into_by_keyboard(page):
    from selenium.webdriver.common.keys import Keys
    page.show("flame")
    before = flames(page)
    page.find("section#flame input[type=search]").send_keys("mpi_recv")
    found = [frame for frame in before if frame[1] == "MPI_Recv"]
    assert len(page.find_all("svg.flame g.found")) == len(found) > 0
    share = float(page.find("section#flame .count").text.split(" ")[0])
    assert share == pytest.approx(100 * sum(frame[2] for frame in found) / before[0][2], abs=0.2)
    number = next(n for n, frame in enumerate(before) if frame[1].startswith("ring "))
    page.find_all("svg.flame g")[number].send_keys(Keys.ENTER)
    width = page.find("svg.flame").size["width"]
    after = {name: wide for _, name, _, wide in flames(page)}
    assert after["Global"] == after[before[number][1]] == pytest.approx(width, abs=1.5)
    assert before[number][3] < 0.9 * width
    page.run("return document.activeElement").send_keys(Keys.ESCAPE)
    assert [frame[:3] for frame in flames(page)] == [frame[:3] for frame in before]


# ---- operations --------------------------------------------------------------------------------


def bars(page):
    return {(op, int(power)): float(value) for op, power, value in page.run("""
        return Array.from(document.querySelectorAll("section#sizes rect[data-value]"),
            (bar) => [bar.ownerSVGElement.dataset.op, bar.dataset.power, bar.dataset.value])""")}


def test_histograms_hold_the_summary_by_powers_of_two(page):
    from selenium.webdriver.support.ui import Select
    rows = page.run("""
        const {summary} = commtap.block("report");
        summary.forEach((row, n) => { row.bytes = arguments[0][n % arguments[0].length]; });
        return summary""", [1000, 1024, 2047, 0, 3, None])
    page.show("sizes")
    for choice, key in (("calls", "count"), ("bytes in all", "bytes_total")):
        Select(page.find("section#sizes select")).select_by_visible_text(choice)
        wanted = {}
        moving = {row["op"] for row in rows if row["bytes"]}
        for row in rows:
            if row["bytes"] is not None and row[key] and row["op"] in moving:
                place = row["op"], row["bytes"].bit_length() - 1
                wanted[place] = wanted.get(place, 0) + row[key]
        assert bars(page) == wanted and page.marks("sizes") == len(wanted) > 0


def test_memory_of_gpus_is_drawn_as_it_was_sampled(page):
    """Nobody samples memory here, so the block is made up."""
    assert page.block("memory")["devices"] == []
    devices = [{"dump": rank, "device": 0, "peak_bytes": 1000 * (rank + 1), "bytes": [None, 1000 * (rank + 1), 500]}
               for rank in range(RANKS)]
    page.run("""document.getElementById("data-memory").textContent = JSON.stringify(
        {intervals: 3, span_us: 3000000, samples_left_out: 0, devices: arguments[0]})""", devices)
    assert page.marks("memory-of-gpus") == RANKS
    assert len(page.find_all("section#memory-of-gpus path.line")) == RANKS
    assert page.find_all("section#memory-of-gpus circle") == []  # where samples follow each other the line shows them
    assert [(row["rank"], row["peak_bytes"]) for row in page.table("section#memory-of-gpus table")] == [
        (str(rank), f"{rank + 1}.00 kB") for rank in reversed(range(RANKS))]
    page.run("commtap.selection.choose({ranks: [[1, 2]]})")
    assert len(page.find_all("section#memory-of-gpus path.line")) == 2


def test_a_single_sample_of_memory_is_seen(page):
    devices = [{"dump": rank, "device": 0, "peak_bytes": 1000, "bytes": samples} for rank, samples in
               enumerate([[None, 1000, None], [1000, None, 500], [None, 1000, 500]])]
    page.draw_anew("memory-of-gpus", "Object.assign(commtap.block('memory'), {intervals: 3, span_us: 3000000, devices: "
                                     f"{json.dumps(devices)}}})")
    circles = page.find_all("section#memory-of-gpus circle")
    assert len(circles) == 3 and all(circle.rect["width"] >= 4 for circle in circles)
