# SPDX-License-Identifier: Apache-2.0
#
# Manual pages: roff without a warning, the same words as --help and completion have, and where make install puts them.
# Must not live here: what options do.
import re
import shlex
import subprocess

import pytest

import jobs

PAGES = jobs.commtap("--man").stdout.split() if jobs.COMMTAP.exists() else []
COMMANDS = [page.removeprefix("commtap-").removesuffix(".1") for page in PAGES if page.startswith("commtap-")]
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "FILES", "SEE ALSO"]


def one_line(text):
    return " ".join(text.split())


def rendered(page):
    """The page as it looks on a terminal, in lines; roff has nothing to complain about."""
    jobs.need("groff-base")
    done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-P-cbou"], input=jobs.commtap("--man", page).stdout,
                          capture_output=True, text=True, encoding="utf-8", timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), page
    return done.stdout.replace("\u2212", "-")  # what a minus sign is without the distribution's own settings


def help_of(command):
    """--help in parts: (name, meaning) of each option and column, the text above them."""
    above, _, below = jobs.commtap(command, "--help").stdout.partition("\noptions:\n")
    options, _, columns = below.partition("\ncolumns, by their name in json and, where there is one, csv:\n")
    options = options.partition("\nexamples:\n")[0]
    return items(options), items(columns), above.split("\n\n", 2)[2] if above.count("\n\n") > 1 else ""


def items(text):
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"  (?! {20})\s*(\S.*?)(?:  +(\S.*))?", line)
        if match:
            found.append([match.group(1), match.group(2) or ""])
        else:
            found[-1][1] += " " + line
    return [(name, one_line(meaning)) for name, meaning in found]


@pytest.mark.parametrize("page", PAGES)
def test_roff_says_nothing_against_it(page):
    name, section = page.rsplit(".", 1)
    lines = rendered(page).splitlines()
    headings = [line for line in lines if re.fullmatch(r"[A-Z][A-Z ]+", line)]
    wanted = [heading for heading in SECTIONS if section == "1" or heading not in ("OPTIONS", "EXIT STATUS")]
    assert [heading for heading in headings if heading in SECTIONS] == wanted
    assert len(set(headings)) == len(headings)
    assert lines[0].startswith(f"{name}({section})") and lines[-1].startswith("commtap ")
    text = one_line("\n".join(lines))
    assert f"NAME {name} - " in text and "\\" not in text


def test_there_is_a_page_for_everything():
    listed = jobs.commtap("--help").stdout.partition("commands:\n")[2].partition("\n\n")[0]
    assert COMMANDS == re.findall(r"^  (\w+)", listed, re.M)
    assert {"commtap.1", "libcommtap.7"} <= set(PAGES)
    done = jobs.commtap("--man", "commtap-nothing.1", codes=(2,))
    assert done.stdout == "" and "commtap-nothing.1" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_says_what_help_says(command):
    page = one_line(rendered(f"commtap-{command}.1"))
    options, columns, details = help_of(command)
    assert len(options) >= 2
    for name, meaning in options + [column for column in columns if column[1]]:
        assert f"{name} {meaning} " in page or f"{name} {meaning}" in page.replace("| ", "|"), name
    for sentence in details.split("\n"):
        assert one_line(sentence) in page or one_line(sentence) in page.replace("| ", "|")


@pytest.mark.parametrize("command", COMMANDS)
def test_completion_knows_the_same_options(command):
    script = jobs.commtap("--completion").stdout
    words = re.search(rf'^    {command}:-\*\) COMPREPLY=\(\$\(compgen -W "(.*?)"', script, re.M).group(1)
    section = rendered(f"commtap-{command}.1").partition("\nOPTIONS\n")[2].partition("\nEXIT STATUS\n")[0]
    section = section.partition("\nCOLUMNS\n")[0]
    assert sorted(words.split()) == sorted(re.findall(r"^ {7}(?:-\w, )?(--[\w-]+)", section, re.M))


@pytest.mark.parametrize("command", COMMANDS)
def test_who_prints_json_says_where_its_keys_are_declared(command):
    """test_schema.py holds the documents against that file, key by key."""
    described = one_line(jobs.commtap(command, "--help").stdout)
    forms = re.search(r"--format FORMAT [^(]*: (\S+) \(default", described)
    prints = forms is not None and "json" in forms.group(1)
    assert ("share/commtap/commtap.schema.json declares every key" in described) is prints


def test_every_knob_is_there():
    page = one_line(rendered("libcommtap.7"))
    knobs = jobs.document("env")["knobs"]
    assert len(knobs) >= 10
    for knob in knobs:
        default = f" (default {knob['default']})" if knob["default"] else ""
        assert one_line(f"{knob['name']} {knob['doc']}{default}") in page, knob["name"]


def examples(page):
    text = rendered(page).partition("\nEXAMPLES\n")[2].partition("\nSEE ALSO\n")[0]
    return re.findall(r"^ {11}(\S.*)$", text, re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_are_commands(command):
    found = examples(f"commtap-{command}.1")
    assert found and found[0] in examples("commtap.1")
    for line in found:
        words = shlex.split(line)
        words = words[words.index("commtap") + 1:]
        assert words[0] == command
        end = words.index("--") if "--" in words else len(words)
        assert jobs.commtap(*words[:end], "--help").stdout.startswith(f"usage: commtap {command} ")


def test_install_puts_everything_in_its_place(tmp_path):
    jobs.need("make")
    subprocess.run(["make", "-s", "-C", jobs.ROOT, "-o", "all", "install", f"DESTDIR={tmp_path}", "PREFIX=/opt/x"],
                   check=True, capture_output=True, timeout=60)
    prefix = tmp_path / "opt" / "x"
    for page in PAGES:
        installed = prefix / "share" / "man" / f"man{page[-1]}" / page
        assert installed.read_text() == jobs.commtap("--man", page).stdout
    schema = prefix / "share" / "commtap" / "commtap.schema.json"
    assert schema.read_bytes() == (jobs.ROOT / "doc" / "commtap.schema.json").read_bytes()
    assert (prefix / "bin" / "commtap").exists() and (prefix / "lib" / "libcommtap.so").exists()
    assert {path.parts[len(tmp_path.parts)] for path in tmp_path.rglob("*")} == {"opt"}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_is_its_help(command):
    assert jobs.commtap("help", command).stdout == jobs.commtap(command, "--help").stdout


def test_help_of_what_there_is_not():
    assert "unknown command 'reprot' (maybe: report?)" in jobs.commtap("help", "reprot", codes=(2,)).stderr


def test_collects_script_has_its_help():
    done = subprocess.run([jobs.ROOT / "scripts" / "commtap-collect", "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, jobs.commtap("collect", "--help").stdout)


@pytest.mark.parametrize("command", ["report", "stragglers", "steps"])
def test_every_code_of_a_finding_is_listed_and_taken(command, tmp_path):
    meaning = dict(help_of(command)[0])["--fail-on WHAT"]
    codes = meaning.partition("one of these")[2].partition(": ")[2].split(", ")
    source = (jobs.ROOT / "analyzer" / "findings" / "finding.c").read_text()
    assert codes == re.findall(r'^    \[FINDING_\w+\] = {[^}]*"(\w+)"},', source, re.M) and len(codes) > 40
    for code in (codes[0], codes[-1]):  # a directory that is not there is told of only once the code was taken
        jobs.commtap(command, "--fail-on", code, tmp_path / "none", codes=(3,))
    jobs.commtap(command, "--fail-on", "nonsense", tmp_path / "none", codes=(2,))


@pytest.mark.parametrize("typed, meant", [("reprot", "report"), ("sumary", "summary"), ("foo", None), ("top", None),
                                          ("doktor", "doctor"), ("html", None)])
def test_what_was_meant_is_not_far_fetched(typed, meant):
    said = jobs.commtap(typed, codes=(2,)).stderr
    assert (f"maybe: {meant}?" in said) if meant else "maybe" not in said


@pytest.mark.parametrize("name, meant", [("COMMTAP_RIGN", "COMMTAP_RING"), ("COMMTAP_STAK", "COMMTAP_STACK"),
                                         ("COMMTAP_FOO", None), ("COMMTAP_COLOUR", None)])
def test_a_knob_that_was_meant_is_not_far_fetched(name, meant):
    said = subprocess.run([jobs.COMMTAP, "env"], env={**jobs.clean_environment(), name: "1"}, capture_output=True,
                          text=True).stderr
    assert name in said and ((f"maybe: {meant}" in said) if meant else "maybe" not in said)


def test_installed_documents_point_to_what_is_installed(tmp_path):
    jobs.need("make")
    subprocess.run(["make", "-s", "-C", jobs.ROOT, "-o", "all", "install", f"DESTDIR={tmp_path}", "PREFIX=/opt/x"],
                   check=True, capture_output=True, timeout=60)
    prefix = tmp_path / "opt" / "x"
    module = (prefix / "share" / "commtap" / "modulefile").read_text()
    assert "set prefix /opt/x\n" in module and "/usr/local" not in module and "@" not in module
    papers = sorted((prefix / "share" / "doc" / "commtap").rglob("*.md"))
    assert {"README.md", "FORMAT.md", "METHODS.md", "GLOSSARY.md", "CALLS.md"} <= {paper.name for paper in papers}
    for paper in papers:
        if paper.name == "README.md":
            links = re.findall(r"\]\(([^)#]+)[^)]*\)", paper.read_text(encoding="utf-8"))
            assert [link for link in links if "://" not in link and not (paper.parent / link).exists()] == []
