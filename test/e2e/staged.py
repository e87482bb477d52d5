# SPDX-License-Identifier: Apache-2.0
#
# Staged dumps, stubs, and hosts to collect from, made by hand.
# Lives here: a header that passes for a dump's, the ssh stand-in. Must not live here: tests.
import os
import pathlib
import struct
import subprocess
import uuid

import pytest

import jobs

COLLECT = jobs.ROOT / "scripts" / "commtap-collect"
BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
GONE = 4194304  # a pid above any
STATE, STATE_COPIED = 28, 1 << 6  # where struct dump_header has its state
SECONDS = 20  # after which a command hangs


def header(run_id, boot_id, pid):
    """The identity of struct dump_header (shim/format.h); everything else is zero."""
    head = bytearray(65536)
    struct.pack_into("<8sIIIIII64s", head, 0, b"COMMTAP\n", 1, 0x01020304, 6728, 32, 64, 1, run_id.encode())
    struct.pack_into("<40s", head, 192, boot_id.encode())
    struct.pack_into("<q", head, 240, pid)
    return bytes(head)


def dump_bytes(run_id, boot_id, pid=GONE, seed=1):
    """A dump with data, holes and an odd end."""
    return header(run_id, boot_id, pid) + bytes([seed]) * 70000 + bytes(300000) + b"the end"


def without_mark(data):
    """A copy says that it is one; apart from that it is the dump."""
    state, = struct.unpack_from("<I", data, STATE)
    assert state & STATE_COPIED
    return data[:STATE] + struct.pack("<I", state & ~STATE_COPIED) + data[STATE + 4:]


def stub_text(**says):
    return "".join(f"{key}={value}\n" for key, value in says.items())


class Host:
    """Where dumps are staged: `shm` is its /dev/shm as seen from here."""

    def __init__(self, name, boot_id, shm):
        self.name, self.boot_id, self.shm = name, boot_id, shm

    def stub(self, name, **other):
        says = {"host": self.name, "boot_id": self.boot_id, "path": f"/dev/shm/{name}.ct", "pid": GONE, "rank": 0}
        return stub_text(**{**says, **other})

    def stage(self, out, run_id, number=1, pid=GONE, seed=1):
        """A sound dump and its stub in `out`: (staged file, stub, where the dump belongs)."""
        name = f"commtap.{run_id}.{number:016x}"
        staged, stub = self.shm / f"{name}.ct", out / f"{name}.stub"
        staged.write_bytes(dump_bytes(run_id, self.boot_id, pid, seed))
        stub.write_text(self.stub(name, pid=pid, rank=number), encoding="utf-8")
        return staged, stub, out / f"{name}.ct"


@pytest.fixture
def run_id():
    """Of this test alone: /dev/shm is everybody's."""
    unique = "t" + uuid.uuid4().hex[:12]
    yield unique
    for path in pathlib.Path("/dev/shm").glob(f"commtap*{unique}*"):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()


@pytest.fixture
def here():
    return Host("local", BOOT_ID, pathlib.Path("/dev/shm"))


@pytest.fixture
def far(tmp_path):
    """Another host: the ssh stand-in gives it a boot id and a /dev/shm of its own."""
    shm = tmp_path / "far" / "shm"
    shm.mkdir(parents=True)
    host = Host("far1", str(uuid.uuid4()), shm)
    (tmp_path / "far" / "boot_id").write_text(host.boot_id + "\n", encoding="utf-8")
    ssh = tmp_path / "far" / "ssh"
    ssh.write_text(f"""#!/bin/sh
echo "$1" >>{tmp_path}/far/asked
[ "$1" = {host.name} ] || {{ echo "ssh: no route to $1" >&2; exit 255; }}
shift
export COMMAND="$*"
exec unshare -m sh -c 'mount --bind {tmp_path}/far/boot_id /proc/sys/kernel/random/boot_id &&
    mount --bind {shm} /dev/shm && echo "Welcome to {host.name}" && exec sh -c "$COMMAND"'
""", encoding="utf-8")
    ssh.chmod(0o755)
    host.ssh = str(ssh)
    if subprocess.run([ssh, host.name, "true"], capture_output=True, timeout=SECONDS).returncode != 0:
        pytest.skip("no mount name spaces here, which play other hosts")
    return host


def collect(*words, ssh=None, cwd=None):
    """Runs commtap-collect; TimeoutExpired where it hangs."""
    command = [str(COLLECT), *(["--ssh", ssh] if ssh else []), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=cwd, stdin=subprocess.DEVNULL,
                          errors="replace", env=jobs.clean_environment())


def snapshot(*roots):
    """Everything below the roots: what it is, whose, and what is in it."""
    found = {}
    for root in roots:
        for path in [root, *sorted(root.rglob("*"))] if root.is_dir() and not root.is_symlink() else [root]:
            status = path.lstat()
            content = None
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file() and status.st_blocks < 1 << 20:
                content = path.read_bytes() if status.st_size < 1 << 24 else status.st_size
            found[str(path)] = (status.st_mode, status.st_uid, status.st_ino, content)
    return found


def play_another_host(tmp_path, hidden=None):
    """An ssh for far1, which has our file systems and processes and a boot id of its own; `hidden`: a directory that is
    empty there. (ssh, boot id)"""
    boot_id = str(uuid.uuid4())
    (tmp_path / "boot_id").write_text(boot_id + "\n", encoding="utf-8")
    (tmp_path / "nothing").mkdir(exist_ok=True)
    hide = f"mount --bind {tmp_path}/nothing {hidden} &&" if hidden else ""
    ssh = tmp_path / ("ssh" if not hidden else "ssh-hidden")
    ssh.write_text(f"""#!/bin/sh
[ "$1" = far1 ] || {{ echo "ssh: no route to $1" >&2; exit 255; }}
shift
export COMMAND="$*"
exec unshare -m sh -c 'mount --bind {tmp_path}/boot_id /proc/sys/kernel/random/boot_id && {hide} exec sh -c "$COMMAND"'
""", encoding="utf-8")
    ssh.chmod(0o755)
    if subprocess.run([ssh, "far1", "true"], capture_output=True, timeout=SECONDS).returncode != 0:
        pytest.skip("no mount name spaces here, which play other hosts")
    return ssh, boot_id


def move_rank(stubs, rank, boot_id, host="far1"):
    """Makes the staged dump of a running rank one of that other host."""
    stub, says = next((path, says) for path, says in stubs.items() if says["rank"] == str(rank))
    with open(says["path"], "r+b") as dump:
        dump.seek(192)  # dump_header.boot_id
        dump.write(boot_id.encode())
    stub.write_text(stub_text(**{**says, "host": host, "boot_id": boot_id}), encoding="utf-8")
    return stub
