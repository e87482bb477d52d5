#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether stages are pure: what they were compiled to neither holds state nor calls what prints or asks the system.

    stages.py [--may-print] OBJECT...     exit 1 with a line for each offence, else one line

Works on objects, so that no macro, header or inline function hides a call. Constant tables are no state.
"""
import argparse
import re
import subprocess
import sys

STATE = {".data", ".bss", ".tdata", ".tbss"}  # tables with addresses in them are in .data.rel.ro
ASKS = set("""open open64 openat openat64 fopen fopen64 freopen fdopen opendir fdopendir popen system mkdir mkdirat unlink unlinkat
    rename renameat stat stat64 fstatat fstatat64 lstat lstat64 access readlink mmap mmap64 socket connect fork execve execvp
    posix_spawn kill getenv secure_getenv clock_gettime gettimeofday time nanosleep sysconf gethostname""".split())
PRINTS = set("""printf vprintf puts putchar fprintf vfprintf dprintf vdprintf fputs fputc putc fwrite perror write stdout stderr
    __printf_chk __fprintf_chk __vfprintf_chk __vprintf_chk __dprintf_chk""".split())


def output_of(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def offences_of(file, forbidden):
    sections = dict(re.findall(r"^(\.[\w.]+)\s+(\d+)", output_of("size", "-A", "-d", file), re.MULTILINE))
    for name in sorted(STATE & set(sections)):
        if int(sections[name]) > 0:
            yield f"{file} holds {sections[name]} bytes of state ({name})"
    undefined = {line.split()[-1] for line in output_of("nm", "--undefined-only", file).splitlines() if line.strip()}
    yield from (f"{file} calls {name}" for name in sorted(undefined & forbidden))


def main(files, may_print):
    problems = [offence for file in files for offence in offences_of(file, ASKS if may_print else ASKS | PRINTS)]
    print("\n".join(problems) or f"{len(files)} objects hold no state, open nothing" + ("" if may_print else ", print nothing"))
    return 1 if problems else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--may-print", action="store_true")
    parser.add_argument("objects", nargs="+")
    given = parser.parse_args()
    sys.exit(main(given.objects, given.may_print))
