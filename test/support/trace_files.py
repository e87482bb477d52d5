# SPDX-License-Identifier: Apache-2.0
#
# Trace files as their viewers read them: Perfetto's protobuf by its own schema, Chrome's JSON.
# Lives here: decoding, the rules that every file keeps. Must not live here: what the events should be (tests).
import collections
import dataclasses
import json

import wheels


@dataclasses.dataclass
class Slice:
    rank: str      # name of the top track
    track: str     # name of its own
    name: str
    begin: int     # ns
    end: int
    arguments: dict
    flows: list = dataclasses.field(default_factory=list)
    parent: object = None


@dataclasses.dataclass
class Trace:
    slices: list
    instants: list
    counters: dict  # (rank, track) -> [(ns, value)]

    def recorded(self):
        """The slices and instants that are records, by (rank, lane, ticket)."""
        found = {}
        for item in [*self.slices, *self.instants]:
            if "ticket" in item.arguments:
                key = (rank_of(item.rank), item.arguments["lane"], item.arguments["ticket"])
                assert key not in found, f"drawn twice: {key}"
                found[key] = item
        return found

    def parts(self, name):
        return [item for item in self.slices if item.parent and item.name == name]

    def flows(self):
        """What each flow leads through, as sets of (rank, lane, ticket)."""
        ends = collections.defaultdict(list)
        for key, item in self.recorded().items():
            for flow in item.flows:
                ends[flow].append(key)
        return ends


def rank_of(name):
    return int(name.split()[1])


# ---- Perfetto ------------------------------------------------------------------------------------------------

def _value(annotation, interned):
    kind = annotation.WhichOneof("value")
    value = getattr(annotation, kind)
    return interned["debug_annotation_string_values"][value].decode() if kind == "string_value_iid" else value


def _define(interned, data):
    for field, key in (("event_names", "name"), ("event_categories", "name"), ("debug_annotation_names", "name"),
                       ("debug_annotation_string_values", "str")):
        for entry in getattr(data, field):
            assert entry.iid not in interned[field], "defined twice"
            interned[field][entry.iid] = getattr(entry, key)


def _packets(path):
    wheels.use()
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Message
    message = Message()
    message.ParseFromString(path.read_bytes())
    return message.packet


def perfetto(path, whole=True):
    """Whole: every flow has both ends. Events in the order of time; where times are equal, in the file's, as Perfetto sorts them."""
    names, parents, units, events = {}, {}, {}, []
    interned = collections.defaultdict(dict)
    packets = _packets(path)
    assert packets[0].sequence_flags == 1 and all(p.sequence_flags == 2 for p in packets[1:])
    for packet in packets:
        assert packet.trusted_packet_sequence_id == packets[0].trusted_packet_sequence_id
        _define(interned, packet.interned_data)
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid and track.uuid not in names
            names[track.uuid], parents[track.uuid] = track.name, track.parent_uuid
            units[track.uuid] = track.counter.unit_name if track.HasField("counter") else None
        else:
            event = packet.track_event
            assert packet.HasField("timestamp") and event.track_uuid in names
            events.append((packet.timestamp, event, {
                interned["debug_annotation_names"][a.name_iid]: _value(a, interned) for a in event.debug_annotations}))
    trace = _stacked(names, parents, units, interned, sorted(events, key=lambda event: event[0]))
    assert not whole or all(len(ends) > 1 for ends in trace.flows().values())
    return trace


def _stacked(names, parents, units, interned, events):
    stacks, trace = collections.defaultdict(list), Trace([], [], collections.defaultdict(list))
    for at, event, arguments in events:
        uuid = event.track_uuid
        rank = names[parents[uuid]]
        stack = stacks[uuid]
        assert (event.type == event.TYPE_COUNTER) == (units[uuid] is not None)
        if event.type == event.TYPE_COUNTER:
            trace.counters[rank, names[uuid]].append((at, event.double_counter_value))
        elif event.type == event.TYPE_SLICE_END:
            ended = stack.pop()
            ended.end = at
            ended.flows += event.flow_ids
        else:
            item = Slice(rank, names[uuid], interned["event_names"][event.name_iid], at, at, arguments,
                         list(event.flow_ids), stack[-1] if stack else None)
            (trace.instants if event.type == event.TYPE_INSTANT else trace.slices).append(item)
            if event.type == event.TYPE_SLICE_BEGIN:
                stack.append(item)
    assert not any(stacks.values()), "a slice without an end"
    return trace


# ---- Chrome --------------------------------------------------------------------------------------------------

def _nanoseconds(text):
    micro, _, nano = text.partition(".")
    return int(micro) * 1000 + int((nano + "000")[:3])


def chrome(path, whole=True):
    """Slices of one track, the longer one outside where two begin together, as Chrome and Perfetto sort them."""
    document = json.loads(path.read_text(encoding="utf-8"), parse_float=str)
    events, names = document["traceEvents"], {}
    for event in events:
        if event["ph"] == "M" and event["name"] in ("process_name", "thread_name"):
            key = (event["pid"], event["tid"] if event["name"] == "thread_name" else None)
            assert key not in names
            names[key] = event["args"]["name"]
    trace, tracks = Trace([], [], collections.defaultdict(list)), collections.defaultdict(list)
    for event in events:
        rank = names.get((event["pid"], None))
        if event["ph"] in "Xi":
            begin = _nanoseconds(event["ts"])
            item = Slice(rank, names[event["pid"], event["tid"]], event["name"], begin,
                         begin + _nanoseconds(event.get("dur", "0.000")), event.get("args", {}))
            (trace.slices if event["ph"] == "X" else trace.instants).append(item)
            tracks[event["pid"], event["tid"]] += [item] if event["ph"] == "X" else []
        elif event["ph"] == "C":
            (value,) = event["args"].values()
            trace.counters[rank, event["name"]].append((_nanoseconds(event["ts"]), float(value)))
    for items in tracks.values():
        _nest(items)
    _bind(events, tracks, whole)
    return trace


def _nest(items):
    items.sort(key=lambda item: (item.begin, -item.end))
    stack = []
    for item in items:
        while stack and stack[-1].end <= item.begin:
            stack.pop()
        if stack:
            assert item.end <= stack[-1].end, f"{item} reaches out of {stack[-1]}"
            item.parent = stack[-1]
        stack.append(item)


def _bind(events, tracks, whole):
    """Hands each end of a flow to the outermost slice around its moment; the first one in time begins the flow."""
    phases = collections.defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            at = _nanoseconds(event["ts"])
            around = [item for item in tracks[event["pid"], event["tid"]]
                      if not item.parent and item.begin <= at < max(item.end, item.begin + 1)]
            assert len(around) == 1, event
            around[0].flows.append(event["id"])
            phases[event["id"]].append((at, event["ph"]))
    for ends in phases.values():
        phases_in_order = "".join(phase for _, phase in sorted(ends, key=lambda end: end[0]))
        assert not whole or (len(ends) > 1 and sorted(phases_in_order.replace("t", "")) == ["f", "s"]), ends
