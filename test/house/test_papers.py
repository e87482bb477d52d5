# SPDX-License-Identifier: Apache-2.0
#
# The documents in the tree say what is there: links lead somewhere, rooms are those of the tree, examples are real code.
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAPERS = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("doc/*.md")])
ARCHITECTURE = (ROOT / "doc" / "ARCHITECTURE.md").read_text(encoding="utf-8")


def rooms_of(tree):
    """The rooms of the table below the heading `The rooms of <tree>/`, in their order."""
    section = ARCHITECTURE.split(f"## The rooms of {tree}/", 1)[1].split("\n## ", 1)[0]
    return [room for room in re.findall(r"^\| (\w+) \|", section, re.MULTILINE) if room != "room"]


def order_in_make(name):
    text = (ROOT / "test" / "house.mk").read_text(encoding="utf-8").replace("\\\n", " ")
    return re.search(rf"^{name} := (.*)$", text, re.MULTILINE).group(1).split()


def squeezed(text):
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("paper", PAPERS, ids=lambda path: path.name)
def test_links_lead_somewhere(paper):
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", paper.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (paper.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("paper", PAPERS, ids=lambda path: path.name)
def test_make_targets_exist(paper):
    named = set(re.findall(r"\bmake ([a-z][a-z0-9-]*)", " ".join(re.findall(r"`[^`]*`|^    .*$", paper.read_text(
        encoding="utf-8"), re.MULTILINE))))
    rules = "".join(path.read_text(encoding="utf-8") for path in [ROOT / "Makefile", *ROOT.glob("test/*.mk")])
    assert {name for name in named if not re.search(rf"^\.PHONY:.*\b{name}\b|^{name}:", rules, re.MULTILINE)} == set()


def test_pictures_are_small_and_shown():
    pictures = sorted((ROOT / "doc" / "pictures").glob("*"))
    shown = re.findall(r"!\[[^\]]+\]\((doc/pictures/[^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert sorted(shown) == [str(picture.relative_to(ROOT)) for picture in pictures] != []
    assert all(picture.read_bytes().startswith(b"\x89PNG\r\n") for picture in pictures)
    assert sum(picture.stat().st_size for picture in pictures) <= 1_000_000


@pytest.mark.parametrize("tree", ["shim", "analyzer"])
def test_rooms_are_those_of_the_tree(tree):
    folders = sorted(path.name for path in (ROOT / tree).iterdir() if path.is_dir() and any(path.glob("*.[ch]")))
    assert sorted(rooms_of(tree)) == folders
    assert rooms_of(tree) == order_in_make(f"{tree.upper()}_ROOMS")


def test_examples_are_real_code():
    """Indented lines of `Where to add`; a line of dots stands for what lies between."""
    section = ARCHITECTURE.split("## Where to add", 1)[1].split("\n## ", 1)[0]
    blocks = [block.strip("\n") for block in re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)]
    examples = [squeezed(part).strip() for block in blocks for part in re.split(r"^ *\.\.\.$", block, flags=re.MULTILINE)]
    listed = subprocess.run(["git", "ls-files", "shim", "analyzer"], cwd=ROOT, capture_output=True, text=True, check=True)
    code = [squeezed((ROOT / name).read_text(encoding="utf-8", errors="replace")) for name in listed.stdout.split()]
    assert len(examples) >= 6
    assert [example for example in examples if not any(example in text for text in code)] == []
