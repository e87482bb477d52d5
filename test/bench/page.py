# SPDX-License-Identifier: Apache-2.0
#
# How fast a page of commtap html opens and answers, in headless Chromium: 1024 ranks of 128 steps.
# Must not live here: how fast it is written (analysis.c), whether it is right (test/e2e/test_html.py).
#
#   page.py DUMPS SCRATCH: DUMPS makes the job's dumps (dumps.c)
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "support"))
import browsers  # noqa: E402
import jobs  # noqa: E402

RANKS, RECORDS, ROUNDS = 1024, 512, 5
PAINT_MS, INTERACTION_MS, MEGABYTES = 2000, 100, 20
# What a reader does, as scripts: the time until all that is seen has been laid out again. %d changes from round to round.
INTERACTIONS = [
    ("steps", "choose steps", "commtap.selection.choose({steps: [[10 + %d, 20]]})"),
    ("steps", "choose a rank", "commtap.selection.choose({ranks: [[%d, %d + 3]], steps: null})"),
    ("steps", "choose all", "commtap.selection.choose({ranks: null, steps: [[%d, 100]]})"),
    ("steps", "sort the step trace", "document.querySelector('#steps th button[data-key=interval_us]').click()"),
    ("heat", "choose another share", "const s = document.querySelector('#heat select'); s.value = ['own', 'waited'][%d %% 2];"
                                     "s.dispatchEvent(new Event('change'))"),
    ("marey", "choose ranks in the operations", "commtap.selection.choose({ranks: [[%d, 600]]})"),
    ("ranks", "sort the ranks", "document.querySelector('#ranks th button[data-key=wait_seconds]').click()"),
]


def interaction(page, view, script):
    times = []
    for i in range(ROUNDS):
        page.show(view)
        filled = script % tuple([i] * script.replace("%%", "").count("%d")) if "%d" in script else script
        times.append(page.run("const begin = performance.now();" + filled +
                              "; document.body.offsetHeight; return performance.now() - begin"))
    return statistics.median(times)


def main():
    dumps, scratch = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "dumps").mkdir(parents=True)
    subprocess.run([dumps, scratch / "dumps", str(RANKS), str(RECORDS)], check=True)
    path = scratch / "report.html"
    subprocess.run([jobs.COMMTAP, "html", "-o", path, scratch / "dumps"], check=True, stderr=subprocess.DEVNULL)
    page = browsers.Page(path)
    paint = page.run("return performance.getEntriesByType('paint')[0].startTime")
    size = path.stat().st_size / 1e6
    print(f"## Page: {RANKS} ranks of {RECORDS // 4} steps\n\n| | measured | goal |\n|---|---|---|")
    print(f"| size | {size:.1f} MB | {MEGABYTES} MB |\n| first paint | {paint:.0f} ms | {PAINT_MS} ms |")
    for view, name, script in INTERACTIONS:
        print(f"| {name} | {interaction(page, view, script):.0f} ms | {INTERACTION_MS} ms |")
    print()
    page.close()
    shutil.rmtree(scratch)


main()
