#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Proves that intercepting one more function takes one more row of shim/calls.def and nothing else.
# Lives here: a build of the shim, in a copy, with a row for a function that no MPI has.
# Must not live here: checks of the functions that exist (calls_headers.py).
#
# usage: calls_onerow.sh, from the root of the tree
set -eu

copy=$(mktemp -d "${TMPDIR:-/tmp}/commtap-onerow.XXXXXX")
trap 'rm -rf "$copy"' EXIT INT TERM
mkdir -p "$copy/test"
cp -R Makefile shim "$copy"
for part in analyzer/*/*.mk; do
    mkdir -p "$copy/${part%/*}"
    cp "$part" "$copy/$part"
done
cp test/calls.mk test/calls_doc.c "$copy/test"

cat >>"$copy/shim/calls.def" <<'ROW'
CALL(4090, MPI_Commtap_example, 3, KIND_COLLECTIVE, .comm = 3, .count = 1, .type = 2, .bytes = BYTES_COUNT,
     .flow = FLOW_ALL)
ROW

if ! make -s -C "$copy" build/libcommtap.so build/test/calls_doc >"$copy/log" 2>&1; then
    cat "$copy/log" >&2
    echo "calls_onerow: the library does not build with one more row" >&2
    exit 1
fi
nm -D --defined-only "$copy/build/libcommtap.so" >"$copy/symbols"
"$copy/build/test/calls_doc" >"$copy/CALLS.md"

faults=0
expect() { # file, pattern, what is missing otherwise
    if ! grep -q "$2" "$1"; then
        echo "calls_onerow: one row is not enough: $3" >&2
        faults=1
    fi
}
expect "$copy/symbols" ' MPI_Commtap_example$' 'MPI_Commtap_example is not exported'
expect "$copy/symbols" ' PMPI_Commtap_example$' 'PMPI_Commtap_example is not exported'
expect "$copy/CALLS.md" '^| MPI_Commtap_example | 4090 |.*collective.*count' 'the documentation does not list it'
exit "$faults"
