# SPDX-License-Identifier: Apache-2.0
#
# Is the outcome of every test of mpi4py the same with commtap and without?
# Must not live here: how a job is run (side.py), what is printed (main.py).
#
# A test that differs is repeated on both sides: tests that fluctuate by themselves give, with commtap, nothing that
# they do not also give without. Which of them a job hangs in is chance where all of them spawn processes, say; there it
# is enough that jobs hang in the same module without commtap too, about as often. Nothing is excused beforehand.
import collections
import dataclasses

import jobs
import side

ALONE = 6  # rounds, at most, in which the class of a test that differs is run on its own, on both sides
STOPS = ("died", "hung")
WHOLE = 2  # rounds of everything, where that does not explain it: a test may depend on those before it


@dataclasses.dataclass
class Verdict:
    tests: int          # by rank and name; the end of the job is none, but can differ
    different: dict     # (rank, test) -> (outcomes seen without, outcomes seen with)
    fluctuating: dict   # the same, of those that the repeats cleared
    trouble: list       # directories of dumps that `commtap check` refuses, with its words; dumps or all tests missing
    seconds: tuple      # without, with


class History:
    """All outcomes seen of each test, without commtap and with."""

    def __init__(self):
        self.seen = ({}, {})
        self.stops = (collections.Counter(), collections.Counter())  # (module, "died" or "hung") -> how often

    def add(self, without, with_commtap, keys=None):
        """Takes in a run of both sides, of all tests or of `keys` only; a test that one side lacks was not reached."""
        for key in keys or without.outcomes.keys() | with_commtap.outcomes.keys():
            for seen, run in zip(self.seen, (without, with_commtap)):
                seen.setdefault(key, []).append(run.outcomes.get(key, ("not reached",)))
        for stops, run in zip(self.stops, (without, with_commtap)):
            stops.update({(module_of(test), outcome[-1])
                          for (rank, test), outcome in run.outcomes.items() if outcome and outcome[-1] in STOPS})

    def _stops_without_too(self, key, outcome):
        """Was a job stopped so in this module without commtap, and not much less often?"""
        kinds = STOPS if outcome[-1:] == ("not reached",) else outcome[-1:]
        counts = [sum(stops[module_of(key[1]), kind] for kind in kinds if kind in STOPS) for stops in self.stops]
        return 0 < counts[0] and counts[1] <= 2 * counts[0] + 1

    def differing(self):
        """The tests that gave something with commtap that they never gave without."""
        new = {key: set(seen) - set(self.seen[0][key]) for key, seen in self.seen[1].items()}
        return {key for key, outcomes in new.items()
                if not all(self._stops_without_too(key, outcome) for outcome in outcomes)}

    def unequal(self):
        return {key for key, seen in self.seen[1].items() if set(seen) != set(self.seen[0][key])}

    def of(self, keys):
        return {key: (self.seen[0][key], self.seen[1][key]) for key in sorted(keys)}


def module_of(test):
    return test.split(".")[0]


def class_of(test):
    """module.class of a test's name; the name of a subtest goes on after a blank."""
    return test.split(" ")[0].rpartition(".")[0]


def unsound(directories):
    """Of the dumps of these runs, what `commtap check` has to say; a job that never got to MPI_Init left none."""
    found = []
    for directory in directories:
        if jobs.dumps(directory):
            done = jobs.commtap("check", directory, codes=(0, 1, 2, 3))
            if done.returncode:
                found.append(f"{directory}: exit {done.returncode}: {(done.stderr or done.stdout)[-300:]}")
    return found


def compare(cell, ranks, directory, selection=(), run=side.run):
    """The verdict on one cell with `ranks` processes; what the runs wrote stays below `directory`."""
    history, dumps = History(), []

    def both(name, more, keys=None):
        runs = [run(cell, ranks, directory / name / way, way == "with", [*selection, *more])
                for way in ("without", "with")]
        history.add(*runs, keys)
        dumps.extend(runs[1].directories)
        return runs

    first = both("first", [])
    suspects = history.unequal()
    for number in range(ALONE):
        for one in sorted({class_of(test) for rank, test in history.differing() if rank >= 0}):
            both(f"alone-{number}/{one}", ["--only", one],
                 {key for key in history.differing() if key[0] >= 0 and class_of(key[1]) == one})
    for number in range(WHOLE):
        if history.differing():
            both(f"whole-{number}", [])
    different = history.differing()
    names = {key for side in first for key in side.outcomes if key[0] >= 0}
    trouble = unsound(dumps) if names else [f"no test ran: {first[0].outcomes}"]
    for place in first[1].directories[:1]:
        if len(jobs.dumps(place)) < ranks:
            trouble.append(f"{place}: {len(jobs.dumps(place))} dumps of {ranks} ranks")
    return Verdict(len(names), history.of(different), history.of(suspects - different), trouble,
                   tuple(side.seconds for side in first))
