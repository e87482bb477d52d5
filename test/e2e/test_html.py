# SPDX-License-Identifier: Apache-2.0
#
# commtap html in a real browser: the page is silent and on its own, views show what the commands print, choosing works.
# Must not live here: starting a browser (support/browsers.py), how well the analysis judges.
import csv
import json
import re

import pytest

import browsers
import jobs

RANKS = 8
STEPS = 40
SLOW = 3
# What says why it has nothing to show of a job that trains in parallel, without GPUs, and ends well.
VIEWS_OF_OTHER_JOBS = {"hang", "memory-of-gpus", "pipeline", "times"}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    where = tmp_path_factory.mktemp("html") / "dumps"
    jobs.run("openmpi", RANKS, [jobs.program("openmpi", "train"), "--steps", str(STEPS), "--slow-rank", str(SLOW),
                              "--slow-ms", "20"], where)
    return where


@pytest.fixture(scope="module")
def report(dumps):
    return jobs.report(dumps)


@pytest.fixture(scope="module")
def opened(dumps):
    browsers.need()
    path = dumps.parent / "report.html"
    jobs.commtap("html", "-o", path, dumps)
    page = browsers.Page(path)
    yield page
    page.close()


@pytest.fixture
def page(opened):
    """The page as it is when it is opened."""
    opened.driver.refresh()
    return opened


def key(name):
    from selenium.webdriver.common.keys import Keys
    return getattr(Keys, name)


def drag(page, element, from_x, to_x, y):
    """From one place of an element to another one, pixels from its upper left corner."""
    from selenium.webdriver import ActionChains
    size = element.size
    left, top = -size["width"] // 2, -size["height"] // 2
    chain = ActionChains(page.driver, duration=20)
    chain.move_to_element_with_offset(element, left + from_x, top + y).click_and_hold()
    chain.move_to_element_with_offset(element, left + (from_x + to_x) // 2, top + y)
    chain.move_to_element_with_offset(element, left + to_x, top + y).release().perform()


def type_into(page, field, text):
    field.clear()
    field.send_keys(text, key("ENTER"), key("TAB"))


def field(page, label):
    return next(node for node in page.find_all(".bar label") if node.text.startswith(label)).find_element(
        "css selector", "input, select")


def test_every_view_is_drawn_without_a_word_or_a_request(page):
    views = page.views()
    assert len(views) >= 10
    marks = {view: page.marks(view) for view in views}
    empty = {view for view in views if page.find_all(f"section#{view} .empty")}
    assert {view for view in views if not marks[view]} <= empty & VIEWS_OF_OTHER_JOBS, (marks, empty)
    assert page.complaints() == []
    assert page.requests() == []


def test_marks_are_those_of_the_data(page, dumps, report):
    steps = jobs.document("steps", "--by", "step", dumps)["rows"]
    assert page.marks("overview") == len(steps)
    assert page.marks("ranks") == RANKS
    assert page.marks("findings") == len(report["findings"])
    assert page.marks("operations-table") == len(report["summary"])
    assert page.marks("links") == len(jobs.document("links", dumps)["links"])
    communications = page.block("operations")
    assert page.marks("marey") == communications["operations"]
    assert page.marks("heat") == RANKS * page.block("heat")["intervals"]


def looks(seconds):
    """As the page writes times."""
    if seconds is None:
        return "-"
    if abs(seconds) >= 1:
        return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:.0f} s"
    if seconds == 0:
        return "0 s"
    value, unit = seconds * 1e9, "ns"
    for larger in ("us", "ms"):
        if value >= 1000:
            value, unit = value / 1000, larger
    digits = 0 if unit == "ns" and value == int(value) else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {unit}"


def facts(page, view):
    page.show(view)
    return dict(page.run("return Array.from(document.querySelectorAll(arguments[0] + ' dt'),"
                         "(name) => [name.textContent, name.nextElementSibling.textContent])", f"section#{view}"))


def test_what_was_lost_and_what_commtap_took_is_said(page, report):
    cost = report["own_cost"]
    told = facts(page, "coverage")
    share, most = re.fullmatch(rf"([\d.]+) %; of rank {cost['most_rank']}: ([\d.]+) %",
                               told["Of the time, taken by commtap itself"]).groups()
    assert float(share) == pytest.approx(100 * cost["share"], rel=0.05)
    assert float(most) == pytest.approx(100 * cost["most_share"], rel=0.05)
    assert told["By commtap itself in a call, mean"] == \
        f"{looks(cost['call_ns'] / 1e9)}, by {cost['calls_measured']:,} measured ones"
    assert told["Lost in the recording"] == "nothing" and not any(report["losses"].values())
    assert told["Part of the time that was asked for"] == "all of it"


def test_losses_limits_and_a_part_of_the_time_are_said_in_words(page):
    page.draw_anew("coverage", """
        const report = commtap.block("report");
        report.losses.sites_lost = 3;
        Object.assign(report.own_cost, {budget_share: 0.01,
            shed: [{what: "gpu_timing", ranks: 2, times: 5, seconds: 1.5}, {what: "stacks", ranks: 0, times: 0, seconds: 0}]});
        report.coverage.window = {from_seconds: 0.5, to_seconds: 1.25, steps: [10, 19], complete: false};""")
    told = facts(page, "coverage")
    assert told["Lost: sites lost"] == "3" and "Lost in the recording" not in told
    assert told["COMMTAP_BUDGET allows"] == "1 %"
    assert told["Left out to stay within it"] == "gpu timing 5 times on 2 ranks, 1.50 s in all"
    assert told["Part of the time that was asked for"] == "steps 10-19, from 500 ms to 1.25 s, not all of it on record"


def test_figures_of_the_page_are_those_of_the_commands(page, report):
    page.show("ranks")
    rows = {row["rank"]: row for row in page.table("section#ranks table")}
    compared = 0
    for rank in report["ranks"]:
        row = rows[str(rank["rank"])]
        for name in ("caused_seconds", "wait_seconds", "comm_seconds", "transfer_seconds", "critical_path_seconds"):
            assert row[name] == looks(rank[name]), (rank["rank"], name)
            compared += 1
        assert row["state"] == rank["state"] and row["host"] == rank["host"]
        compared += 2
    page.show("operations-table")
    for row, told in zip(page.table("section#operations-table table"), report["summary"]):
        assert row["op"] == told["op"] and row["count"].replace(",", "") == str(told["count"])
        assert row["time_total_us"] == looks(told["time_total_us"] / 1e6)
        compared += 3
    assert compared >= 40


def test_figures_of_links_are_those_of_the_command(page, dumps):
    """Of every link, and of what the picture says of it by keyboard."""
    told = {(row["from"], row["to"]): row for row in jobs.document("links", dumps)["links"]}
    page.show("links")
    rows = page.table("section#links table")
    compared = 0
    assert len(rows) == len(told)
    for row in rows:
        link = told[int(row["from"]), int(row["to"])]
        assert row["messages"].replace(",", "") == str(link["messages"])
        value, unit = row["bytes"].split()
        scale = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]
        assert float(value) * scale == pytest.approx(link["bytes"], rel=0.006)  # three digits
        for name in ("wait_seconds", "transfer_seconds"):
            assert row[name] == looks(link[name])
        assert (row["from_host"], row["to_host"], row["type"], row["method"]) == (
            link["from_host"], link["to_host"], link["type"], link["method"])
        compared += 8
    assert compared >= 40


def test_findings_are_those_of_the_report_and_lead_to_their_proof(page, report):
    page.show("findings")
    texts = [item.text for item in page.find_all("section#findings .findings li")]
    assert len(texts) == len(report["findings"])
    assert all(told["text"] in text for text, told in zip(texts, report["findings"]))
    targets = {link.get_attribute("href").split("#")[1] for link in page.find_all("section#findings .findings a")}
    targets = {target for target in targets if not target.startswith("rank=")}
    assert targets and targets <= set(page.views())


def test_chosen_steps_are_those_of_every_view(page, dumps):
    told = jobs.document("steps", "--by", "rank", "--step", "10-19", dumps)["rows"]
    page.show("steps")
    type_into(page, field(page, "Steps"), "10-19")
    rows = page.wait_for("rows of ten steps", lambda: [row for row in page.table("section#steps table") if row["steps"] == "10"])
    assert len(rows) == RANKS
    for row, rank in zip(rows, told):
        for column, name in (("step_us", "step_seconds"), ("comm_us", "comm_seconds"), ("wait_us", "wait_seconds"),
                             ("interval_us", "interval_seconds"), ("tail_us", "tail_seconds")):
            value, unit = row[column].split()
            seconds = float(value) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]
            assert seconds == pytest.approx(rank[name], rel=0.01, abs=1e-6), (row, name)
    page.find(".bar button:not(:disabled)").click()
    page.wait_for("all steps", lambda: all(row["steps"] != "10" for row in page.table("section#steps table")))


def seconds(text):
    value, unit = text.split()
    return float(value) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def test_chosen_steps_are_looked_at_where_time_is_drawn_and_summed_up_for_a_rank(page, dumps):
    told = jobs.document("summary", "--step", "10-19", "--rank", str(SLOW), dumps)["summary"]
    steps = page.block("steps")
    ends = [steps["columns"]["start_us"][rank * steps["cells"] + step - steps["first_step"]]
            for rank in range(RANKS) for step in (10, 20)]
    for view in ("heat", "marey", "summary", "rank"):
        page.show(view)
    look = lambda: [int(page.find("section#marey [data-marks]").get_attribute(f"data-{end}")) for end in ("from", "to")]
    whole = look()
    assert page.find_all("section#heat .veil") == page.find_all(".whole-run:not([hidden])") == []
    type_into(page, field(page, "Steps"), "10-19")
    page.show("marey")
    page.wait_for("a closer look", lambda: look() != whole)
    begin = page.block("operations")["from_ns"]
    assert [at + begin for at in look()] == [pytest.approx(us * 1000, abs=1000) for us in (min(ends), max(ends))]
    left, right = (float(at) for at in page.find("section#heat [data-chosen]").get_attribute("data-chosen").split())
    wide = page.find("section#heat canvas").size["width"] - 112  # of the names
    assert right - left == pytest.approx(wide * (max(ends) - min(ends)) / page.block("heat")["span_us"], abs=2)
    page.show("rank")
    rows = page.wait_for("ten steps", lambda: "in the steps 10-19" in page.find("section#rank").text and
                         page.table("section#rank table"))
    for op in {row["op"] for row in told}:
        of_page, of_command = ([row for row in table if row["op"] == op] for table in (rows, told))
        assert sum(int(row["count"]) for row in of_page) == sum(row["count"] for row in of_command) > 0
        assert sum(seconds(row["time_us"]) for row in of_page) == pytest.approx(
            sum(row["time_total_us"] for row in of_command) / 1e6, rel=0.01)
    whole_run = {note.find_element("xpath", "..").get_attribute("id") for note in page.find_all(".whole-run:not([hidden])")}
    assert whole_run == {"summary", "ranks", "links", "calls", "flame", "operations-table", "sizes"}
    page.find(".bar button:not(:disabled)").click()
    page.show("marey")
    page.wait_for("all of it", lambda: look() == whole)
    assert page.find_all("section#heat .veil") == page.find_all(".whole-run:not([hidden])") == []


@pytest.mark.parametrize("steps", [1, 2, 7, 1000])
def test_an_axis_of_steps_names_each_of_its_places_once(page, steps):
    names = page.run("""
        const x = d3.scaleLinear().domain([-0.5, arguments[0] - 0.5]).range([0, 1000]);
        const svg = d3.create("svg").call((node) => node.append("g").call(commtap.stepAxis(x)));
        return Array.from(svg.node().querySelectorAll(".tick text"), (text) => text.textContent);""", steps)
    numbers = [int(name) for name in names]
    assert numbers and sorted(set(numbers)) == numbers and 0 <= numbers[0] and numbers[-1] < steps


def test_dragging_over_steps_chooses_them(page):
    page.show("overview")
    svg = page.find("section#overview svg")
    span = svg.size["width"] - 2 * 76  # of the axes
    drag(page, svg, 300, 600, 100)
    text = page.wait_for("chosen steps", lambda: field(page, "Steps").get_attribute("value"))
    first, last = map(int, text.split("-"))
    steps = [row["step"] for row in page.block("overview")]
    place = [(x - 76) / span * len(steps) + steps[0] - 0.5 for x in (300, 600)]
    assert first == pytest.approx(place[0], abs=1) and last == pytest.approx(place[1], abs=1)
    page.show("steps")
    assert {int(row["steps"]) for row in page.table("section#steps table")} == {last - first + 1}


def test_a_chosen_rank_is_alone_everywhere(page):
    page.show("ranks")
    type_into(page, field(page, "Ranks"), str(SLOW))
    page.wait_for("one rank", lambda: len(page.table("section#ranks table")) == 1)
    page.show("heat")
    page.wait_for("one row", lambda: page.marks("heat") == page.block("heat")["intervals"])
    page.show("steps")
    assert {row["rank"] for row in page.table("section#steps table")} == {str(SLOW)}


def test_tables_sort_and_search(page, report):
    page.show("ranks")
    button = page.find("section#ranks th button[data-key=wait_seconds]")
    button.click()
    order = [row["rank"] for row in page.table("section#ranks table")]
    assert order == [str(rank["rank"]) for rank in sorted(report["ranks"], key=lambda rank: -rank["wait_seconds"])]
    page.find("section#ranks th button[data-key=wait_seconds]").click()
    assert [row["rank"] for row in page.table("section#ranks table")] == order[::-1]
    page.find("section#ranks input[type=search]").send_keys("5 ")
    page.wait_for("one row", lambda: [row["rank"] for row in page.table("section#ranks table")] == ["5"])


def test_a_brush_looks_closer_and_a_double_click_goes_back(page):
    from selenium.webdriver import ActionChains
    page.show("marey")
    node = "section#marey [data-marks]"
    span = lambda: [int(page.find(node).get_attribute(f"data-{end}")) for end in ("from", "to")]
    whole, marks = span(), page.marks("marey")
    drag(page, page.find("section#marey svg"), 400, 500, 40)
    page.wait_for("a closer look", lambda: span() != whole)
    part = span()
    assert whole[0] < part[0] < part[1] < whole[1]
    assert page.marks("marey") < marks
    ActionChains(page.driver).double_click(page.find("section#marey svg")).perform()
    page.wait_for("all of it", lambda: span() == whole)
    assert page.marks("marey") == marks


def test_plus_and_minus_look_closer_and_back_around_the_framed_place(page):
    page.show("marey")
    node = "section#marey [data-marks]"
    span = lambda: [int(page.find(node).get_attribute(f"data-{end}")) for end in ("from", "to")]
    length = lambda: span()[1] - span()[0]
    press = lambda keys: page.run("return document.activeElement").send_keys(keys)
    whole, marks = span(), page.marks("marey")
    page.find("section#marey canvas").send_keys(key("ARROW_DOWN") * 2 + key("ARROW_RIGHT") * 40)
    words = tell(page, "marey")
    for times in (2, 4):
        press("+")
        assert (whole[1] - whole[0]) / times == pytest.approx(length(), rel=0.05)
        assert tell(page, "marey") == words  # the picture is another one, the place the same
    assert whole[0] < span()[0] and span()[1] < whole[1] and page.marks("marey") < marks
    press("-")
    assert (whole[1] - whole[0]) / 2 == pytest.approx(length(), rel=0.05)
    press("0")
    assert span() == whole and page.marks("marey") == marks and tell(page, "marey") == words
    press("-")
    assert span() == whole and page.complaints() == []


ORANGE_BY_ROW = """
    const canvas = document.querySelector('section#marey canvas');
    const pen = document.createElement('canvas').getContext('2d');
    pen.fillStyle = commtap.color('orange');
    pen.fillRect(0, 0, 1, 1);
    const wanted = pen.getImageData(0, 0, 1, 1).data;
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const counts = Array(arguments[0]).fill(0);
    for (let i = 0; i < pixels.length; i += 4) {
        const row = Math.floor(i / 4 / canvas.width / (canvas.height - 28) * arguments[0]);
        if (row < arguments[0] && [0, 1, 2].every((part) => pixels[i + part] === wanted[part])) {
            counts[row]++;
        }
    }
    return counts;"""


def test_waits_are_drawn_on_the_rows_of_who_waited(page):
    page.show("marey")
    counts = page.run(ORANGE_BY_ROW, RANKS)
    others = counts[:SLOW] + counts[SLOW + 1:]
    assert min(others) > 500 and counts[SLOW] < 0.8 * sorted(others)[len(others) // 2], counts


def test_a_page_does_not_depend_on_the_number_of_threads(dumps, tmp_path):
    pages = [tmp_path / f"{threads}.html" for threads in (1, 2, 5)]
    for path in pages:
        jobs.commtap("html", "--threads", path.stem, "-o", path, dumps)
    assert len({path.read_bytes() for path in pages}) == 1


def test_paper_is_light_and_has_a_width_of_its_own(page):
    """Every view is drawn for paper, in the colours of light, as wide as paper is; the screen has its own back after."""
    widths = lambda: set(page.run("return Array.from(document.querySelectorAll('#heat canvas, #overview svg, #marey canvas'), "
                                  "(node) => Math.round(node.getBoundingClientRect().width))"))
    for view in page.views():
        page.show(view)
    on_screen = widths()
    theme = "return document.documentElement.dataset.theme"
    next(button for button in page.find_all(".bar button") if button.text == "Light or dark").click()
    assert page.run(theme) == "dark"
    page.run("window.dispatchEvent(new Event('beforeprint'))")
    assert page.run(theme) == "light"
    assert {section.get_attribute("data-drawn") for section in page.find_all("main > section")} == {"yes"}
    assert len(widths()) == 1 and max(widths()) <= 960 < min(on_screen)
    page.run("window.dispatchEvent(new Event('afterprint'))")
    assert page.run(theme) == "dark"
    assert widths() == on_screen
    assert page.complaints() == []


def test_pictures_fit_the_window(page):
    page.show("overview")
    width = lambda: page.run("return document.querySelector('section#overview svg').getBoundingClientRect().width")
    before = width()
    try:
        page.driver.set_window_size(900, 900)
        page.wait_for("a narrower picture", lambda: width() < before - 200)
    finally:
        page.driver.set_window_size(1280, 900)
    page.wait_for("the picture as it was", lambda: width() == before)


def tell(page, view):
    return page.find(f"section#{view} .said").text


def framed(page, view):
    """Whether a place of a view's picture is framed, and where the frame's middle lies in the picture."""
    return page.run("""
        const frame = document.querySelector(`section#${arguments[0]} .frame`);
        const [box, all] = [frame, frame.parentNode].map((node) => node.getBoundingClientRect());
        return frame.hidden ? null : [(box.left + box.right) / 2 - all.left, (box.top + box.bottom) / 2 - all.top]""", view)


@pytest.mark.parametrize("view", ["heat", "marey", "links"])
def test_every_rank_that_a_picture_names_is_reached_by_keyboard(page, view):
    """Down from rank to rank, along its time or partners, and to its page; what is framed is read out."""
    page.show(view)
    canvas = page.find(f"section#{view} canvas")
    assert canvas.get_attribute("tabindex") == "0" and "Arrow keys" in canvas.get_attribute("aria-label")
    canvas.send_keys(key("HOME"))
    assert tell(page, view) and page.find(f"section#{view} .said").get_attribute("role") == "status"
    named = []
    for rank in range(RANKS):
        assert f"rank {rank} " in tell(page, view)
        named.append(framed(page, view)[1])
        canvas.send_keys(key("ARROW_DOWN"))
    assert named == sorted(named) and len(set(named)) == RANKS
    assert f"rank {RANKS - 1} " in tell(page, view)  # the last one stays
    before, words = framed(page, view), tell(page, view)
    canvas.send_keys(key("ARROW_RIGHT") * 3)
    assert framed(page, view)[0] > before[0] and tell(page, view) != words
    canvas.send_keys(key("ARROW_LEFT") * 3)
    assert framed(page, view) == before and tell(page, view) == words
    canvas.send_keys(key("ARROW_UP") * 2, key("ENTER"))
    page.wait_for("the rank's page", lambda: page.find_all(f"section#rank [data-rank='{RANKS - 3}']"))
    assert page.run("return document.activeElement.id") == "rank"
    assert framed(page, view) is None and tell(page, view) == ""
    assert page.complaints() == []


def test_what_is_read_out_of_a_picture_is_what_the_data_say(page):
    from selenium.webdriver import ActionChains
    page.show("heat")
    block = page.block("heat")
    canvas = page.find("section#heat canvas")
    canvas.send_keys(key("ARROW_DOWN"), key("ARROW_RIGHT") * 7)
    rank, interval = 1, 7
    assert tell(page, "heat").endswith(f"waiting: {block['waited_percent'][rank * block['intervals'] + interval]} %")
    # and the pointer has a way to the page, too: the rank's name
    ActionChains(page.driver).move_to_element_with_offset(
        canvas, -canvas.size["width"] // 2 + 90, -canvas.size["height"] // 2 + 14 * 2 + 7).click().perform()
    page.wait_for("the rank's page", lambda: page.find_all("section#rank [data-rank='2']"))


def test_links_are_saved_as_csv(page, dumps):
    page.show("links")
    page.find("section#links button.csv").click()
    path = dumps.parent / "links.csv"
    page.wait_for("file", lambda: path.exists() and path.stat().st_size)
    saved = list(csv.DictReader(path.open()))
    told = jobs.document("links", dumps)["links"]
    kinds = {row["kind"] for row in told}
    shown = [row for row in told if row["kind"] == page.block("links")["links"][0]["kind"]]
    assert kinds and len(saved) == len(shown)
    assert sorted((row["from"], row["to"], row["bytes"]) for row in saved) == sorted(
        (str(row["from"]), str(row["to"]), str(row["bytes"])) for row in shown)


def test_every_control_has_a_name_and_is_reached_by_keyboard(page):
    for view in page.views():
        page.show(view)
    nameless = page.run("""
        return Array.from(document.querySelectorAll("button, select, input, a, canvas, svg[role=img], summary"))
            .filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label") || node.labels && node.labels.length))
            .map((node) => node.outerHTML)""")
    assert nameless == []
    reached = page.run("""
        return Array.from(document.querySelectorAll("button, select, input, a[href], summary")).every((node) => node.tabIndex >= 0)""")
    assert reached


def test_data_are_the_documents_of_the_commands(page, dumps, report):
    assert page.block("report")["ranks"] == report["ranks"]
    assert page.block("report")["findings"] == report["findings"]
    assert page.block("links")["links"] == jobs.document("links", dumps)["links"]
    assert page.block("overview") == jobs.document("steps", "--by", "step", dumps)["rows"]


def test_every_key_of_the_page_is_documented(page):
    told = set(re.findall(r"`(\w+)`", (jobs.ROOT / "doc" / "PAGE.md").read_text()))

    def keys(document):
        if isinstance(document, dict):
            return set(document) | set().union(*map(keys, document.values()))
        return set().union(*map(keys, document)) if isinstance(document, list) else set()

    for name in ("page", "standstill", "steps", "heat", "operations", "path"):
        assert keys(page.block(name)) <= told, name


HOSTILE = "</script><script>document.title='taken'</script>\"'<img src=x onerror=alert(1)>\x07\u202eevil\u2066 \u00e9" + "x" * 10000


def test_hostile_names_are_text(tmp_path):
    """In the names of a process group, a function of the program and a directory."""
    browsers.need()
    group = {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float", "Group size": 2,
             "Process Group Name": HOSTILE, "Process Group Ranks": "[0, 1]"}
    for rank in range(2):
        events = [{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "pid": 0, "tid": 7,
                   "ts": 1000 + 100 * i, "dur": 50, "args": group} for i in range(30)]
        events += [{"ph": "X", "cat": "python_function", "name": HOSTILE, "pid": 1, "tid": 1, "ts": 1000, "dur": 5000}]
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(
            {"deviceProperties": [{"id": 0}], "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}))
    dumps = tmp_path / "<script>document.title='taken'<"
    jobs.commtap("import", *sorted(tmp_path.glob("*.json")), "-o", dumps)
    jobs.commtap("html", "-o", tmp_path / "report.html", dumps)
    page = browsers.Page(tmp_path / "report.html")
    try:
        for view in page.views():
            page.show(view)
        assert "onerror" in json.dumps(page.block("report")) + json.dumps(page.block("operations"))
        written = (tmp_path / "report.html").read_text()
        assert "\\\\u{202e}evil\\\\u{2066} \u00e9" in written and not set("\u202e\u2066\ufffd") & set(written)
        assert page.driver.title.startswith("commtap: ") and page.find_all("img") == []
        assert page.complaints() == [] and page.requests() == []
    finally:
        page.close()


def test_a_redacted_page_names_no_machine_place_or_argument(dumps, tmp_path):
    jobs.need("node-d3")
    plain, redacted = tmp_path / "plain.html", tmp_path / "redacted.html"
    jobs.commtap("html", "-o", plain, dumps)
    jobs.commtap("html", "--redact", "-o", redacted, dumps)
    data = re.compile(r'<script type="application/json" id="data-[a-z]+">(.*?)</script>', re.DOTALL)
    told = ["\n".join(data.findall(path.read_text())) for path in (plain, redacted)]
    job = jobs.report(dumps)["job"]
    for secret in (job["host_names"][0], job["command"], job["working_directory"], str(tmp_path), str(jobs.ROOT)):
        if secret:
            words = re.compile(rf"(?<![\w-]){re.escape(secret)}(?![\w-])")
            assert words.search(told[0]) or secret == str(tmp_path), secret
            assert not words.search(told[1]), secret
    assert f'"title":"{dumps}"' in told[0] and '"title":"a job"' in told[1] and f"/{dumps.name}" not in told[1]
    assert '"module":"train"' in told[0] and '"module":"train"' not in told[1] and '"module":"module ' in told[1]
    assert "train.c" in told[1] and '"host":"host 1"' in told[1]


def test_nothing_of_anybody_elses_is_overwritten(dumps, tmp_path):
    browsers.need()
    foreign = tmp_path / "report.html"
    foreign.write_text("<html>mine</html>")
    refused = jobs.commtap("html", "-o", foreign, dumps, codes=(4,))
    assert "--force" in refused.stderr and foreign.read_text() == "<html>mine</html>"
    jobs.commtap("html", "--force", "-o", foreign, dumps)
    jobs.commtap("html", "-o", foreign, dumps)
    jobs.commtap("html", "-o", "/dev/full", dumps, codes=(4,))
    assert jobs.commtap("html", "-o", tmp_path / "none.html", tmp_path, codes=(3,)).stdout == ""
    assert not (tmp_path / "none.html").exists()
