# SPDX-License-Identifier: Apache-2.0
#
# mpi4py for both MPIs: Debian's package is built on Open MPI, a second one for MPICH is built here once.
# Lives here: fetching the pinned source (it also holds mpi4py's test suite) and building it. Must not live here: tests.
import fcntl
import os
import subprocess
import tarfile

import jobs

VERSION = "3.1.4"
SHA256 = "17858f2ebc623220d0120d1fa8d428d033dde749c4bc35b33d81a66ad7f93480"
HOME = jobs.BUILD / "test" / "mpi4py"
SOURCE = HOME / f"mpi4py-{VERSION}"
FOR_MPICH = HOME / "mpich"
PIP = [jobs.PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def _locked(make):
    HOME.mkdir(parents=True, exist_ok=True)
    with open(HOME / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make()


def _fetch():
    if SOURCE.is_dir():
        return
    wanted = HOME / "wanted.txt"
    wanted.write_text(f"mpi4py=={VERSION} --hash=sha256:{SHA256}\n")
    subprocess.run([*PIP, "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes",
                    "-d", str(HOME), "-r", str(wanted)], check=True)
    with tarfile.open(HOME / f"mpi4py-{VERSION}.tar.gz") as archive:
        archive.extractall(HOME)


def _build_for_mpich():
    _fetch()
    if FOR_MPICH.is_dir():
        return
    unfinished = HOME / "mpich.unfinished"
    environment = {**os.environ, "MPICC": "/usr/bin/mpicc.mpich", "CFLAGS": "-O1", "PIP_ROOT_USER_ACTION": "ignore"}
    subprocess.run([*PIP, "install", "--no-deps", "--no-build-isolation", "--no-index", "--upgrade",
                    "--target", str(unfinished), str(SOURCE)], check=True, env=environment)
    unfinished.rename(FOR_MPICH)


def environment(mpi):
    """Variables that make /usr/bin/python3 import the mpi4py built on `mpi`."""
    jobs.need_mpi(mpi)
    if mpi == "openmpi":
        jobs.need("python3-mpi4py", "python3-numpy")
        return {}
    jobs.need("python3-pip", "python3-dev", "python3-setuptools", "python3-numpy")
    _locked(_build_for_mpich)
    return {"PYTHONPATH": str(FOR_MPICH)}


def test_suite():
    """The directory of mpi4py's own tests."""
    _locked(_fetch)
    return SOURCE / "test"
