#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What includes what in the trees of sources named: no cycle of modules, none of folders, and no folder too wide.

    cycles.py [--order "FOLDER..."] TREE...   exit 1 with everything that is wrong and the includes that make it, else
                          a line with the counts and one with the order of the folders, from the bottom up

With an order, a folder may include only what is named before it, and every folder must be named.
A module is a .c file and the .h file of the same name. The files at the top of a tree (its tables, its entry points) are
in no folder: each of them stands for itself. Headers named private.h or *_build.h are for their own folder only.
"""
import argparse
import collections
import fnmatch
import graphlib
import os
import re
import sys

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
PRIVATE = ("private.h", "*_build.h")
WIDEST_FOLDER = 20  # .c files; more than that and nobody finds anything


def files_of(trees):
    return sorted(os.path.join(folder, name) for tree in trees for folder, _, names in os.walk(tree) for name in names
                  if name.endswith((".c", ".h", ".def")))


def includes_of(files):
    """Pairs (file, file it includes). A name is looked up beside the file and from where the compiler runs."""
    known = set(files)
    for file in files:
        with open(file, encoding="utf-8") as text:
            names = INCLUDE.findall(text.read())
        for name in names:
            beside = os.path.join(os.path.dirname(file), name)
            yield from ((file, other) for other in {os.path.normpath(name), os.path.normpath(beside)} & known)


def module_of(file):
    return os.path.splitext(file)[0]


def graph_of(includes, node_of):
    graph = collections.defaultdict(set)
    for file, other in includes:
        graph[node_of(file)] |= {node_of(other)} - {node_of(file)}
        graph[node_of(other)] |= set()
    return graph


def cycles_of(graph):
    """The largest sets of nodes that all reach each other, where that is more than one node."""
    def reached(start):
        seen, ahead = set(), [start]
        while ahead:
            new = graph[ahead.pop()] - seen
            seen |= new
            ahead += new
        return seen
    reach = {node: reached(node) for node in graph}
    return sorted({tuple(sorted(other for other in reach[node] if node in reach[other]))
                   for node in graph if node in reach[node]})


def order_of(graph):
    """The folders from the bottom up; those that need nothing of each other stand side by side."""
    sorter = graphlib.TopologicalSorter(graph)
    sorter.prepare()
    while sorter.is_active():
        ready = sorter.get_ready()
        sorter.done(*ready)
        if any(map(os.path.isdir, ready)):
            yield " ".join(sorted(filter(os.path.isdir, ready)))


def problems_of(files, includes, graphs):
    for what, (node_of, graph) in graphs.items():
        for cycle in cycles_of(graph):
            yield f"cycle of {len(cycle)} {what}: {' '.join(cycle)}"
            yield from (f"    {file} includes {other}" for file, other in includes
                        if node_of(file) != node_of(other) and {node_of(file), node_of(other)} <= set(cycle))
    for file, other in includes:
        if any(fnmatch.fnmatch(os.path.basename(other), name) for name in PRIVATE) \
                and os.path.dirname(file) != os.path.dirname(other):
            yield f"{file} includes {other}, which is private to its folder"
    for folder, count in sorted(collections.Counter(os.path.dirname(f) for f in files if f.endswith(".c")).items()):
        if count > WIDEST_FOLDER:
            yield f"{folder} holds {count} .c files, more than {WIDEST_FOLDER}"


def out_of_order(includes, folder_of, order):
    """Includes from a folder of one that is not named before it."""
    places = {folder: place for place, folder in enumerate(order)}
    for file, other in includes:
        below, above = folder_of(other), folder_of(file)
        for folder in (above, below):
            if os.path.isdir(folder) and folder not in places:
                yield f"{folder} has no place in the order of the folders"
        if below in places and places.get(above, len(places)) < places[below]:
            yield f"{file} includes {other}: {above} stands below {below}"


def main(trees, order):
    trees = [os.path.normpath(tree) for tree in trees]
    files = files_of(trees)
    includes = sorted(includes_of(files))

    def folder_of(file):
        return module_of(file) if os.path.dirname(file) in trees else os.path.dirname(file)
    graphs = {what: (node_of, graph_of(includes, node_of))
              for what, node_of in (("modules", module_of), ("folders", folder_of))}
    problems = list(problems_of(files, includes, graphs))
    if order:
        problems += sorted(set(out_of_order(includes, folder_of, order)))
    if problems:
        print("\n".join(problems))
        return 1
    print(f"{' '.join(trees)}: {len(set(map(module_of, files)))} modules, {len(includes)} includes, no cycle")
    print("order: " + " < ".join(order_of(graphs["folders"][1])))
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--order", type=str.split)
    parser.add_argument("trees", nargs="+")
    given = parser.parse_args()
    sys.exit(main(given.trees, given.order))
