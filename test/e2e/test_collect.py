# SPDX-License-Identifier: Apache-2.0
#
# commtap-collect: planted stubs touch nothing, sound ones bring their dump home whatever else happens.
# Must not live here: real jobs (test_staging.py), files that are none of the collector's (test_odd_files.py).
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

import jobs
from staged import (BOOT_ID, COLLECT, GONE, SECONDS, collect, dump_bytes, far, here, run_id, snapshot,  # noqa: F401
                    stub_text, without_mark)


@pytest.fixture(params=["here", "far"])
def host(request):
    return request.getfixturevalue(request.param)


def ssh_of(host):
    return getattr(host, "ssh", None)


# ---- planted ----------------------------------------------------------------------------------------------------------------


class Trap:
    """A directory with one sound stub, one to be spoilt, and files of the user that nobody may touch."""

    def __init__(self, host, tmp_path, run_id):
        self.host, self.run_id = host, run_id
        self.out, self.home = tmp_path / "out", tmp_path / "home"
        self.out.mkdir()
        self.home.mkdir()
        self.sound = host.stage(self.out, run_id, 1)
        self.staged, self.stub, self.dump = host.stage(self.out, run_id, 2, seed=2)
        self.name = self.stub.name[:-len(".stub")]
        self.decoys = [self.home]
        for name in ("precious.txt", "id_rsa", self.staged.name):
            (self.home / name).write_bytes(dump_bytes(run_id, host.boot_id, seed=9) if name.endswith(".ct") else b"mine\n")
        other, _, _ = host.stage(self.home, "other-" + run_id, 3, seed=3)
        self.decoys.append(other)

    def says(self, **other):
        """The stub says something else than the library would."""
        self.stub.write_text(self.host.stub(self.name, **other), encoding="utf-8")

    def stub_is(self, data):
        self.stub.write_bytes(data)

    def renamed(self, name):
        self.stub = self.stub.rename(self.out / name)


def make_special(path, kind):
    """Something at `path` that is no regular file."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "socket":
        where = os.getcwd()
        os.chdir(path.parent)  # a socket's path is short
        try:
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(path.name)
        finally:
            os.chdir(where)
    elif kind == "device":
        if os.geteuid() != 0:
            pytest.skip("devices are made by root")
        os.mknod(path, 0o020600, os.makedev(1, 5))  # /dev/zero: never ends
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "link to a fifo":
        os.mkfifo(path.parent / f"{path.name}.pipe")
        path.symlink_to(f"{path.name}.pipe")


def becomes(path, kind):
    path.unlink()
    make_special(path, kind)


def give_away(path):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(path, 12345, 12345)


def link_to(path, target):
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def text(trap):
    return trap.host.stub(trap.name).encode()


NAME = "a name that the library does not give"
PLANTED = {
    "empty": (lambda t: t.stub_is(b""), "is empty"),
    "blank": (lambda t: t.stub_is(b"\n\n"), "does not say"),
    "binary": (lambda t: t.stub_is(bytes(range(256))), "no text"),
    "a NUL after the path": (lambda t: t.stub_is(text(t).replace(b".ct\n", b".ct\0\n")), "no text"),
    "cut in a line": (lambda t: t.stub_is(text(t)[:-5]), "middle of a line"),
    "cut in the path": (lambda t: t.stub_is(text(t).split(b"pid=")[0][:-9]), "middle of a line"),
    "cut after a line": (lambda t: t.stub_is(text(t).split(b"pid=")[0]), "does not say"),
    "oversized": (lambda t: t.stub_is(text(t) + b"later=1\n" * 1000), "larger than any stub"),
    "of a terabyte": (lambda t: os.truncate(t.stub, 1 << 40), "larger than any stub"),
    "no path": (lambda t: t.stub_is(text(t).replace(b"path=", b"lath=")), "one path"),
    "an empty path": (lambda t: t.says(path=""), "not absolute"),
    "two paths": (lambda t: t.stub_is(text(t) + f"path={t.home}/{t.staged.name}\n".encode()), "one path"),
    "a path with ..": (lambda t: t.says(path=f"/dev/shm/../..{t.home}/{t.staged.name}"), "no directory where"),
    "a path that ends in ..": (lambda t: t.says(path=f"{t.home}/.."), "own name"),
    "a relative path": (lambda t: t.says(path=f"home/{t.staged.name}"), "not absolute"),
    "a path with empty components": (lambda t: t.says(path=f"/dev//shm//{t.staged.name}"), "no directory where"),
    "a path with a dot": (lambda t: t.says(path=f"/dev/shm/./{t.staged.name}"), "no directory where"),
    "a file of the user": (lambda t: t.says(path=t.home / "id_rsa"), "own name"),
    "a dump of the user elsewhere": (lambda t: t.says(path=t.home / t.staged.name), "no directory where"),
    "another staged dump": (lambda t: t.says(path=f"/dev/shm/{t.decoys[1].name}"), "own name"),
    "a directory": (lambda t: t.says(path="/dev/shm/"), "own name"),
    "an unfinished dump": (lambda t: t.says(path=f"/dev/shm/{t.staged.name}.new"), "own name"),
    "a path of 3000 bytes": (lambda t: t.says(path="/" + "x" * 3000), "possible length"),
    "a path for a shell": (lambda t: t.says(path=f"/dev/shm/$(touch harm)`touch harm`/{t.staged.name}"),
                           "no directory where"),
    "a path in quotes": (lambda t: t.says(path=f"'/dev/shm/{t.staged.name}' \"; touch {t.home}/harm"), "not absolute"),
    "a path with a glob": (lambda t: t.says(path="/dev/shm/*"), "own name"),
    "a boot id for a shell": (lambda t: t.says(boot_id=f"' ] || touch {t.home}/harm; [ '"), "boot id"),
    "no boot id": (lambda t: t.says(boot_id=""), "boot id"),
    "another boot": (lambda t: t.says(boot_id="0" * 8 + "-0000-0000-0000-" + "0" * 12), "on "),
    "a host that is an option": (lambda t: t.says(host="-oProxyCommand=touch harm", boot_id="f" * 36),
                                 "impossible host"),
    "a host for a shell": (lambda t: t.says(host="x;touch harm", boot_id="f" * 36), "impossible host"),
    "no host": (lambda t: t.says(host=""), "one host"),
    "a process for a shell": (lambda t: t.says(pid="1; touch harm"), "one process"),
    "no process": (lambda t: t.says(pid=0), "one process"),
    "a rank that is none": (lambda t: t.says(rank="1e9"), "one rank"),
    "a stub of another user": (lambda t: give_away(t.stub), "belongs to user 12345"),
    "a stub that is a link": (lambda t: link_to(t.stub, t.home / "precious.txt"), "symbolic link"),
    "a stub that is a dangling link": (lambda t: becomes(t.stub, "dangling"), "symbolic link"),
    "a stub that is a FIFO": (lambda t: becomes(t.stub, "fifo"), "no regular file"),
    "a stub that is a socket": (lambda t: becomes(t.stub, "socket"), "no regular file"),
    "a stub that is a device": (lambda t: becomes(t.stub, "device"), "no regular file"),
    "a stub that is a directory": (lambda t: becomes(t.stub, "directory"), "no regular file"),
    "a newline in the name": (lambda t: t.renamed(f"commtap.{t.run_id}\nx.{2:016x}.stub"), NAME),
    "a shell in the name": (lambda t: t.renamed(f"commtap.$(touch harm)`touch harm`'\".{2:016x}.stub"), NAME),
    "a name with bytes that are no text": (lambda t: t.renamed(os.fsdecode(b"commtap.\xff\xfe\x1b[2J.stub")), NAME),
    "a name of 255 bytes": (lambda t: t.renamed("commtap." + "x" * (255 - 13) + ".stub"), NAME),
    "a name without a run": (lambda t: t.renamed(f"commtap..{2:016x}.stub"), NAME),
    "a name with a short number": (lambda t: t.renamed(f"commtap.{t.run_id}.2.stub"), NAME),
    "a name with .. in it": (lambda t: t.renamed(f"commtap...{2:016x}.stub"), NAME),
    "a staged link to a file of the user": (lambda t: link_to(t.staged, t.home / t.staged.name), "symbolic link"),
    "a staged dangling link": (lambda t: becomes(t.staged, "dangling"), "symbolic link"),
    "a staged FIFO": (lambda t: becomes(t.staged, "fifo"), "no regular file"),
    "a staged socket": (lambda t: becomes(t.staged, "socket"), "no regular file"),
    "a staged device": (lambda t: becomes(t.staged, "device"), "no regular file"),
    "a staged directory": (lambda t: becomes(t.staged, "directory"), "no regular file"),
    "nothing staged": (lambda t: t.staged.unlink(), "not there"),
    "a staged file of another user": (lambda t: give_away(t.staged), "belongs to"),
    "a staged file that is no dump": (lambda t: t.staged.write_bytes(b"the user's own\n" * 9999), "is no dump"),
    "an empty staged file": (lambda t: t.staged.write_bytes(b""), "is no dump"),
    "a staged dump of another process": (lambda t: t.says(pid=GONE - 1), "another process or run"),
    "a staged dump of another run": (lambda t: t.staged.write_bytes(dump_bytes("x", t.host.boot_id)), "another process or run"),
    "a staged dump of another boot": (lambda t: t.staged.write_bytes(dump_bytes(t.run_id, "f" * 36)), "another process or run"),
    "a file of the dump's name": (lambda t: t.dump.write_bytes(b"of the user"), "no copy of this dump"),
    "a dump of the dump's name": (lambda t: t.dump.write_bytes(dump_bytes("x", t.host.boot_id)), "no copy of this dump"),
    "an empty file of the dump's name": (lambda t: t.dump.write_bytes(b""), "no copy of this dump"),
    "a link of the dump's name": (lambda t: link_to(t.dump, t.home / "precious.txt"), "no copy of this dump"),
    "a link of the dump's name to a copy": (lambda t: link_to(t.dump, t.home / t.staged.name), "no copy of this dump"),
    "a dangling link of the dump's name": (lambda t: make_special(t.dump, "dangling"), "no copy of this dump"),
    "a FIFO of the dump's name": (lambda t: make_special(t.dump, "fifo"), "no copy of this dump"),
    "a directory of the dump's name": (lambda t: make_special(t.dump, "directory"), "no copy of this dump"),
}
assert len(PLANTED) >= 25


@pytest.mark.parametrize("words", [(), ("--remove",)], ids=["keep", "remove"])
@pytest.mark.parametrize("kind", PLANTED)
def test_planted_stub_touches_nothing(kind, words, host, tmp_path, run_id):  # noqa: F811
    trap = Trap(host, tmp_path, run_id)
    spoil, reason = PLANTED[kind]
    spoil(trap)
    untouched = [*trap.decoys, *(path for path in trap.out.iterdir() if path != trap.sound[1])]
    untouched += [trap.staged] if os.path.lexists(trap.staged) else []
    before = snapshot(*untouched)
    original = trap.sound[0].read_bytes()
    done = collect(*words, trap.out, ssh=ssh_of(host), cwd=tmp_path)
    assert snapshot(*untouched) == before
    assert done.returncode == 1 and "1 of 2 dumps" in done.stdout, done.stdout + done.stderr
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("commtap-collect: ")
    assert all(character.isprintable() for line in done.stderr.splitlines() for character in line)
    # the sound one comes home all the same, and nothing else has appeared
    assert without_mark(trap.sound[2].read_bytes()) == original and not trap.sound[1].exists()
    assert trap.sound[0].exists() == (not words)
    note = set() if words else {trap.sound[1].with_suffix(".staged").name}
    assert {path.name for path in trap.out.iterdir()} == {pathlib.Path(path).name for path in before
                                                         if pathlib.Path(path).parent == trap.out
                                                             } | {trap.sound[2].name} | note
    assert not list(tmp_path.rglob("harm"))


# ---- sound ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", ["-rf", "a.b.c", "--", "_", "x" * 63], ids=str)
def test_odd_run_ids_are_collected(run, here, tmp_path):  # noqa: F811
    staged, stub, dump = here.stage(tmp_path, run, number=os.getpid())
    try:
        data = staged.read_bytes()
        done = collect("--remove", tmp_path)
        assert done.returncode == 0 and "1 of 1" in done.stdout, done.stderr
        assert without_mark(dump.read_bytes()) == data and not stub.exists() and not staged.exists()
        assert dump.stat().st_mode & 0o777 == 0o600
    finally:
        staged.unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["two words", "-n", "a\nb", "quo'te\"", "$(touch harm)", "*", "x" * 200], ids=repr)
def test_odd_directories_are_collected_into(name, host, tmp_path, run_id):  # noqa: F811
    out = tmp_path / name
    out.mkdir()
    staged, stub, dump = host.stage(out, run_id)
    done = collect("--", name, ssh=ssh_of(host), cwd=tmp_path)
    assert done.returncode == 0 and "1 of 1" in done.stdout, done.stderr
    assert without_mark(dump.read_bytes()) == staged.read_bytes() and not stub.exists()
    assert not list(tmp_path.rglob("harm"))


def test_holes_stay_holes(host, tmp_path, run_id):  # noqa: F811
    staged, _, dump = host.stage(tmp_path, run_id)
    os.truncate(staged, 1 << 28)
    assert collect(tmp_path, ssh=ssh_of(host)).returncode == 0
    assert dump.stat().st_size == 1 << 28 and dump.stat().st_blocks * 512 < 1 << 22


def test_many_hosts_are_asked_once_each(far, tmp_path, run_id):  # noqa: F811
    out = tmp_path / "out"
    out.mkdir()
    staged = [far.stage(out, run_id, number)[0] for number in range(1, 21)]
    for number in range(21, 30):
        name = f"commtap.{run_id}.{number:016x}"
        (out / f"{name}.stub").write_text(far.stub(name, host=f"lost{number % 3}", boot_id="0" * 36), encoding="utf-8")
    done = collect("--jobs", "2", out, ssh=far.ssh)
    assert done.returncode == 1 and "20 of 29 dumps fetched from 4 hosts" in done.stdout
    assert done.stderr.count("no route to lost") == 9
    asked = (tmp_path / "far" / "asked").read_text(encoding="utf-8").split()
    assert sorted(asked) == sorted([far.name, far.name, "lost0", "lost1", "lost2"])  # once by the fixture
    assert all(path.exists() for path in staged)


def test_earlier_copy_is_replaced(host, tmp_path, run_id):  # noqa: F811
    """Collected without its stub being removed, as where the collector was killed in between: the copy is replaced."""
    staged, stub, dump = host.stage(tmp_path, run_id)
    dump.write_bytes(staged.read_bytes()[:70000])
    done = collect(tmp_path, ssh=ssh_of(host))
    assert done.returncode == 0, done.stderr
    assert without_mark(dump.read_bytes()) == staged.read_bytes() and not stub.exists()


# ---- hosts that fail or lie -------------------------------------------------------------------------------------------------


def wrap_ssh(far, tmp_path, script):  # noqa: F811
    """An ssh whose answer goes through `script`, a shell command that reads it."""
    path = tmp_path / "wrapped"
    path.write_text(f"#!/bin/sh\n{far.ssh} \"$@\" | {script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


BROKEN = {
    "answers nothing": "true",
    "is cut early": "head -c 50",
    "is cut in the file": "head -c 100000",
    "is cut at the sum": "head -c -10",
    "damages the file": "tr '\\001' '\\002'",
    "never answers the question": "yes",
    "says a negative size": "sed 's/^file ended .*/file ended -5/'",
    "says too large a size": "sed 's/^file ended .*/file ended 9223372036854775807/'",
    "says an absurd size": "sed 's/^file ended .*/file ended 99999999999999999999999/'",
    "says another sum": "sed 's/sum [0-9]* [0-9]*$/sum 1 2/'",
    "says a line without end": "tr '\\n' ' '",
    "says binary": "head -c 5000000 /dev/urandom",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_answers_collect_nothing(kind, far, tmp_path, run_id):  # noqa: F811
    out = tmp_path / "out"
    out.mkdir()
    staged, stub, dump = far.stage(out, run_id)
    before = snapshot(staged, stub)
    done = collect("--remove", out, ssh=wrap_ssh(far, tmp_path, BROKEN[kind]))
    assert done.returncode == 1 and "0 of 1" in done.stdout and len(done.stderr.splitlines()) == 1
    assert snapshot(staged, stub) == before and [path.name for path in out.iterdir()] == [stub.name]
    assert collect("--remove", out, ssh=far.ssh).returncode == 0  # nothing is lost by that
    assert dump.exists() and not staged.exists()


def test_file_that_changes_is_not_removed(far, tmp_path, run_id):  # noqa: F811
    """Between the copy and the removal somebody writes into the staged file."""
    out = tmp_path / "out"
    out.mkdir()
    staged, _, dump = far.stage(out, run_id)
    ssh = tmp_path / "meddling"
    ssh.write_text(f"#!/bin/sh\n[ ! -e {dump} ] || echo more >>{staged}\nexec {far.ssh} \"$@\"\n", encoding="utf-8")
    ssh.chmod(0o755)
    done = collect("--remove", out, ssh=str(ssh))
    assert done.returncode == 1 and "has changed since" in done.stderr and "1 of 1" in done.stdout
    assert staged.read_bytes().endswith(b"more\n") and dump.exists()


def test_full_disk_leaves_everything_where_it_is(host, tmp_path, run_id):  # noqa: F811
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", str(small)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        staged, stub, _ = host.stage(small, run_id)
        before = snapshot(staged, stub)
        done = collect("--remove", small, ssh=ssh_of(host))
        assert done.returncode == 1 and "No space left" in done.stderr
        assert snapshot(staged, stub) == before and [path.name for path in small.iterdir()] == [stub.name]
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_collector_leaves_no_partial_file(end, far, tmp_path, run_id):  # noqa: F811
    out = tmp_path / "out"
    out.mkdir()
    staged, stub, _ = far.stage(out, run_id)
    ssh = wrap_ssh(far, tmp_path, "{ head -c 100000; exec sleep 15; }")
    collector = subprocess.Popen([str(COLLECT), "--ssh", ssh, str(out)], stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + SECONDS
    while not list(out.glob("*.partial")):
        assert time.monotonic() < deadline and collector.poll() is None
        time.sleep(0.01)
    os.killpg(collector.pid, end)
    assert collector.wait(timeout=SECONDS) == -end
    assert [path.name for path in out.iterdir()] == [stub.name] and staged.exists()


# ---- live -------------------------------------------------------------------------------------------------------------------

WRITER = """
import mmap, os, sys, time
path, seconds = sys.argv[1], float(sys.argv[2])
file = open(path, "r+b")
view = mmap.mmap(file.fileno(), 0)
view[240:248] = os.getpid().to_bytes(8, "little")
print("ready", flush=True)
end, count = time.monotonic() + seconds, 0
while time.monotonic() < end:
    count += 1
    view[100000:100008] = count.to_bytes(8, "little")
    if count % 50 == 0:
        with open(path, "r+b") as more:
            more.seek(0, os.SEEK_END)
            more.write(bytes([count % 251 + 1]) * 65536)
    time.sleep(0.001)
"""


def start_writer(staged, stub, seconds):
    """A process that maps the staged dump, changes it and has it grow."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(staged), str(seconds)], stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"ready\n"
    stub.write_text(stub.read_text(encoding="utf-8").replace(f"pid={GONE}", f"pid={writer.pid}"), encoding="utf-8")
    return writer


@pytest.fixture
def far_with_our_shm(far, tmp_path):  # noqa: F811
    """The other host's processes are ours, so that it can have one that maps a dump."""
    path = pathlib.Path(far.ssh)
    path.write_text(path.read_text(encoding="utf-8").replace(f"mount --bind {far.shm} /dev/shm &&", ""), encoding="utf-8")
    far.shm = pathlib.Path("/dev/shm")
    return far


@pytest.mark.parametrize("place", ["here", "far_with_our_shm"])
def test_growing_dump(place, request, tmp_path, run_id):  # noqa: F811
    """Collected while it grows, more than once: each copy is whole, the stub stays until the last."""
    host, out = request.getfixturevalue(place), tmp_path / "out"
    out.mkdir()
    staged, stub, dump = host.stage(out, run_id)
    writer = start_writer(staged, stub, 2.5)
    sizes = []
    while len(sizes) < 3:
        done = collect("--remove", out, ssh=ssh_of(host))
        assert done.returncode == 0 and "still written to" in done.stdout, done.stdout + done.stderr
        assert stub.exists() and staged.exists() and len(list(out.iterdir())) == 2
        sizes.append(dump.stat().st_size)
        assert without_mark(dump.read_bytes())[:28] == staged.read_bytes()[:28]
        time.sleep(0.2)
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]
    writer.wait(timeout=SECONDS)
    final = staged.read_bytes()
    done = collect("--remove", out, ssh=ssh_of(host))
    assert done.returncode == 0 and "still" not in done.stdout, done.stdout + done.stderr
    assert without_mark(dump.read_bytes()) == final and list(out.iterdir()) == [dump] and not staged.exists()


def test_what_was_fetched_can_be_removed_later(host, tmp_path, run_id):  # noqa: F811
    staged, stub, dump = host.stage(tmp_path, run_id)
    original = staged.read_bytes()
    kept = stub.with_suffix(".staged")
    done = collect(tmp_path, ssh=ssh_of(host))
    assert done.returncode == 0 and "--remove" in done.stdout, done.stdout + done.stderr
    assert sorted(tmp_path.glob("commtap.*")) == [dump, kept] and staged.exists()
    assert "nothing to fetch" in collect(tmp_path, ssh=ssh_of(host)).stdout
    again = collect("--remove", tmp_path, ssh=ssh_of(host))
    assert again.returncode == 0, again.stdout + again.stderr
    assert without_mark(dump.read_bytes()) == original and not staged.exists()
    assert list(tmp_path.glob("commtap.*")) == [dump]


def test_what_is_gone_from_its_node_needs_no_removal(host, tmp_path, run_id):  # noqa: F811
    staged, stub, dump = host.stage(tmp_path, run_id)
    assert collect(tmp_path, ssh=ssh_of(host)).returncode == 0
    staged.unlink()
    again = collect("--remove", tmp_path, ssh=ssh_of(host))
    assert again.returncode == 0, again.stdout + again.stderr
    assert list(tmp_path.glob("commtap.*")) == [dump]


def test_what_cannot_be_removed_stays_known(far, tmp_path, run_id):  # noqa: F811
    """The host cannot be reached: a later call finds the dump again."""
    staged, stub, dump = far.stage(tmp_path, run_id)
    assert collect(tmp_path, ssh=far.ssh).returncode == 0
    lost = collect("--remove", tmp_path, ssh="/bin/false")
    assert lost.returncode == 1 and staged.exists() and dump.exists() and stub.with_suffix(".staged").exists()
    assert collect("--remove", tmp_path, ssh=far.ssh).returncode == 0 and not staged.exists()


@pytest.mark.parametrize("words", [(), ("--remove",)], ids=["keep", "remove"])
def test_two_collectors_at_once(words, host, tmp_path, run_id):  # noqa: F811
    out = tmp_path / "out"
    for attempt in range(5):
        out.mkdir(exist_ok=True)
        made = [host.stage(out, run_id, number + 1, seed=number + 1) for number in range(8)]
        originals = [staged.read_bytes() for staged, _, _ in made]
        line = [str(COLLECT), *(["--ssh", host.ssh] if ssh_of(host) else []), *words, str(out)]
        both = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        said = [collector.communicate(timeout=SECONDS) for collector in both]
        assert [collector.returncode for collector in both] == [0, 0], said
        for (staged, stub, dump), original in zip(made, originals):
            assert without_mark(dump.read_bytes()) == original and not stub.exists()
            assert staged.exists() == (not words)
        assert len(list(out.iterdir())) == (8 if words else 16)  # the kept ones leave a note of where they lie
        for path in out.iterdir():
            path.unlink()


def test_two_collectors_of_a_growing_dump(here, tmp_path, run_id):  # noqa: F811
    """Whoever is last: when the process has ended the whole of it is there."""
    out = tmp_path / "out"
    out.mkdir()
    staged, stub, dump = here.stage(out, run_id)
    writer = start_writer(staged, stub, 1.5)
    loop = f"while [ -e '{stub}' ]; do '{COLLECT}' '{out}' >/dev/null 2>&1; done"
    both = [subprocess.Popen(["sh", "-c", loop]) for _ in range(2)]
    writer.wait(timeout=SECONDS)
    for collector in both:
        collector.wait(timeout=SECONDS)
    assert without_mark(dump.read_bytes()) == staged.read_bytes()
    assert {path.name for path in out.iterdir()} == {dump.name, stub.with_suffix(".staged").name}


# ---- usage ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--jobs", "0"], ["--jobs", "x"], ["--jobs", ""], ["--nonsense"], ["a", "b"]], ids=str)
def test_usage(words, tmp_path):
    assert collect(*words, tmp_path).returncode == 2


def test_nothing_to_collect(tmp_path):
    assert collect(tmp_path).returncode == 0
    assert collect(tmp_path / "nowhere").returncode == 2


def test_staging_directories_are_the_librarys():
    """The shim stages where readers look, and nowhere else."""
    told = (jobs.ROOT / "shim" / "format.h").read_text(encoding="utf-8")
    shim = "".join(path.read_text(encoding="utf-8") for path in (jobs.ROOT / "shim").rglob("*.c"))
    listed, = (line.split(None, 2)[2] for line in told.splitlines() if line.startswith("#define FORMAT_STAGING_DIRECTORIES"))
    assert "FORMAT_STAGING_DIRECTORIES" in shim or f"{{{listed}}}" in shim


def test_stub_of_this_boot_needs_no_ssh(here, tmp_path, run_id):  # noqa: F811
    staged, stub, dump = here.stage(tmp_path, run_id)
    stub.write_text(stub_text(host="(none)", boot_id=BOOT_ID, path=staged, pid=GONE, rank=-1, later="more"), encoding="utf-8")
    done = collect(tmp_path, ssh="/bin/false")
    assert done.returncode == 0 and dump.exists(), done.stderr
