# SPDX-License-Identifier: Apache-2.0
#
# Random jobs of PyTorch with one fault or none, simulated, and the flight recorders that PyTorch would leave of them.
# Lives here: hosts that call, streams that begin and end, faults with what is true of them, entries as PyTorch writes
# them. Must not live here: what reads the recorders; it knows nothing of this project's rules.
#
# What PyTorch does (ProcessGroupNCCL, FlightRecorder): collectives and batches of messages run on the group's stream,
# single messages on a stream of their pair (eagerly made groups: on the group's). An operation that was waited for holds
# up whatever the rank calls after it. Numbers count collectives, or messages, of one rank in one group; all of a
# coalesced launch share one. Entries of a coalesced launch's members stay "scheduled" for ever, the closing entry has
# the state of all. Without TORCH_NCCL_ENABLE_TIMING no start is ever seen.
import json
import math
import os
import pickle
import random

EPOCH = 1_700_000_000_000_000_000
NEVER = math.inf
TYPES = {"Float": 4, "BFloat16": 2, "Half": 2, "Long": 8}
COLLECTIVES = ("all_reduce", "_all_gather_base", "_reduce_scatter_base", "broadcast", "all_to_all")
OF_GROUPS = ("all_reduce", "_all_gather_base", "_reduce_scatter_base")  # that a coalescing manager takes


class Launch:
    """One call of one rank: parts is [(name, peer or None, elements)], more than one or `closed`: coalesced."""

    def __init__(self, group, parts, kind, sync=True, dtype="Float", closing=None):
        self.group, self.parts, self.kind, self.sync, self.dtype, self.closing = group, parts, kind, sync, dtype, closing
        self.created = self.start = self.end = NEVER
        self.length = 1.0

    def messages(self):
        return [part for part in self.parts if part[0] in ("send", "recv")]

    def same(self, **changes):
        copy = Launch(self.group, list(self.parts), self.kind, self.sync, self.dtype, self.closing)
        copy.__dict__.update({"length": self.length, **changes})
        return copy


class Work(float):
    """Seconds, in ms, that a host is elsewhere."""


class Look:
    """The host waits for all that it has called, as .item() does."""


class Job:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.ranks = self.random.choice((2, 3, 4, 4, 6, 8))
        self.timing = self.random.random() < 0.4
        self.eager = self.random.random() < 0.3
        self.only_active = self.random.random() < 0.2
        self.groups = {"0": ("default_pg", list(range(self.ranks)))}
        if self.ranks % 2 == 0 and self.ranks > 2:
            half = self.ranks // 2
            for number, members in enumerate((list(range(half)), list(range(half, self.ranks)))):
                self.groups[str(1 + number)] = ("mesh_tp", members)
            for number in range(half):
                self.groups[str(3 + number)] = ("mesh_pp", [number, number + half])
        self.programs = [[] for _ in range(self.ranks)]
        self.acts = []  # which launches belong together: {rank: launch}

    # ---- programs ----

    def members(self, group):
        return self.groups[group][1]

    def act(self, launches):
        for rank, launch in launches.items():
            self.programs[rank].append(launch)
        self.acts.append(launches)

    def collective(self, group=None, name=None, sync=True):
        group = group or self.random.choice(list(self.groups))
        name = name or self.random.choice(COLLECTIVES)
        elements, dtype, length = 16 << self.random.randrange(12), self.random.choice(list(TYPES)), self.random.uniform(.1, 3)
        self.act({rank: Launch(group, [(name, None, elements)], "collective", sync, dtype).same(length=length)
                  for rank in self.members(group)})

    def coalesced(self, group=None):
        group = group or self.random.choice(list(self.groups))
        name, count = self.random.choice(OF_GROUPS), self.random.randrange(1 + self.only_active, 4)
        closing = "coalesced"
        if self.random.random() < 0.3:  # gathers of different sizes are broadcasts
            name, closing = "_broadcast_oop", "ALLGATHER_coalesced"
        parts = [(name, None, 16 << self.random.randrange(8)) for _ in range(count)]
        self.act({rank: Launch(group, list(parts), "collective", closing=closing) for rank in self.members(group)})

    def message(self, group=None, pair=None, sync=None):
        group = group or self.random.choice(list(self.groups))
        a, b = pair or self.random.sample(range(len(self.members(group))), 2)
        elements, sync = 1 << self.random.randrange(8, 22), self.random.random() < 0.6 if sync is None else sync
        self.act({self.members(group)[a]: Launch(group, [("send", b, elements)], "message", sync),
                  self.members(group)[b]: Launch(group, [("recv", a, elements)], "message", sync)})

    def batch(self, group=None):
        """A ring shift, or some pairs both ways."""
        group = group or self.random.choice(list(self.groups))
        size, elements = len(self.members(group)), 1 << self.random.randrange(8, 20)
        if self.random.random() < 0.5:
            parts = {r: [("send", (r + 1) % size, elements), ("recv", (r - 1) % size, elements)] for r in range(size)}
        else:
            a, b = self.random.sample(range(size), 2)
            parts = {a: [("send", b, elements), ("recv", b, 2 * elements)],
                     b: [("recv", a, elements), ("send", a, 2 * elements)]}
        for own in parts.values():
            self.random.shuffle(own)
        self.act({self.members(group)[r]: Launch(group, own, "batch", closing="coalesced") for r, own in parts.items()})

    def some_acts(self, count):
        for _ in range(count):
            kind = self.random.random()
            if kind < 0.5:
                self.collective(sync=self.random.random() < 0.7)
            elif kind < 0.65:
                self.coalesced()
            elif kind < 0.85:
                self.message()
            else:
                self.batch()
            if self.random.random() < 0.3:
                self.programs[self.random.randrange(self.ranks)].append(Work(self.random.uniform(1, 20)))
            if self.random.random() < 0.15:
                for program in self.programs:
                    program.append(Look())

    # ---- running ----

    def stream(self, rank, launch):
        if launch.kind != "message" or self.eager:
            return launch.group
        own = self.members(launch.group).index(rank)
        return (launch.group, *sorted((own, launch.parts[0][1])))

    def host(self, rank):
        """How far its calls come, by the ends that are known."""
        now, ends, held, streams = self.begin[rank], [], 0.0, {}
        for item in self.programs[rank]:
            if isinstance(item, Work):
                now += item
            elif isinstance(item, Look):
                now = max([now, *ends])
            else:
                item.created = now
                item.start = max(now, held, streams.get(self.stream(rank, item), 0.0), item.__dict__.get("late", 0.0))
                streams[self.stream(rank, item)] = item.end
                held = max(held, item.end if item.sync else 0.0)
                ends.append(item.end)
                now += 0.05
            if now == NEVER:
                return

    def called(self, rank):
        return [item for item in self.programs[rank] if isinstance(item, Launch) and item.created < NEVER]

    def pairs(self):
        """Per launch, the launches that it needs; None: it can never end."""
        numbered, halves, needs = {}, {}, {}
        for rank in range(self.ranks):
            count = {}
            for launch in self.called(rank):
                if launch.kind == "collective":
                    count[launch.group] = count.get(launch.group, 0) + 1
                    numbered.setdefault((launch.group, count[launch.group]), {})[rank] = launch
                for name, peer, elements in launch.messages():
                    own = self.members(launch.group).index(rank)
                    channel = (launch.group, launch.kind, *((own, peer) if name == "send" else (peer, own)))
                    halves.setdefault((channel, name), []).append((launch, elements))
        for (group, _), launches in numbered.items():
            alike = len({(tuple(one.parts), one.dtype) for one in launches.values()}) == 1
            whole = len(launches) == len(self.members(group))
            for launch in launches.values():
                needs[launch] = list(launches.values()) if alike and whole and not self.cut(launch) else None
        for (channel, name), own in halves.items():
            others = halves.get((channel, "recv" if name == "send" else "send"), [])
            for place, (launch, elements) in enumerate(own):
                fits = place < len(others) and others[place][1] == elements and not self.cut(launch)
                if not fits:
                    needs[launch] = None
                elif needs.get(launch, []) is not None:
                    needs[launch] = needs.get(launch, [launch]) + [others[place][0]]
        return needs

    @staticmethod
    def cut(launch):
        return launch.__dict__.get("cut", False)

    def run(self):
        self.begin = [self.random.uniform(0, 2) for _ in range(self.ranks)]
        changed = True
        while changed:
            changed = False
            for rank in range(self.ranks):
                self.host(rank)
            for launch, needed in self.pairs().items():
                end = NEVER if needed is None else max(one.start for one in needed) + launch.length
                changed |= end != launch.end
                launch.end = end

    # ---- recorders ----

    def moments(self):
        return [at for rank in range(self.ranks) for launch in self.called(rank)
                for at in (launch.created, launch.start, launch.end) if at < NEVER]

    def document(self, rank, at, version="2.10", room=10000, only_active=False, plain=True):
        entries, collectives, messages, operations, status = [], {}, {}, {}, {}
        open_from = math.inf  # what hangs is in the ring still
        for launch in self.called(rank):
            if launch.created > at:
                break
            open_from = min(open_from, len(entries)) if launch.end > at else open_from
            is_message = launch.kind != "collective"
            numbers = messages if is_message else collectives
            numbers[launch.group] = numbers.get(launch.group, 0) + 1
            number = numbers[launch.group]
            own = status.setdefault(launch.group, [-1, -1, -1])
            for place, reached in enumerate((True, self.timing and launch.start <= at, launch.end <= at)):
                own[place] = number if reached else own[place]
            parts = [(name, peer, elements, launch.closing is None) for name, peer, elements in launch.parts]
            if launch.closing:
                parts.append((launch.closing, None, None, True))
            for name, peer, elements, timed in parts:
                if name != launch.closing:
                    operations[launch.group] = operations.get(launch.group, 0) + 1
                entries.append(self.entry(rank, launch, name, peer, elements, at if timed else -1, plain, len(entries), (
                    collectives.get(launch.group, 0), messages.get(launch.group, 0), operations[launch.group])))
        entries = entries[max(0, min(len(entries) - room, open_from)):]
        if only_active:
            entries = [entry for entry in entries if entry["state"] != "completed"]
        groups = {name: {"name": name, "desc": desc, "ranks": "[" + ", ".join(map(str, members)) + "]"}
                  for name, (desc, members) in self.groups.items() if rank in members}
        document = {"version": version, "pg_config": groups, "nccl_version": "2.27.5",
                    "pg_status": {str(list(self.groups).index(group)): {
                        f"last_{word}_collective": str(number) if plain else number
                        for word, number in zip(("enqueued", "started", "completed"), numbers)}
                        for group, numbers in status.items()}, "entries": entries}
        if plain and not entries:
            del document["entries"]
        return document

    def entry(self, rank, launch, name, peer, elements, at, plain, record, numbers):
        own, size = self.members(launch.group).index(rank), len(self.members(launch.group))
        title = {"send": f"send {own}->{peer}", "recv": f"recv {own}<-{peer}"}.get(name, name)
        whole, types = [[elements]], [launch.dtype]
        if elements is None:
            sizes, types = ([], []), []
        elif name == "_all_gather_base":
            sizes = whole, [[elements * size]]
        elif name == "_reduce_scatter_base":
            sizes = [[elements * size]], whole
        else:
            sizes = whole, whole
        started, ended = self.timing and launch.start <= at, launch.end <= at
        nothing = 0 if plain else None
        entry = {"record_id": record, "pg_id": list(self.groups).index(launch.group),
                 "process_group": [launch.group, self.groups[launch.group][0]], "collective_seq_id": numbers[0],
                 "p2p_seq_id": numbers[1], "op_id": numbers[2], "profiling_name": f"nccl:{title}",
                 "time_created_ns": EPOCH + int(launch.created * 1e6), "input_sizes": sizes[0], "input_dtypes": types,
                 "output_sizes": sizes[1], "output_dtypes": types,
                 "state": "completed" if ended else "started" if started else "scheduled",
                 "time_discovered_started_ns": EPOCH + int((launch.start + .1) * 1e6) if started else nothing,
                 "time_discovered_completed_ns": EPOCH + int((launch.end + .1) * 1e6) if ended else nothing,
                 "retired": ended, "timeout_ms": 600000, "is_p2p": launch.kind != "collective",
                 "thread_id": "140001", "thread_name": "python"}
        if ended and self.timing:
            entry["duration_ms"] = launch.end - launch.start
        if not plain:
            entry["process_group"] = tuple(entry["process_group"])
        return entry


# ---- faults --------------------------------------------------------------------------------------
# Each takes a job that has run some acts, spoils one act and says what is true: (verdicts, who must be named, who may).

def stop(job, rank):
    job.programs[rank].append(Work(NEVER))


def rank_is_away(job):
    """One rank sits in its own code."""
    job.collective("0", "all_reduce")
    rank = job.random.randrange(job.ranks)
    job.programs[rank].insert(len(job.programs[rank]) - 1, Work(NEVER))
    return {"hang"}, {rank}, {rank}


def away_from_a_coalesced_one(job):
    job.coalesced("0")
    rank = job.random.randrange(job.ranks)
    job.programs[rank].insert(len(job.programs[rank]) - 1, Work(NEVER))
    return {"hang"}, {rank}, {rank}


def spoil(job, **changes):
    rank = job.random.randrange(job.ranks)
    job.programs[rank][-1] = job.programs[rank][-1].same(**changes)
    both = {rank} if job.ranks > 2 else {0, 1}
    return {"desync"}, {rank} if job.ranks > 2 else set(), both


def another_operation(job):
    job.collective("0", "all_reduce")
    return spoil(job, parts=[("_all_gather_base", None, 64)])


def another_size(job):
    job.collective("0", "all_reduce")
    return spoil(job, parts=[("all_reduce", None, 24)])


def another_type(job):
    job.collective("0", "all_reduce")
    return spoil(job, dtype="Int")


def another_part(job):
    job.coalesced("0")
    name = job.acts[-1][0].parts[0][0]
    return spoil(job, parts=[(name, None, 24)] + job.acts[-1][0].parts[1:])


def skipped(job):
    """One rank leaves out a collective, and the next ones differ."""
    job.collective("0", "all_reduce")
    rank = job.random.randrange(job.ranks)
    job.programs[rank].pop()
    job.collective("0", "_all_gather_base")
    return {"desync"}, {rank} if job.ranks > 2 else set(), {rank} if job.ranks > 2 else {0, 1}


def transport(job):
    job.collective("0", "all_reduce")
    for launch in job.acts[-1].values():
        launch.cut = True
    return {"hang"}, set(), set()


def message_is_cut(job):
    job.message("0", sync=True)
    for launch in job.acts[-1].values():
        launch.cut = True
    return {"hang"}, set(), set(job.acts[-1])


def gpu_is_busy(job):
    """A kernel of its own holds one rank's stream."""
    job.collective("0", "all_reduce")
    rank = job.random.randrange(job.ranks)
    job.programs[rank][-1].late = NEVER
    return {"hang"}, {rank} if job.timing else set(), {rank}


def without_dump(job):
    verdict = rank_is_away(job)
    job.lost = verdict[1]
    return {"dead_rank"}, verdict[1], verdict[2]


def partner_is_away(job):
    job.message("0", sync=True)
    rank = job.random.choice(list(job.acts[-1]))
    job.programs[rank].insert(len(job.programs[rank]) - 1, Work(NEVER))
    return {"hang"}, {rank}, {rank}


def partner_is_away_asynchronously(job):
    job.message("0", sync=False)
    rank = job.random.choice(list(job.acts[-1]))
    job.programs[rank].insert(len(job.programs[rank]) - 1, Work(NEVER))
    job.collective("0", "all_reduce")
    return {"hang"}, {rank}, {rank}


def one_half(job, name):
    """A send or a receive without the other half, then a collective of all."""
    job.message("0", sync=True)
    rank = next(rank for rank, launch in job.acts[-1].items() if launch.parts[0][0] != name)
    job.programs[rank].pop()
    job.collective("0", "all_reduce")
    return {"hang", "deadlock", "desync"}, {rank}, set(job.acts[-2])


def nobody_receives(job):
    return one_half(job, "send")


def nobody_sends(job):
    return one_half(job, "recv")


def wrong_peer(job):
    if job.ranks < 3:
        return nobody_sends(job)
    a, b, c = job.random.sample(range(job.ranks), 3)
    job.message("0", (a, b), sync=True)
    launch = job.programs[a][-1]
    job.programs[a][-1] = launch.same(parts=[("send", c, launch.parts[0][2])])
    job.collective("0", "all_reduce")
    return {"hang", "deadlock", "desync"}, {a}, {a, b, c}


def another_length(job):
    job.message("0", sync=True)
    a, b = job.acts[-1]
    launch = job.programs[b][-1]
    job.programs[b][-1] = launch.same(parts=[("recv", launch.parts[0][1], launch.parts[0][2] * 2)])
    return {"desync"}, set(), {a, b}


def ring(job, first):
    for rank in range(job.ranks):
        right, left = (rank + 1) % job.ranks, (rank - 1) % job.ranks
        pair = [Launch("0", [("send", right, 1 << 20)], "message"), Launch("0", [("recv", left, 1 << 20)], "message")]
        job.programs[rank] += pair if first == "send" else pair[::-1]
    return {"deadlock"}, set(range(job.ranks)), set(range(job.ranks))


def ring_of_receives_first(job):
    return ring(job, "recv")


def ring_of_sends_first(job):
    return ring(job, "send")


def chain(job):
    """Each rank receives from the one before it and sends on; the first one is away."""
    for rank in range(job.ranks - 1):
        job.message("0", (rank, rank + 1), sync=True)
    place = next(i for i, item in enumerate(job.programs[0]) if item is job.acts[1 - job.ranks][0])
    job.programs[0].insert(place, Work(NEVER))
    return {"hang"}, {0}, {0}


def batch_is_missing(job):
    job.batch("0")
    rank = job.random.choice(list(job.acts[-1]))
    job.programs[rank].insert(len(job.programs[rank]) - 1, Work(NEVER))
    return {"hang"}, {rank}, {rank}


def part_of_a_batch_is_missing(job):
    job.batch("0")
    rank = job.random.choice(list(job.acts[-1]))
    launch = job.programs[rank][-1]
    gone = job.random.choice(launch.parts)
    job.programs[rank][-1] = launch.same(parts=[part for part in launch.parts if part is not gone])
    job.collective("0", "all_reduce")
    return {"hang", "deadlock", "desync"}, {rank}, {rank, gone[1]}


def part_of_a_batch_is_longer(job):
    job.batch("0")
    rank = job.random.choice(list(job.acts[-1]))
    launch = job.programs[rank][-1]
    name, peer, elements = launch.parts[0]
    job.programs[rank][-1] = launch.same(parts=[(name, peer, elements * 3)] + launch.parts[1:])
    return {"desync"}, set(), {rank, peer}


def groups_cross(job):
    """Two groups of the same two ranks, called in different orders."""
    job.groups["8"] = ("first", [0, 1])
    job.groups["9"] = ("second", [0, 1])
    job.collective("8", "all_reduce")
    job.collective("9", "all_reduce")
    job.programs[1][-2:] = job.programs[1][-2:][::-1]
    return {"deadlock"}, {0, 1}, {0, 1}


FAULTS = [rank_is_away, away_from_a_coalesced_one, another_operation, another_size, another_type, another_part, skipped,
          transport, message_is_cut, gpu_is_busy, without_dump, partner_is_away, partner_is_away_asynchronously,
          nobody_receives, nobody_sends, wrong_peer, another_length, ring_of_receives_first, ring_of_sends_first, chain,
          batch_is_missing, part_of_a_batch_is_missing, part_of_a_batch_is_longer, groups_cross]


def healthy(job):
    return {"ok", "unknown"}, set(), set()


def make(seed, folder, fault=None, form=None):
    """Writes the recorders of a random job into the folder. Returns what was done to it, and what is true."""
    job = Job(seed)
    job.lost = set()
    fault = fault or (healthy if seed % 5 == 0 else job.random.choice(FAULTS))
    job.some_acts(job.random.randrange(2, 25))
    truth = fault(job)
    if job.random.random() < 0.4:
        job.some_acts(3)
    job.run()
    last = max(job.moments())
    if fault is healthy:
        at = job.random.uniform(0.2, 1.1) * last
        looks = [at + job.random.choice((0, 0, 0, 0.5, 5)) * job.random.random() for _ in range(job.ranks)]
    else:
        looks = [last + 600000 + job.random.random() * 100 for _ in range(job.ranks)]
    form = form or job.random.choice(("json", "pickle2", "pickle4"))
    room = job.random.choice((10000, 10000, 8, 20)) if fault is not healthy else 10000
    for rank in set(range(job.ranks)) - job.lost:
        document = job.document(rank, looks[rank], room=room, only_active=job.only_active, plain=form == "json")
        path = os.path.join(folder, f"nccl_trace_rank_{rank}")
        with open(path, "wb") as file:
            file.write(json.dumps(document).encode() if form == "json" else pickle.dumps(document, int(form[-1])))
        os.utime(path, ns=(EPOCH + int(looks[rank] * 1e6),) * 2)
    about = dict(fault=fault.__name__, ranks=job.ranks, timing=job.timing, eager=job.eager, form=form, active=job.only_active,
                 room=room)
    return about, truth


def agrees(result, truth):
    """Whether a diagnosis (its JSON) says what is true."""
    verdicts, must, may = truth
    named = {culprit["rank"] for culprit in result["culprits"]}
    return result["verdict"] in verdicts and must <= named <= may
