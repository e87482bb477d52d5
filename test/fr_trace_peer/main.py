# SPDX-License-Identifier: Apache-2.0
#
# commtap's findings about flight recorders that disagree against those of PyTorch's fr_trace, case by case; fails where
# they differ for no known reason. Lives here: fetching, the comparison, the table. Must not live here: the cases.
import json
import os
import pathlib
import pickle
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMMTAP = ROOT / "build" / "commtap"
HOME = ROOT / "build" / "test" / "fr_trace"
PLACE = "torch/distributed/flight_recorder/"
RANKS = {0, 1, 2}
NUMBER = 5
# Where the two are known to say different things, and why.
KNOWN = {
    "barrier and broadcast": "it knows no barrier, and gives up",
    "two names of one function": "it takes the made-up sizes amiss as well, and names who has the majority's name",
    "input and output of all": "it names all but the one whom it compares the others with; that one is not better",
    "sums of an all-to-all": "it names the one whom it compares with, or nobody; the sums are of all of them",
    "one has not ended": "it names whose state differs; what has started everywhere waits for the transport",
}

sys.path.insert(0, str(ROOT / "test" / "support"))
import peers  # noqa: E402
from flight_recorders import DIFFERENCES, recorders_that_disagree  # noqa: E402
from peers import quietly  # noqa: E402


def unpack(wheel, folder):
    """Packages that are otherwise empty."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(PLACE)])
    for package in ("torch", "torch/distributed"):
        (folder / package / "__init__.py").touch()


def write(folder, documents):
    """As PyTorch does, with what fr_trace wants in every entry."""
    for rank, document in enumerate(documents):
        for number, entry in enumerate(document["entries"]):
            entry.update(process_group=tuple(entry["process_group"]), record_id=number, pg_id=0, op_id=0, frames=[],
                         retired=False, timeout_ms=600000)
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(document, protocol=2))


def theirs(packages, folder):
    said = quietly(sys.executable, HERE / "findings.py", folder, str(NUMBER),
                   env={**os.environ, "PYTHONPATH": str(packages)}, timeout=60)
    return json.loads(said.stdout.splitlines()[-1]) if said.returncode == 0 else None


def ours(folder, output):
    if quietly(COMMTAP, "import", folder, "-o", output).returncode:
        return None
    found = json.loads(quietly(COMMTAP, "diagnose", "--format", "json", output).stdout)
    return {"verdict": found["verdict"], "guilty": {culprit["rank"] for culprit in found["culprits"]}}


def agree(mine, peer):
    """It compares with the first rank: where that one alone did something else, it lists all others."""
    if mine is None or peer is None:
        return False
    differ, missing = set(peer["differ"]), set(peer["missing"])
    if differ:
        return mine["guilty"] in (differ, RANKS - differ)
    return mine["verdict"] == "hang" and mine["guilty"] == missing


def main():
    packages = peers.install(HOME, HERE / "pins.txt", "fr_trace", "--only-binary", ":all:", "--platform", "macosx_11_0_arm64",
                             "--python-version", "3.11", unpack=unpack)
    if not packages:
        return 0
    failed = 0
    for what in DIFFERENCES:
        for earliest in ((1, 1, 1), (1, 3, 2)):
            with tempfile.TemporaryDirectory() as given, tempfile.TemporaryDirectory() as output:
                write(pathlib.Path(given), recorders_that_disagree(what, earliest))
                peer, mine = theirs(packages, given), ours(given, output)
            same = agree(mine, peer)
            failed += not same and what not in KNOWN
            told = "gives up" if peer is None else ", ".join(f"{key} {peer[key]}" for key in peer if peer[key]) or "nothing"
            own = "refuses" if mine is None else f"{mine['verdict']} {sorted(mine['guilty']) or ''}"
            print(f"{what:26} from {earliest}  fr_trace: {told:24} commtap: {own:14} " +
                  ("agree" if same else "differ" + (f": {KNOWN[what]}" if what in KNOWN else "")))
    print(f"{failed} cases differ for no known reason")
    return failed > 0


sys.exit(main())
