# SPDX-License-Identifier: Apache-2.0
#
# make check-mpi4py: mpi4py's own test suites with and without commtap, and a table of it.
# Must not live here: how two runs are compared (compare.py).
#
#   main.py [--mpi NAME,...] [--mpi4py VERSION,...] [--ranks N,...] [--every K]
import argparse
import collections
import pathlib
import shutil
import signal
import sys
import tempfile

import environments
import compare

COLUMNS = ("mpi4py", "MPI", "ranks", "tests", "identical", "different", "fluctuating", "without", "with")
LINE = "{:<7} {:<10} {:>5} {:>6} {:>9} {:>9} {:>11} {:>8} {:>8}"


def names(choices, kind=str):
    """The type of an option that takes some of `choices`, separated by commas."""

    def parse(text):
        chosen = [kind(word) for word in text.split(",")]
        if strangers := set(chosen) - set(choices):
            raise argparse.ArgumentTypeError(f"{strangers.pop()} is none of {', '.join(map(str, choices))}")
        return chosen

    return parse


def row(version, mpi, ranks, verdict):
    different, fluctuating = len(verdict.different), len(verdict.fluctuating)
    unequal = sum(rank >= 0 for rank, _ in [*verdict.different, *verdict.fluctuating])
    without, with_commtap = verdict.seconds
    return LINE.format(version, mpi, ranks, verdict.tests, verdict.tests - unequal, different, fluctuating,
                       f"{without:.0f} s", f"{with_commtap:.0f} s")


def details(verdict):
    for (rank, test), (without, with_commtap) in verdict.different.items():
        yield f"    different: rank {rank} {test}"
        for way, seen in (("without", without), ("with", with_commtap)):
            for outcome in sorted(set(seen)):
                yield f"        {way} {seen.count(outcome)} of {len(seen)}: {'; '.join(outcome)}"
    modules = collections.Counter(compare.module_of(test) for rank, test in verdict.fluctuating)
    for module, count in sorted(modules.items()):
        sides = zip(*(seen for (rank, test), seen in verdict.fluctuating.items() if compare.module_of(test) == module))
        without, with_commtap = ("; ".join(sorted({"; ".join(o) for seen in side for o in seen})) for side in sides)
        yield f"    fluctuate: {count} of {module}: without {{{without}}}, with {{{with_commtap}}}"
    yield from (f"    trouble: {words}" for words in verdict.trouble)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what it started is ended on the way out
    parser = argparse.ArgumentParser(description="mpi4py's own test suites with and without commtap")
    parser.add_argument("--mpi", type=names(environments.MPIS), default=list(environments.MPIS))
    parser.add_argument("--mpi4py", type=names(environments.MPI4PY), default=list(environments.MPI4PY))
    parser.add_argument("--ranks", type=names(range(1, 65), int), default=[1, 2, 3])
    parser.add_argument("--every", default="1", help="only every so many-th class of tests")
    options = parser.parse_args()
    print(LINE.format(*COLUMNS), flush=True)
    bad = 0
    for version, mpi in ((version, mpi) for version in options.mpi4py for mpi in options.mpi):
        try:
            cell = environments.prepare(mpi, version)
        except environments.Unavailable as reason:
            print(f"{version:<7} {mpi:<10} skipped: {reason}", flush=True)
            continue
        for ranks in options.ranks:
            place = pathlib.Path(tempfile.mkdtemp(prefix="commtap-mpi4py-"))
            verdict = compare.compare(cell, ranks, place, ["--every", options.every])
            print(row(version, mpi, ranks, verdict), *details(verdict), sep="\n", flush=True)
            if verdict.different or verdict.trouble:
                print(f"    all of it: {place}", flush=True)
                bad = 1
            else:
                shutil.rmtree(place)
    return bad


if __name__ == "__main__":
    sys.exit(main())
