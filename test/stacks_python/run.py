# SPDX-License-Identifier: Apache-2.0
#
# Runs compare.py in every CPython that can be found, and holds the table of its structures against its headers where
# they are installed, and embeds it where it comes as a shared library. Says which versions were covered; fails when
# one failed, or none was found.   usage: run.py BUILD_FOLDER CC CFLAGS...
# Interpreters: $COMMTAP_TEST_PYTHONS (separated by colons), python3 and python3.N on PATH, those below `pyenv root`.
import glob
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = [
    "shim/stacks/python_layout.c",
    "shim/base/elf_symbol.c",
    "shim/base/linker.c",
    "shim/base/pending_error.c",
    "shim/base/fork_page.c",
    "shim/base/os.c",
]
FACTS = ("import sys, sysconfig, platform; print(sys.executable, platform.python_implementation(),"
         "'%d.%d' % sys.version_info[:2], sysconfig.get_paths()['include'], sys.base_prefix,"
         "'%s/%s' % tuple(map(sysconfig.get_config_var, ('LIBDIR', 'INSTSONAME'))), sep='\\n')")
KNOWN = ["3.%d" % minor for minor in range(8, 15)]


def candidates():
    yield from filter(None, os.environ.get("COMMTAP_TEST_PYTHONS", "").split(":"))
    for name in ["python3"] + ["python%s" % v for v in KNOWN]:
        for folder in os.environ.get("PATH", "").split(":"):
            if os.access(os.path.join(folder, name), os.X_OK):
                yield os.path.join(folder, name)
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], stdout=subprocess.PIPE, universal_newlines=True).stdout.strip()
        yield from sorted(glob.glob(os.path.join(root, "versions", "3.*", "bin", "python3")))


def interpreters():
    """(executable, version, include folder, prefix, library) of each CPython of a known version, once."""
    seen = set()
    for path in candidates():
        answer = subprocess.run([path, "-c", FACTS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                universal_newlines=True)
        lines = answer.stdout.splitlines()
        if answer.returncode != 0 or len(lines) != 6 or lines[1] != "CPython" or lines[2] not in KNOWN:
            continue
        real = os.path.realpath(lines[0])
        if real not in seen:
            seen.add(real)
            yield (lines[0], *lines[2:])


def check_headers(version, include, build, compiler):
    """None where no headers are installed, else whether they agree."""
    if not os.path.exists(os.path.join(include, "Python.h")):
        return None
    program = os.path.join(build, "headers-" + version)
    subprocess.run(compiler + ["-I.", "-I" + include, "-I" + os.path.join(include, "internal"), "-w",
                               os.path.join(HERE, "headers.c")] + SOURCES + ["-o", program], check=True)
    return subprocess.run([program]).returncode == 0


def check_embedded(library, prefix, build):
    """None where there is no shared library to embed."""
    if ".so" not in library or not os.path.exists(library):
        return None
    return subprocess.run([os.path.join(build, "embed"), library], timeout=60,
                          env={**os.environ, "PYTHONHOME": prefix}).returncode == 0


def main():
    build, compiler = sys.argv[1], sys.argv[2:]
    covered, failed, embedded = [], [], []
    for executable, version, include, prefix, library in interpreters():
        compared = subprocess.run([executable, "-X", "utf8", os.path.join(HERE, "compare.py"),
                                   os.path.join(build, "harness.so")], timeout=300).returncode == 0
        results = [compared, check_headers(version, include, build, compiler), check_embedded(library, prefix, build)]
        covered.append(version)
        if results[2]:
            embedded.append(version)
        if False in results:
            failed.append("%s (%s)" % (version, executable))
    missing = [v for v in KNOWN if v not in covered]
    print("covered: %s%s; embedded: %s" % (", ".join(sorted(covered, key=KNOWN.index)) or "none",
                                           "; not found: " + ", ".join(missing) if missing else "",
                                           ", ".join(sorted(embedded, key=KNOWN.index)) or "none"))
    if failed or not covered:
        sys.exit("failed: " + ", ".join(failed) if failed else "no CPython was found")


main()
