# SPDX-License-Identifier: Apache-2.0
#
# Pictures of the views of commtap html: all of them for looking at, some for the README. The jobs are played, or were
# published: the pictures are the same wherever they are made, and name no machine.
# Must not live here: what views must show (test/e2e/test_html*.py).
#
#   screenshots.py FOLDER PICTURES     every view into FOLDER, those of the README, small, into PICTURES
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test" / "support"))
import browsers  # noqa: E402
import jobs  # noqa: E402

PLAY = jobs.BUILD / "test" / "scenes" / "play"
PUBLISHED = ROOT / "test" / "data" / "traces" / "straggler-ST.json.gz"
IN_README = {"training-marey", "training-heat", "stencil-links", "pipeline-pipeline"}
BYTES_MOST = 1_000_000  # of the README's pictures together
COLORS = 64


def play(dumps, *job):
    dumps.mkdir()
    subprocess.run([PLAY, dumps, *job], check=True)


JOBS = {
    "training": lambda dumps: play(dumps, "data parallel", "ranks=8", "ranks_per_host=4", "steps=12", "slow_rank=2",
                                   "factor=1.6"),
    "stencil": lambda dumps: play(dumps, "stencil", "ranks=72", "ranks_per_host=9", "steps=6", "slow_rank=3",
                                  "factor=1.5"),
    "pipeline": lambda dumps: jobs.commtap("import", PUBLISHED, "-o", dumps),
}


def take(path, folder, name):
    page = browsers.Page(path, width=1280, height=1100)
    for view in page.views():
        page.show(view)
    for view in page.views():
        page.show(view).screenshot(str(folder / f"{name}-{view}.png"))
    page.close()


def reduce(folder, pictures):
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir(parents=True)
    for name in sorted(IN_README):
        subprocess.run(["pngquant", "--strip", "--speed", "1", "--output", pictures / f"{name}.png", str(COLORS),
                        folder / f"{name}.png"], check=True)
    assert sum(picture.stat().st_size for picture in pictures.iterdir()) <= BYTES_MOST


def main():
    folder, pictures = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, make in JOBS.items():
        make(folder / name)
        path = folder / f"{name}.html"
        jobs.commtap("html", "-o", path, folder / name)
        take(path, folder, name)
        shutil.rmtree(folder / name)
    reduce(folder, pictures)


main()
