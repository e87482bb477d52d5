# SPDX-License-Identifier: Apache-2.0
#
# Python frames as the shim reads them, against traceback's, in the interpreter that runs this. Prints one line and
# fails on the first mismatch.  usage: compare.py HARNESS.so [--bench]
import asyncio
import contextlib
import ctypes
import functools
import gc
import os
import sys
import threading
import traceback

SIZE = 1 << 18
CUT = 127  # frames of a stack, at most
HELD = ctypes.PyDLL(sys.argv[1])  # the GIL is kept around the call
FREE = ctypes.CDLL(sys.argv[1])  # the GIL is given up around the call
FREE.harness_key_ns.restype = ctypes.c_double
counts = {"stacks": 0, "frames": 0, "deepest": 0, "loops": 0, "equal": 0}
lock = threading.Lock()


def extract(frame):
    """traceback.extract_stack(frame) without reading source files."""
    return traceback.StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False)[::-1]


def qualified(frame):
    return getattr(frame.f_code, "co_qualname", frame.f_code.co_name)


def fail(what, got, want):
    sys.exit("%s: %s\n  got  %r\n  want %r" % (sys.version.split()[0], what, got[:8], want[:8]))


def compare(text, count, summary, frame, loops):
    if sys.is_finalizing():  # an interpreter that ends is left alone
        return count and os._exit(1)
    want = [(f.filename, f.lineno, f.name) for f in reversed(summary)]
    names = []
    while frame:
        names.append((qualified(frame), frame.f_code.co_firstlineno))
        frame = frame.f_back
    got = [tuple(line.split("\t")) for line in text.decode("utf-8").splitlines()]
    if count > CUT:
        if got.pop() != ("cut",) or len(got) != CUT or len(want) <= CUT:
            fail("cut wrongly", [count, len(got), len(want)], got)
        want, names = want[:CUT], names[:CUT]
    elif count != len(want):
        fail("%d frames" % count, got, want)
    if [(g[0], int(g[1]), g[2].split(".")[-1]) for g in got] != want:
        fail("frames", [g for g, w in zip(got, want) if (g[0], int(g[1]), g[2].split(".")[-1]) != w],
             [w for g, w in zip(got, want) if (g[0], int(g[1]), g[2].split(".")[-1]) != w])
    if [(g[2], int(g[4])) for g in got] != names:
        fail("qualified names", got, names)
    entries = sum(int(g[3]) for g in got)
    # An optimised interpreter's loop has a cold part elsewhere, under no name: it may seem to have fewer frames.
    if count <= CUT and loops > entries:
        fail("%d interpreter loops, %d native frames" % (entries, loops), got, want)
    with lock:
        counts["stacks"] += 1
        counts["frames"] += len(got)
        counts["deepest"] = max(counts["deepest"], len(names) if count <= CUT else CUT)
        counts["loops"] += count <= CUT and loops >= 0
        counts["equal"] += count <= CUT and loops == entries


def probe(*_):
    for library in (HELD, FREE):
        text, frame = ctypes.create_string_buffer(SIZE), sys._getframe()
        loops = library.harness_native_loops()
        # On one line, so that both see the same one.
        count, summary = library.harness_stack(text, SIZE), extract(frame)
        compare(text.value, count, summary, frame, loops)
    return 0


class Модель:
    class Слой:
        def вперёд(self, x):
            return [(lambda q:
                     probe(
                         q))(i) for i in range(x)]

        def 前向き(self):
            probe()

        def 𝔣(self):
            probe()

        def naïve(self):
            probe()

    @staticmethod
    def numbers(n):
        for i in range(n):
            yield probe(i)

    @property
    def value(self):
        return probe()

    def __add__(self, other):
        probe()
        return self

    def __getattr__(self, name):
        probe()
        return 0

    def __del__(self):
        probe()


def recursion(depth, then):
    if depth:
        return recursion(depth -
                         1,
                         then)
    return then()


def through_c(depth):
    """Python under C under Python: every level is an interpreter loop of its own."""
    if not depth:
        return probe()
    return sorted([0], key=lambda _: functools.reduce(lambda a, b: through_c(depth - 1) or 0, [0, 0]))


def delegating(depth):
    if depth:
        yield from delegating(depth - 1)
    else:
        yield probe()
        yield probe()


def sent():
    got = None
    while True:
        got = yield probe(got)


class Thrown(Exception):
    pass


def generators():
    list(delegating(5))
    g = sent()
    next(g)
    g.send(
        1
    )
    try:
        g.throw(Thrown())
    except Thrown:
        probe()
    sum(probe(i) for i in range(3))
    {probe(): probe() for _ in range(2)}
    list(map(probe, range(2)))


async def inner(n):
    probe()
    await asyncio.sleep(0)
    async with manager():
        probe()
    return [probe(x) async for x in async_numbers(n)]


async def async_numbers(n):
    for i in range(n):
        probe()
        yield i


class manager:
    async def __aenter__(self):
        probe()

    async def __aexit__(self, *_):
        probe()


async def outer():
    await asyncio.gather(inner(2), inner(1))


@contextlib.contextmanager
def scope():
    probe()
    try:
        yield probe()
    finally:
        probe()


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(
            *args,
            **kwargs)
    return wrapper


@decorated
@decorated
def under_decorators(a, *, b=probe()):
    probe()
    with scope():
        probe()


def exceptions():
    try:
        try:
            raise Thrown("a")
        except Thrown:
            probe()
            raise ValueError("b")
        finally:
            probe()
    except ValueError:
        probe()
    try:
        recursion(7, lambda: 1 // 0)
    except ZeroDivisionError as error:
        probe(error.__traceback__)
    probe()


def long_lines():
    return [
        probe(),

        probe(
            probe(),
            probe()),
        (probe(), probe()
         , probe())[
            probe()]]


def compiled(i):
    # The same names at other lines, in code objects that take each other's memory.
    scope = {"probe": probe}
    exec(compile("def step():\n" + "\n" * (i % 7) + "    probe()\nstep()", "<made %d>" % (i % 3), "exec"), scope)
    eval(compile("\n" * (i % 5) + "[probe() for _ in (1,)]", "<оценка>", "eval"), scope)
    exec("class K%d:\n  probe()\n  def m(self): probe()\nK%d().m()" % (i % 4, i % 4), scope)


def far(i):
    # Line tables with jumps in both directions and beyond one byte.
    scope = {"probe": probe}
    source = "def f(a=(\n" + "\n" * (i * 130) + "probe())):\n" + "\n" * (i * 200) + "  probe(\n" + "\n" * 300 + "  )\nf()"
    exec(compile(source, "<far>", "exec"), scope)


def collected():
    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            probe()
    Cycle()
    gc.collect()


def everything(rounds):
    m, layer = Модель(), Модель.Слой()
    for i in range(rounds):
        layer.вперёд(2)
        layer.前向き()
        layer.𝔣()
        layer.naïve()
        list(m.numbers(3))
        m.value
        m + m
        m.missing
        through_c(3)
        for depth in (0, 1, 14, 60):
            recursion(depth, probe)
        generators()
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            loop.run_until_complete(outer())
        under_decorators(1)
        exceptions()
        long_lines()
        compiled(i)
        far(i % 4)
        collected()


def deep():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    for depth in (CUT - 4, CUT - 3, CUT - 2, CUT - 1, CUT, CUT + 1, 1000):
        recursion(depth, probe)
    sys.setrecursionlimit(limit)


def threads(rounds):
    errors = []

    def work():
        try:
            everything(rounds)
        except BaseException as error:
            errors.append(error)
    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    if errors:
        sys.exit(str(errors[0]))


def traced():
    sys.settrace(lambda *_: None)
    everything(1)
    sys.settrace(None)


def cost():
    for depth in (2, 12, 37):
        print("  depth %d: %.1f ns" % (depth + 3, recursion(depth, FREE.harness_key_ns)))


def main():
    if not FREE.harness_begin():
        sys.exit("%s is refused" % sys.version.split()[0])
    if len(sys.argv) > 2:
        return cost()
    everything(12)
    deep()
    threads(4)
    traced()
    if FREE.harness_foreign_thread() != 0:
        sys.exit("frames in a thread that Python does not know")
    if counts["equal"] < counts["loops"] * 0.8:
        sys.exit("interpreter loops are as many as native frames in %(equal)d of %(loops)d stacks only" % counts)
    print("CPython %s: %d stacks, %d frames, deepest %d: no mismatch; loops = native frames in %d of %d" % (
        sys.version.split()[0], counts["stacks"], counts["frames"], counts["deepest"], counts["equal"],
        counts["loops"]))


main()
