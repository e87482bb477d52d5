# SPDX-License-Identifier: Apache-2.0
#
# Hosts that share a directory and stage dumps of their own: each a boot id, a /var/tmp and, where a test says so, another
# /proc/meminfo, in a mount name space. Containers are hosts with the machine's own boot id.
# Lives here: dealing dumps out among hosts, entering one. Must not live here: tests, launching.
import os
import pathlib
import shutil
import struct
import subprocess
import uuid

import pytest

from staged import BOOT_ID as OWN_BOOT_ID, stub_text

STAGING = "/var/tmp"
BOOT_ID, PLACE, PLACE_STAGED = 192, 1212, 2  # where struct dump_header has these
ENTER = r"""#!/bin/sh
# HOST COMMAND...: the command on that host; HOST may be several, of which a process of MPI takes that of its number.
number=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
set -f; host=$(echo $1 | cut -d' ' -f$((number + 1))); shift; set +f
export PLAYED="$(dirname "$0")/$host"
exec unshare -m sh -c '
    mount --bind "$PLAYED/tmp" /var/tmp || exit 99
    [ ! -e "$PLAYED/boot_id" ] || mount --bind "$PLAYED/boot_id" /proc/sys/kernel/random/boot_id || exit 99
    [ ! -e "$PLAYED/meminfo" ] || mount --bind "$PLAYED/meminfo" /proc/meminfo || exit 99
    [ ! -e "$PLAYED/shared" ] || mount --bind "$PLAYED/shared" "$(cat "$PLAYED/over")" || exit 99
    exec "$@"' sh "$@"
"""


class Hosts:
    """`names` play hosts; `all` is one that has what they all have, as if nothing were far away."""

    def __init__(self, folder, *names, containers=False):
        self.folder, self.enter, self.containers = folder, folder / "enter", containers
        self.shared = folder / "dumps"
        self.shared.mkdir(parents=True)
        for name in (*names, "all"):
            (folder / name / "tmp").mkdir(parents=True)
            if not containers:
                (folder / name / "boot_id").write_text(f"{uuid.uuid4()}\n", encoding="utf-8")
        # on the host that has all, the directory has stubs of that host
        (folder / "all" / "shared").mkdir()
        (folder / "all" / "over").write_text(str(self.shared), encoding="utf-8")
        self.enter.write_text(ENTER, encoding="utf-8")
        self.enter.chmod(0o755)
        if os.geteuid() != 0 or subprocess.run(self.on("all", "true"), capture_output=True).returncode != 0:
            pytest.skip("no mount name spaces here, which play other hosts")

    def on(self, hosts, *words):
        """The line that runs a command on a host, or in MPI each process on its own one: "a b b"."""
        return [str(self.enter), hosts, *map(str, words)]

    def boot_id(self, name):
        return OWN_BOOT_ID if self.containers else (self.folder / name / "boot_id").read_text(encoding="utf-8").strip()

    def stage(self, dump, name, seen=True):
        """Moves a dump to where that host staged it and puts a stub in the directory; `seen`: the host that has all has
        it, too."""
        home = self.folder / name / "tmp" / dump.name
        shutil.copy(dump, home)
        with open(home, "r+b") as file:
            file.seek(BOOT_ID)
            file.write(self.boot_id(name).encode())
            file.seek(PLACE)
            file.write(struct.pack("<I", PLACE_STAGED))
        says = {"host": name, "boot_id": self.boot_id(name), "path": f"{STAGING}/{dump.name}", "pid": 1, "rank": 0}
        stub = f"{dump.name[:-len('.ct')]}.stub"
        (self.shared / stub).write_text(stub_text(**says), encoding="utf-8")
        if seen:
            shutil.copy(home, self.folder / "all" / "tmp")
            says["boot_id"] = self.boot_id("all")
        (self.folder / "all" / "shared" / stub).write_text(stub_text(**says), encoding="utf-8")
        return home

    def keep(self, dump):
        """A dump that lies in the directory itself."""
        shutil.copy(dump, self.shared)
        shutil.copy(dump, self.folder / "all" / "shared")

    def deal(self, dumps, places):
        """Stages each on the next host, in turn; "" leaves it in the directory. Where each is."""
        return [self.stage(dump, places[i % len(places)]) if places[i % len(places)] else self.keep(dump)
                for i, dump in enumerate(sorted(pathlib.Path(dumps).glob("*.ct")))]
