# SPDX-License-Identifier: Apache-2.0
"""What the ranks of a job measured by their own clocks: who was slow, and what the planted fault cost.

Must not live here: anything that commtap says.
"""
import json
import pathlib
import statistics

BATCH = 8  # microbatches that go through the pipeline before anything comes back


class Clocks:
    """The files that the ranks of one run left: totals per rank, and (step, base, extra) of every computation (us)."""

    def __init__(self, folder):
        self.totals, self.computed = [], []
        for path in sorted(pathlib.Path(folder).iterdir(), key=lambda path: int(path.name)):
            head, *lines = path.read_text().splitlines()
            self.totals.append(json.loads(head))
            rows = [line.split() for line in lines]
            self.computed.append([(int(row[0]), float(row[2]), float(row[3])) for row in rows])
        first = self.totals[0]
        self.kind, self.fault, self.victims = first["kind"], first["fault"], sorted(first["victims"])
        self.complete = len(self.totals) == first["ranks"]

    def stretch(self):
        """Rank -> how many times as long as planned it computed; ranks without work are left out."""
        return {total["rank"]: total["work_seconds"] / total["planned_seconds"] for total in self.totals
                if total["planned_seconds"] > 0}

    def excess(self, of):
        """Of the ranks that no fault was planted in, how much more the worst one has than the others' median."""
        def others(rank):
            peers = [peer for peer in of if peer != rank and peer not in self.victims]
            return statistics.median(of[peer] for peer in peers or [peer for peer in of if peer != rank])

        healthy = [rank for rank in of if rank not in self.victims] if len(of) > 1 else []
        return max((of[rank] / others(rank) - 1 for rank in healthy), default=0.0)

    def disturbed(self):
        """How much slower than its peers the machine made a healthy rank: another process took its core."""
        return self.excess(self.stretch())

    def slowed(self, worth):
        """Ranks without a fault that the machine made slower than their peers, each at that share of the job's time or
        more: whoever names them says what their clocks say."""
        stretch = self.stretch()

        def gain(rank):
            peers = [stretch[peer] for peer in stretch if peer != rank and peer not in self.victims]
            times = statistics.median(peers) / stretch[rank] if peers else 1
            mended = list(self.computed)
            mended[rank] = [(step, base * times, extra * times) for step, base, extra in mended[rank]]
            now = duration(self.kind, self.fault, self.computed, 1)
            return 1 - duration(self.kind, self.fault, mended, 1) / now if now > 0 else 0.0

        return [rank for rank in stretch if rank not in self.victims and gain(rank) >= worth]

    def drawn(self):
        """How much more than its peers a healthy rank had to compute by the luck of the draw."""
        return self.excess({total["rank"]: total["planned_seconds"] for total in self.totals
                            if total["planned_seconds"] > 0})

    def cost(self, of=None):
        """Share of the time that the fault cost, or what it was of these ranks alone, by the ranks' clocks and the order
        in which they need each other."""
        of = self.victims if of is None else of
        mended = [[(step, base, 0.0) for step, base, _ in parts] if rank in of else parts
                  for rank, parts in enumerate(self.computed)]
        with_fault = duration(self.kind, self.fault, self.computed, 1)
        return 1 - duration(self.kind, self.fault, mended, 1) / with_fault if with_fault > 0 else 0.0

    @property
    def wall_seconds(self):
        return max(total["wall_seconds"] for total in self.totals)

    @property
    def loop_seconds(self):
        """What all computation takes in the order in which ranks need each other: no start, no communication."""
        return duration(self.kind, self.fault, self.computed, 1) * 1e-6

    def gains(self):
        """How many times as fast that is without the fault; and, where others do the same work, with the victims taking
        what the median of these takes, a late start as well. In between lies what mending them may give: how long a rank
        would have taken is known no better."""
        known = [1 / (1 - self.cost())]
        peers = [rank for rank in range(len(self.computed)) if rank not in self.victims]
        if self.kind in ("on-demand", "rounds") and 0 in self.victims:
            return known
        if self.kind in ("on-demand", "rounds"):
            peers = [rank for rank in peers if rank != 0]
        if not peers or any(len(self.computed[rank]) != len(self.computed[victim])
                            for rank in peers for victim in self.victims):
            return known
        usual = [(step, statistics.median(self.computed[rank][i][1] for rank in peers), 0.0)
                 for i, (step, _, _) in enumerate(self.computed[self.victims[0]])]
        mended = [usual if rank in self.victims else parts for rank, parts in enumerate(self.computed)]
        late = max(self.totals[victim].get("late_seconds", 0.0) for victim in self.victims)
        left = duration(self.kind, self.fault, mended, 1) * 1e-6 - late
        return known + [self.loop_seconds / left] if left > 0 else known

    def guilty(self, worth):
        """Victims of the plan that cost the job something, each mended alone; all where none does, but all together.
        Who is slow, but always behind somebody slower, costs nothing: nobody has to name it."""
        return [rank for rank in self.victims if self.cost([rank]) >= worth] or self.victims


def duration(kind, fault, computed, share):
    """What the job takes if communication takes nothing, with that share of the fault (us)."""
    work = [[base + share * extra for _, base, extra in rank] for rank in computed]
    if kind == "on-demand":
        return shared_list(work)
    if kind == "rounds":
        return sum(master + max(parts) for master, *parts in zip(*work))
    if kind == "pipeline":
        return pipeline(computed, share, fault == "receiver")
    times = [0.0] * len(work)
    for step, parts in enumerate(zip(*work)):
        times = [time + part for time, part in zip(times, parts)]
        for groups in meetings(kind, step, len(work)):
            times = [max(times[member] for member in group) for group in groups]
    return max(times)


def meetings(kind, step, ranks):
    """Per communication after a computation: for each rank, on whom it waits."""
    everybody = [range(ranks)] * ranks
    if kind == "halo":
        return [[range(max(0, rank - 1), min(ranks, rank + 2)) for rank in range(ranks)]]
    if kind == "pairs":
        ring = ranks % 2 == 0
        second = [rank + 1 if rank % 2 else rank - 1 for rank in range(ranks)]
        second = [peer % ranks if ring else peer for peer in second]
        return [[(rank, peer) if 0 <= peer < ranks else (rank,) for rank, peer in enumerate(peers)]
                for peers in ([rank ^ 1 for rank in range(ranks)], second)]
    if kind == "mix" and step % 2 == 0:
        return [[[peer for peer in (rank, rank ^ 1) if peer < ranks] for rank in range(ranks)]]
    return [everybody]


def pipeline(computed, share, synchronous):
    """Each stage begins when the one before has sent; a synchronous sender goes on when the next one receives."""
    ranks, times = len(computed), [0.0] * len(computed)
    for step in range(len(computed[0])):
        sent = 0.0
        for rank in range(ranks):
            start = max(times[rank], sent)
            if synchronous and rank > 0:
                # the sender was held until here, and what it computes beside comes after
                times[rank - 1] = max(times[rank - 1], start + share * computed[rank - 1][step][2])
            _, base, extra = computed[rank][step]
            sent = start + base + (0 if synchronous else share * extra)
            times[rank] = sent + (share * extra if synchronous else 0)
        if step % BATCH == BATCH - 1:
            for rank in reversed(range(ranks - 1)):
                times[rank] = max(times[rank], times[rank + 1])
    return max(times)


def shared_list(work):
    """Tasks go to whoever is free: the rates of the workers add up, and the master's own work stops them all."""
    master, workers = work[0], [rank for rank in work[1:] if sum(rank) > 0]
    tasks = sum(len(worker) for worker in workers)
    rate = sum(len(worker) / sum(worker) for worker in workers)
    return sum(master) + (tasks / rate if rate else 0)
