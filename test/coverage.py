#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Line coverage of trees of sources, per folder, as a table in markdown.

    coverage.py BUILD TREE...

BUILD holds gcov's counts (.gcda). A source may be built several times, for programs and for the library: a line is
covered when any of its copies ran, and counts when any has code.
"""
import collections
import json
import os
import subprocess
import sys

BATCH = 40  # files per run of gcov


def counted_files(build):
    return sorted(os.path.abspath(os.path.join(folder, name)) for folder, _, names in os.walk(build)
                  for name in names if name.endswith(".gcno"))


def lines_of(files, trees):
    """Per source: which of its lines have code, and which of these ran."""
    lines = collections.defaultdict(dict)
    for first in range(0, len(files), BATCH):
        run = subprocess.run(["gcov", "--json-format", "--stdout", *files[first:first + BATCH]], text=True, check=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for document in run.stdout.splitlines():
            for file in json.loads(document)["files"]:
                name = os.path.relpath(file["file"])
                if name.split(os.sep)[0] in trees:
                    for line in file["lines"]:
                        number, ran = line["line_number"], line["count"] > 0
                        lines[name][number] = lines[name].get(number, False) or ran
    return lines


def main(build, *trees):
    lines = lines_of(counted_files(build), trees)
    if not any(any(ran.values()) for ran in lines.values()):
        print(f"{build} holds no counts")
        return 1
    total, ran = collections.Counter(), collections.Counter()
    for name, counted in lines.items():
        for group in {os.path.dirname(name), name.split(os.sep)[0]}:
            total[group] += len(counted)
            ran[group] += sum(counted.values())
    print("| folder | lines with code | reached |\n|---|---|---|")
    for group in sorted(total):
        name = f"**{group}**" if group in trees else group
        print(f"| {name} | {total[group]} | {100 * ran[group] / total[group]:.1f} % |")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
