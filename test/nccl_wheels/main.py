# SPDX-License-Identifier: Apache-2.0
#
# Whether calls.def knows every function that any libnccl of the package index exports. The exports of wheels that were
# read once are in exports.txt; wheels that came later are fetched by pip, one after the other, and what is new in them
# is listed. Must not live here: the table's facts; what headers say of functions (nccl_headers.py).
#
# usage: main.py CALLS_DOC [--fetch]    fails where a function is neither a row nor excused in nccl_headers.py
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
EXPORTS = HERE / "exports.txt"
PACKAGES = ("nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "1")
# What no wheel of NVIDIA's exports: RCCL's, and what its library has had from time to time.
ELSEWHERE = {"ncclAllToAll", "ncclAllToAllv", "ncclAllReduceWithBias", "ncclCommInitRankMulti"}

sys.path.insert(0, str(HERE.parent))
from nccl_headers import NOT_ROWS  # noqa: E402


def known():
    """{package: versions} and {function: (first version that exports it, last one)} as exports.txt has them."""
    versions, functions = {}, {}
    for line in EXPORTS.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if line.startswith("nvidia-"):
            versions[words[0]] = words[1:]
        elif words and words[0] != "#":
            functions[words[0]] = tuple(words[1:])
    return versions, functions


def rows(calls_doc):
    table = subprocess.run([calls_doc, "--columns"], check=True, capture_output=True, text=True).stdout
    return {line.split("\t")[0] for line in table.splitlines()[1:] if line.startswith("nccl")}


def undecided(functions, table):
    return sorted(name for name in functions
                  if name not in table and not any(re.fullmatch(pattern, name) for pattern, _ in NOT_ROWS))


def pip(*words, **options):
    return subprocess.run([*PIP, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, **options)


def offered(package):
    """Versions that the index offers; None where it cannot be asked."""
    said = pip("index", "versions", package, timeout=120)
    line = re.search(r"^Available versions: (.*)$", said.stdout, re.MULTILINE)
    return line.group(1).split(", ") if line else None


def exported_by(package, version):
    """Functions that a wheel's library exports; None where it cannot be had."""
    with tempfile.TemporaryDirectory(prefix="commtap-nccl-") as folder:
        said = pip("download", "--no-deps", "--only-binary", ":all:", "--platform", "manylinux2014_x86_64", "--platform",
                   "manylinux_2_17_x86_64", "--platform", "manylinux_2_18_x86_64", "--platform", "manylinux_2_27_x86_64",
                   "--platform", "manylinux1_x86_64", "--dest", folder, f"{package}=={version}", timeout=900)
        wheels = list(pathlib.Path(folder).glob("*.whl"))
        if said.returncode or not wheels:
            print(f"{package} {version} cannot be had:", (said.stderr.strip() or "?").splitlines()[-1])
            return None
        with zipfile.ZipFile(wheels[0]) as wheel:
            library = wheel.extract(next(name for name in wheel.namelist() if name.endswith("/libnccl.so.2")), folder)
        listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
        return set(re.findall(r"^\w+ [TW] (nccl[A-Z]\w*)$", listed.stdout, re.MULTILINE))


def fetch_news(versions, functions):
    """What wheels export that exports.txt does not have, by version; None where the index cannot be asked."""
    news = {}
    for package in PACKAGES:
        there = offered(package)
        if there is None:
            return None
        for version in reversed([v for v in there if v not in versions.get(package, [])]):
            exported = exported_by(package, version)
            if exported is not None:
                news[f"{package} {version}"] = sorted(exported - functions.keys())
    return news


def main():
    versions, functions = known()
    table = rows(sys.argv[1])
    faults = [f"{name} (NCCL {functions[name][0]}) is neither a row nor excused" for name in undecided(functions, table)]
    faults += [f"{name} is exported by no wheel" for name in sorted(table - functions.keys() - ELSEWHERE)]
    print(f"nccl_wheels: {len(functions)} functions of {sum(map(len, versions.values()))} wheels, {len(table)} rows")
    news = fetch_news(versions, functions) if "--fetch" in sys.argv[2:] else {}
    if news is None:
        print("check-nccl-wheels is skipped, the package index cannot be asked")
    for wheel, names in (news or {}).items():
        print(f"{wheel}: {' '.join(names) or 'nothing new'}")
        faults += [f"{name} ({wheel}) is neither a row nor excused" for name in undecided(names, table)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


sys.exit(main())
