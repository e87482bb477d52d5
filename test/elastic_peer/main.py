# SPDX-License-Identifier: Apache-2.0
#
# commtap elastic against DeepSpeed's own code in 1000 random configurations; fails where they differ. Lives here:
# fetching, the configurations, the comparison. Must not live here: what either works out.
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMMTAP = ROOT / "build" / "commtap"
HOME = ROOT / "build" / "test" / "elastic"
CASES = 1000
SEED = 20
MOST = 48  # ranks up to which it is tried what a job starts with
COMPARED = ("final_batch_size", "valid_gpus", "micro_batch_size")
NEEDED = [f"deepspeed/elasticity/{name}.py" for name in ("elasticity", "config", "constants")]
# In place of the parts of DeepSpeed that elasticity.py asks for its version and for somewhere to log to.
AROUND = {
    "deepspeed/__init__.py": "",
    "deepspeed/elasticity/__init__.py": "",
    "deepspeed/git_version_info.py": "version = '0.19.7'\n",
    "deepspeed/utils.py": "import logging\nlogger = logging.getLogger('deepspeed')\n",
}

sys.path.insert(0, str(ROOT / "test" / "support"))
import peers  # noqa: E402


def unpack(source, folder):
    with tarfile.open(source) as archive:
        for member in archive:
            name = member.name.removeprefix("./").partition("/")[2]
            if member.isfile() and name in NEEDED:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(archive.extractfile(member).read())
    for name, text in AROUND.items():
        (folder / name).write_text(text)


def configuration(draw):
    """One of either version; a tenth of them makes no sense, as configurations do."""
    micro = [draw.choice((1, 2, 3, 4, 6, 7, 8, 10, 12, 16, 17, 24, 32)) for _ in range(draw.randint(1, 5))]
    least = draw.choice((1, 1, 2, 8, 32))
    section = {"enabled": True, "max_train_batch_size": draw.choice((8, 32, 100, 1000, 10000, draw.randint(1, 30000))),
               "micro_batch_sizes": micro, "min_gpus": least, "max_gpus": least * draw.choice((1, 2, 10, 50, 1000)),
               "prefer_larger_batch": draw.random() < 0.7, "version": draw.choice((0.1, 0.2))}
    if section["version"] == 0.2 or draw.random() < 0.1:
        section["num_gpus_per_node"] = draw.choice((1, 2, 4, 8))
        section["model_parallel_size"] = draw.choice((1, 1, 1, 2, 4))
    for key in ("min_gpus", "max_gpus", "prefer_larger_batch"):
        if draw.random() < 0.2:
            del section[key]
    return {"elasticity": section}


def ours(folder, case):
    path = folder / "ds_config.json"
    path.write_text(json.dumps(case["config"]))
    size = str(case["world_size"])
    words, around = ([], {"WORLD_SIZE": size}) if case["by_environment"] else (["-w", size], {})
    said = subprocess.run([COMMTAP, "elastic", "-c", path, *words, "--format", "json"], env={**os.environ, **around},
                          capture_output=True, text=True, check=False, timeout=60)
    if said.returncode not in (0, 1):
        return {"refused": said.stderr.strip()}
    document = json.loads(said.stdout)
    answer = {key: document[key] for key in COMPARED}
    if document["goes_on"]:
        rest = document["goes_on"]
        answer["starts"] = {str(count): rest["final_batch_size"] for count in rest["valid_gpus"] if count <= MOST}
    return answer


def drawn_case(draw):
    config = configuration(draw)
    world = draw.choice((1, 2, 4, 8, 16, 24, 32, 64, draw.randint(1, 300)))
    section = config["elasticity"]
    by_environment = section["version"] == 0.2 and draw.random() < 0.5
    split = section.get("model_parallel_size", 1) if by_environment else 1
    return {"config": config, "world_size": world, "by_environment": by_environment, "most": MOST,
            "ranks": world // split if world % split == 0 else None}


def kind_of(answer):
    if "refused" in answer:
        return "refused"
    return "valid" if answer["micro_batch_size"] else "world size not valid"


def main():
    packages = peers.install(HOME, HERE / "pins.txt", "DeepSpeed", "--no-binary", ":all:", unpack=unpack)
    if not packages:
        return 0
    draw = random.Random(SEED)
    cases = [drawn_case(draw) for _ in range(CASES)]
    said = subprocess.run([sys.executable, HERE / "compute.py"], input="\n".join(map(json.dumps, cases)), text=True,
                          env={**os.environ, "PYTHONPATH": str(packages)}, stdout=subprocess.PIPE, check=True,
                          timeout=600)
    kinds, differing = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for case, line in zip(cases, said.stdout.splitlines(), strict=True):
            theirs, mine = json.loads(line), ours(pathlib.Path(folder), case)
            kinds[kind_of(theirs)] += 1
            if mine != theirs and not ("refused" in mine and "refused" in theirs):
                differing += 1
                print("differs:", json.dumps(case), "\n  DeepSpeed:", theirs, "\n  commtap:", mine)
    print(f"{CASES} configurations, {differing} differ; by DeepSpeed: " +
          ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    return 1 if differing or len(kinds) < 3 else 0


sys.exit(main())
