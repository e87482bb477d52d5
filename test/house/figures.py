#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How large, how branched and how repetitive the functions in the trees of sources named are, by lizard.

    figures.py TREE...     exit 1 with a line for everything over the limits, else one line with what was measured

lizard comes from $LIZARD, a folder (make lizard fetches the version in pins.txt, for versions count differently).
"""
import glob
import os
import sys

sys.path.insert(0, os.environ.get("LIZARD", ""))
import lizard

LONGEST = 40        # lines of a function that are neither blank nor comment
MOST_COMPLEX = 20   # cyclomatic complexity; every case, && and || counts one
REPEATED_LINES = 6


def measure(trees):
    """The files with what lizard found in each, and all stretches of code that stand in several places."""
    names = sorted(name for tree in trees for name in glob.glob(f"{tree}/**/*.[ch]", recursive=True))
    extensions = lizard.get_extensions(["duplicate"])
    files = list(lizard.analyze_files(names, exts=extensions))
    return files, list(extensions[-1].get_duplicates())


def problems_of_functions(files):
    for file in files:
        for function in file.function_list:
            place = f"{file.filename}:{function.start_line} {function.name}"
            if function.nloc > LONGEST:
                yield f"{place} has {function.nloc} lines, more than {LONGEST}"
            if function.cyclomatic_complexity > MOST_COMPLEX:
                yield f"{place} has complexity {function.cyclomatic_complexity}, more than {MOST_COMPLEX}"


def repeats(duplicates, files):
    """Only what touches a function: elsewhere are tables, enums and structs, which may well resemble each other."""
    functions = {file.filename: file.function_list for file in files}

    def counts(place):
        return place.end_line - place.start_line + 1 >= REPEATED_LINES and any(
            function.start_line <= place.end_line and place.start_line <= function.end_line
            for function in functions[place.file_name])
    for places in duplicates:
        long = [place for place in places if counts(place)]
        if len(long) > 1:
            yield "repeated: " + ", ".join(f"{p.file_name}:{p.start_line}-{p.end_line}" for p in long)


def main(trees):
    files, duplicates = measure(trees)
    problems = list(dict.fromkeys([*problems_of_functions(files), *repeats(duplicates, files)]))
    if problems:
        print("\n".join(problems))
        return 1
    functions = [function for file in files for function in file.function_list]
    if not functions:
        print(f"{' '.join(trees)}: no function found")
        return 1
    print(f"{' '.join(trees)}: {len(functions)} functions, {sum(f.nloc for f in functions) / len(functions):.1f} lines "
          f"on average, {max(f.nloc for f in functions)} at most, complexity "
          f"{max(f.cyclomatic_complexity for f in functions)} at most")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
