# SPDX-License-Identifier: Apache-2.0
#
# scripts/install-deps on machines that are not this one: with packages that conflict, without a network, without root,
# without Debian's tools. Stand-ins for apt-get, dpkg-query and id come first on PATH and note what they were asked.
# Whatever the machine, nothing may be asked for that could remove a package.
import os
import shutil
import subprocess

import pytest

import jobs

SCRIPT = jobs.ROOT / "scripts" / "install-deps"
TOOLS = ["sh", "awk", "sed", "grep", "cat", "cut", "sort", "tr", "tail", "tee", "mktemp", "rm", "printf", "dirname"]
COMPILER = ["cc", "gcc", "ld", "as", "make"]

# Installs what it is asked for, except what the lines `conflict PACKAGE VICTIM` and `unknown PACKAGE` of $FAKE/rules
# say; without $FAKE/network nothing can be fetched.
APT = r"""#!/bin/sh
echo "apt-get $*" >>"$FAKE/asked"
simulate=
safe=
install=
packages=
while [ $# -gt 0 ]; do
    case "$1" in
    -s) simulate=yes ;;
    --no-remove) safe=yes ;;
    -o) shift ;;
    -*) ;;
    install) install=yes ;;
    update) [ -e "$FAKE/network" ] || echo "W: Failed to fetch http://mirror/ Could not resolve"; exit 0 ;;
    *) packages="$packages $1" ;;
    esac
    shift
done
[ "$install" ] || exit 0
for package in $packages; do
    if grep -qx "unknown $package" "$FAKE/rules"; then
        echo "E: Unable to locate package $package"
        exit 100
    fi
    victim=$(sed -n "s/^conflict $package //p" "$FAKE/rules")
    if [ "$victim" ] && grep -qx "$victim" "$FAKE/installed"; then
        printf 'The following packages will be REMOVED:\n  %s\n' "$victim"
        [ "$safe" ] || { echo "$victim" >>"$FAKE/removed"; continue; }
        echo "E: Packages need to be removed but remove is disabled."
        exit 100
    fi
done
[ "$simulate" ] && exit 0
[ -e "$FAKE/network" ] || { echo "E: Failed to fetch http://mirror/gcc.deb"; exit 100; }
set -- $packages
echo "0 upgraded, $# newly installed, 0 to remove and 0 not upgraded."
for package; do
    echo "Setting up $package (1) ..."
    echo "$package" >>"$FAKE/installed"
done
"""
DPKG = r"""#!/bin/sh
sed 's/^/ii  /' "$FAKE/installed"
"""


class Machine:
    """A folder of commands that is all of PATH."""

    def __init__(self, folder):
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir()
        for name in TOOLS:
            self.link(name)
        for name in ("installed", "asked", "rules", "removed"):
            (folder / name).write_text("")
        self.root(True)

    def link(self, name):
        path = shutil.which(name)
        assert path, name
        (self.bin / name).symlink_to(path)

    def command(self, name, text="#!/bin/sh\nexit 0\n"):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def debian(self, network=True):
        self.command("apt-get", APT)
        self.command("dpkg-query", DPKG)
        if network:
            (self.folder / "network").write_text("")
        return self

    def root(self, yes):
        self.command("id", f"#!/bin/sh\necho {0 if yes else 1000}\n")

    def installed(self, *packages):
        with open(self.folder / "installed", "a", encoding="ascii") as file:
            file.writelines(f"{package}\n" for package in packages)

    def now_installed(self):
        return set((self.folder / "installed").read_text().split())

    def rule(self, line):
        with open(self.folder / "rules", "a", encoding="ascii") as file:
            file.write(line + "\n")

    def asked(self):
        return (self.folder / "asked").read_text().splitlines()

    def run(self, *words, code=0):
        kept = {name: value for name, value in os.environ.items() if name != "CC"}
        done = subprocess.run([self.bin / "sh", SCRIPT, *words], capture_output=True, text=True, timeout=60, check=False,
                              env={**kept, "PATH": str(self.bin), "PYTHON": "none", "FAKE": str(self.folder)})
        assert done.returncode == code, done.stderr
        self.nothing_removed()
        return done

    def nothing_removed(self):
        assert (self.folder / "removed").read_text() == ""
        for line in self.asked():
            words = line.split()
            assert "update" in words or ("install" in words and "--no-remove" in words), line
            assert not {"remove", "purge", "autoremove", "dist-upgrade", "full-upgrade", "--auto-remove",
                        "--allow-remove-essential", "-f", "--force-yes"} & set(words), line


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def packages(*words):
    done = subprocess.run([SCRIPT, "--list", *words], capture_output=True, text=True, check=True)
    return done.stdout.split()


def real_installs(machine):
    return [line for line in machine.asked() if " install " in line and " -s " not in line]


def test_the_demo_needs_little():
    demo, build, everything = packages("--for", "demo"), packages("--for", "build"), packages()
    assert set(build) < set(demo) < set(everything)
    assert {"gcc", "make", "libjansson-dev", "openmpi-bin"} <= set(demo)
    assert not [name for name in demo if "clang" in name or "aarch64" in name or "arm64" in name or "python" in name
                or "mpich" in name or "qemu" in name or "fortran" in name]
    assert not [name for name in build if "mpi" in name]
    assert packages("--for", "check") == everything


def test_a_bare_machine_gets_all_of_it(machine):
    done = machine.debian().run()
    assert machine.now_installed() == set(packages())
    assert f"installing {len(packages())} packages" in done.stderr and "minutes" in done.stderr
    assert f"20 of {len(packages())} ready" in done.stderr
    assert len(real_installs(machine)) == 1
    assert machine.run().stderr == ""  # nothing is left to say or to do


def test_only_what_is_missing_is_installed(machine):
    machine.debian().installed(*[name for name in packages() if name != "qemu-user"])
    done = machine.run()
    assert "installing 1 packages" in done.stderr and "qemu-user" in done.stderr
    assert real_installs(machine)[0].split()[-1] == "qemu-user"


def test_the_demo_gets_what_it_needs(machine):
    machine.debian().run("--for", "demo")
    assert machine.now_installed() == set(packages("--for", "demo"))


def test_the_demo_is_content_with_any_mpi(machine):
    machine.debian().installed(*packages("--for", "build"))
    machine.command("mpicc")
    machine.command("mpirun")
    assert machine.run("--for", "demo").stderr == ""
    assert machine.asked() == []


def test_what_conflicts_is_left_out(machine):
    """The cross compiler for aarch64 and gcc-multilib cannot both be installed."""
    machine.debian().installed("gcc-multilib")
    machine.rule("conflict gcc-aarch64-linux-gnu gcc-multilib")
    done = machine.run()
    assert machine.now_installed() == set(packages()) - {"gcc-aarch64-linux-gnu"} | {"gcc-multilib"}
    [line] = [line for line in done.stderr.splitlines() if "left out" in line]
    assert "gcc-aarch64-linux-gnu" in line and "gcc-multilib" in line
    assert "still missing" in done.stderr


def test_what_the_sources_lack_is_left_out(machine):
    machine.debian().rule("unknown libclang-rt-14-dev")
    done = machine.run()
    assert machine.now_installed() == set(packages()) - {"libclang-rt-14-dev"}
    assert "libclang-rt-14-dev is left out: this machine's package sources do not have it" in done.stderr


def test_what_the_build_needs_comes_first():
    """Of two packages that exclude each other, the one that more depends on."""
    demo, build, everything = packages("--for", "demo"), packages("--for", "build"), packages()
    assert demo[:len(build)] == everything[:len(build)] == build
    assert everything[:len(demo)] == demo


def test_without_a_network(machine):
    machine.debian(network=False)
    done = machine.run(code=1)
    assert "no network?" in done.stderr
    assert "apt-get could not install them" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("install-deps: cannot go on without: gcc")


def test_without_a_network_it_goes_on_with_what_is_here(machine):
    machine.debian(network=False).installed(*packages("--for", "demo"))
    done = machine.run()
    assert "still missing" in done.stderr and "    mpich: tests: MPICH" in done.stderr
    assert "going on" in done.stderr.splitlines()[-1]


def test_without_root(machine):
    machine.debian().root(False)
    machine.installed(*packages("--for", "build"))
    done = machine.run()
    assert machine.asked() == []
    [line] = [line for line in done.stderr.splitlines() if "as root run" in line]
    assert "--no-remove" in line
    assert set(packages()) - set(packages("--for", "build")) <= set(line.split())
    machine.run("--for", "build")
    done = machine.run("--for", "demo", code=1)
    assert "openmpi-bin libopenmpi-dev (or any other MPI" in done.stderr.splitlines()[-1]


def compiler_here(machine):
    """The compiler and the libraries that this machine really has."""
    for name in COMPILER:
        machine.link(name)


@pytest.mark.parametrize("debian", [False, True], ids=["elsewhere", "debian"])
def test_what_is_there_counts_package_or_not(machine, debian):
    """Another distribution, or a Debian whose packages were not used: compiler and libraries can be seen."""
    compiler_here(machine)
    if debian:
        machine.debian().root(False)
    assert machine.run("--for", "build").stderr == ""
    assert machine.run("--for", "build", "--check").stderr == ""
    machine.command("mpicc.mpich")
    machine.command("mpirun.mpich")
    assert machine.run("--for", "demo").stderr == ""
    done = machine.run()
    assert "clang: tests: second compiler" in done.stderr
    assert "    gcc:" not in done.stderr and "libjansson-dev" not in done.stderr


def test_without_debians_tools(machine):
    done = machine.run("--for", "build", code=1)
    assert "there is no apt-get here" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("install-deps: cannot go on without: gcc libc6-dev make")


def test_a_header_without_its_library_is_missing(machine):
    """What counts is that a program can be linked, not that a file lies somewhere."""
    compiler_here(machine)
    refusing = "#!/bin/sh\ncase \"$*\" in *-ldw*) exit 1;; esac\nexec " + shutil.which("gcc") + " \"$@\"\n"
    (machine.bin / "cc").unlink()
    machine.command("cc", refusing)
    done = machine.run("--for", "build", code=1)
    assert done.stderr.splitlines()[-1] == "install-deps: cannot go on without: libdw-dev "


def test_check_says_what_is_missing_and_does_nothing(machine):
    machine.debian().installed(*[name for name in packages() if name != "clang"])
    done = machine.run("--check", code=1)
    assert "    clang: tests: second compiler, fuzzing" in done.stderr
    assert machine.asked() == []
    machine.run("--check", "--for", "demo")


def test_has(machine):
    machine.debian().installed("clang")
    machine.run("--has", "clang")
    assert machine.run("--has", "clang", "mpich", code=1).stdout == "not here: mpich\n"
    machine.run("--has", "no-such-package", code=2)


@pytest.mark.parametrize("words", [["--for"], ["--for", "fun"], ["--install"], ["gcc"]])
def test_usage(machine, words):
    assert "usage: install-deps" in machine.run(*words, code=2).stderr
