# SPDX-License-Identifier: Apache-2.0
#
# commtap's figures of GPUs against those of Holistic Trace Analysis, trace by trace; fails where one is off by more than
# 1 %. Lives here: fetching, the comparison, the table. Must not live here: that tool's figures (figures.py).
import json
import os
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMMTAP = ROOT / "build" / "commtap"
HOME = ROOT / "build" / "test" / "hta"
REPOSITORY = "https://github.com/facebookresearch/HolisticTraceAnalysis"
COMMIT = "f4d0062c382f42bd8a74838bcdad1916c7d5d2da"
ALLOWED = 0.01
# Of kernel time: what is less is below the resolution of the traces.
LEAST = 0.001

sys.path.insert(0, str(ROOT / "test" / "support"))
import peers  # noqa: E402
from peers import quietly  # noqa: E402


def traces(given):
    """Its own test traces; where those cannot be had, the two that are here."""
    data = HOME / "repository" / "tests" / "data"
    if given:
        data = pathlib.Path(given)
    elif not data.exists():
        folder = HOME / "repository"
        shutil.rmtree(folder, ignore_errors=True)
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        steps = (["git", "init", "--quiet", str(folder)],
                 ["git", "-C", str(folder), "fetch", "--quiet", "--depth", "1", REPOSITORY, COMMIT],
                 ["git", "-C", str(folder), "checkout", "--quiet", "FETCH_HEAD"])
        if any(quietly(*step, env=environment, timeout=900).returncode for step in steps):
            shutil.rmtree(folder, ignore_errors=True)
            print("its repository cannot be had: two of its traces only")
            data = ROOT / "test" / "data" / "traces"
    return data, sorted(path for path in data.rglob("*.json.gz") if data.name == "data" or path.name.startswith("hta_"))


def theirs(packages, path):
    said = quietly(sys.executable, HERE / "figures.py", path, env={**os.environ, "PYTHONPATH": str(packages)}, timeout=900)
    return json.loads(said.stdout.splitlines()[-1]) if said.returncode == 0 else None


def ours(path):
    """The same figures by commtap: of all steps but the last where there are several, and of each."""
    with tempfile.TemporaryDirectory() as folder:
        if quietly(COMMTAP, "import", path, "-o", folder).returncode:
            return None
        def ask(*arguments):
            return json.loads(quietly(COMMTAP, "steps", "--format", "json", *arguments, folder).stdout)
        found = ask()["steps_found"]
        chosen = ["--step", f"0-{found - 2}"] if found > 1 else []
        whole, steps = ask(*chosen)["gpus"], ask("--by", "both", *chosen)["gpus"]
    return {"all": figures(whole[0]), "steps": [figures(row) for row in steps] if found > 2 else []} if whole else None


def figures(row):
    times = {key: row[f"{key}_seconds"] * 1e6 for key in ("kernel", "idle", "compute")}
    share = row["overlap_share"]
    return {**times, "other": (row["busy_seconds"] - row["compute_seconds"]) * 1e6,
            "overlap": None if share is None else round(100 * share, 2)}


def off(mine, peer):
    """By how much the worst figure is off."""
    least = {key: LEAST * peer["kernel"] for key in peer} | {"overlap": 1}
    if (mine["overlap"] is None) != (peer["overlap"] is None):
        return 1
    return max(abs(mine[key] - peer[key]) / max(abs(peer[key]), least[key]) for key in peer if peer[key] is not None)


def compare(mine, peer):
    if len(mine["steps"]) != len(peer["steps"]):
        return 1
    return max(off(*pair) for pair in zip([mine["all"], *mine["steps"]], [peer["all"], *peer["steps"]]))


def told(values):
    share = "-" if values["overlap"] is None else f"{values['overlap']:.2f}"
    return " ".join(f"{values[key] / 1e3:9.2f}" for key in ("kernel", "idle", "compute", "other")) + f" {share:>7}"


def main(given=None):
    packages = peers.install(HOME, HERE / "pins.txt", "Holistic Trace Analysis", "--only-binary", ":all:")
    if not packages:
        return 0
    data, paths = traces(given)
    failed = compared = 0
    print(f"{'':52} {'kernels':>9} {'idle':>9} {'compute':>9} {'other':>9} {'overlap':>7}  ms, %; HTA above, commtap below")
    for path in paths:
        name = str(path.relative_to(data))[-52:]
        peer, mine = theirs(packages, path), ours(path)
        if peer is None or mine is None:
            print(f"{name:52} " + " and ".join(who for who, what in (("HTA", peer), ("commtap", mine)) if what is None) +
                  ": nothing of a GPU")
            failed += peer is not None and "mtia" not in name
            continue
        worst = compare(mine, peer)
        compared += 1
        failed += worst > ALLOWED
        differs = off(peer["all"], peer["plain"]) > ALLOWED
        print(f"{name:52} {told(peer['all'])}  {len(peer['steps'])} steps apart\n"
              f"{'':52} {told(mine['all'])}  off by {100 * worst:.2f} %" +
              ("; HTA's with what ran on no GPU:\n" + f"{'':52} " + told(peer["plain"]) if differs else ""))
    print(f"{compared} traces compared, {failed} off by more than {100 * ALLOWED:.0f} %")
    return failed > 0 or compared == 0


sys.exit(main(*sys.argv[1:]))
