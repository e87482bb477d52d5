#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# Checks the table of calls and shim/nccl/nccl_abi.h against the real nccl.h, where there is one: arity, what sits at
# every argument position, constants, layouts, and that no function of the header is missing without a reason.
# Must not live here: the table's facts; the same for MPI (calls_headers.py).
#
# usage: nccl_headers.py CALLS_DOC [HEADER_DIRECTORY...]
"""Each directory holds one nccl.h. Without directories the usual places are looked at."""

import glob
import os
import re
import subprocess
import sys
import tempfile

PLACES = ["/usr/include", "/usr/local/include", "/usr/local/cuda*/include", "/opt/rocm*/include/rccl"]

# Functions of the header that are no row, with the reason.
NOT_ROWS = [
    (r"ncclGet(Version|ErrorString|LastError)|ncclResetDebugInit(Internal)?", "says something about the library"),
    (r"ncclSetEncryption", "a setting of the process"),
    (r"ncclComm(Count|CuDevice|UserRank|MemStats|QueryProperties)|ncclWinGetUserPtr", "local questions"),
    (r"ncclRedOp(CreatePreMulSum|Destroy)", "local objects"),
    (r"ncclParam\w+", "the library's parameters"),
    (r"ncclTeam\w+|ncclLsa\w+|ncclLLA2A\w+|ncclGin\w+|ncclGet(Lsa|Peer|Multimem|Cft)\w+",
     "local helpers of the device interface"),
    (r"mscclLoadAlgo|mscclRunAlgo|mscclUnloadAlgo", "user-written algorithms of RCCL"),
]

# column: (pattern of the parameter's type, pattern of its name). `const` is removed.
CALL_CACHE_ENTRIES = {
    "comm": (r"ncclComm_t", r".*"), "count": (r"size_t( \*)?|int", r"\w*count\w*|nId|excludeRanksCount"),
    "type": (r"ncclDataType_t", r".*"), "redop": (r"ncclRedOp_t", r".*"), "root": (r"int", r"root"),
    "peer": (r"int", r"peer"), "stream": (r"(cuda|hip)Stream_t", r".*"), "output": (r"ncclComm_t \*", r".*"),
    "n": (r"int", r"n[rR]anks|ndev"), "rank": (r"int", r"(my)?rank|key"),
    "unique_id": (r"ncclUniqueId( \*)?", r".*"), "config": (r"ncclConfig_t \*", r".*"), "color": (r"int", r"color"),
    "devices": (r"int \*", r"devlist"), "index": (r"int \*", r"excludeRanksList"),
    "status": (r"ncclResult_t \*", r".*"),
}

# A parameter of this type must be somebody's column.
REQUIRED = [(r"ncclComm_t", "comm"), (r"(cuda|hip)Stream_t", "stream"), (r"ncclDataType_t", "type"),
            (r"ncclRedOp_t", "redop"), (r"ncclComm_t \*", "output"), (r"ncclConfig_t \*", "config")]

CONSTANTS = r"""
#include <stddef.h>
#include "nccl.h"
#include "shim/nccl/nccl_abi.h"
#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #ours)
SAME(NCCL_SUCCESS, ncclSuccess);
SAME(NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(NCCL_IN_PROGRESS, ncclInProgress);
SAME(sizeof(struct nccl_unique_id), sizeof(ncclUniqueId));
#define FIELD(ours, theirs) SAME(offsetof(struct nccl_config, ours), offsetof(ncclConfig_t, theirs))
FIELD(size, size); FIELD(magic, magic); FIELD(version, version); FIELD(blocking, blocking);
#if NCCL_VERSION_CODE >= 22700
FIELD(comm_name, commName);
SAME(NCCL_DATATYPES, ncclNumTypes);
#endif
SAME(NCCL_REDOPS, ncclNumOps);
int check(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    return config.magic == NCCL_CONFIG_MAGIC && nccl_datatypes[ncclInt8].code == DATATYPE_INT8 && nccl_datatypes[ncclUint8].code == DATATYPE_UINT8 &&
           nccl_datatypes[ncclInt32].code == DATATYPE_INT32 && nccl_datatypes[ncclUint32].code == DATATYPE_UINT32 &&
           nccl_datatypes[ncclInt64].code == DATATYPE_INT64 && nccl_datatypes[ncclUint64].code == DATATYPE_UINT64 &&
           nccl_datatypes[ncclFloat16].code == DATATYPE_HALF && nccl_datatypes[ncclFloat32].code == DATATYPE_FLOAT &&
           nccl_datatypes[ncclFloat64].code == DATATYPE_DOUBLE &&
           nccl_datatypes[ncclBfloat16].code == DATATYPE_BFLOAT16 &&
           nccl_redops[ncclSum] == REDOP_SUM && nccl_redops[ncclProd] == REDOP_PROD &&
           nccl_redops[ncclMax] == REDOP_MAX && nccl_redops[ncclMin] == REDOP_MIN && nccl_redops[ncclAvg] == REDOP_AVG;
}
int main(void) { return !check(); }
"""


def parameters(text):
    """[(type, name)] of a parameter list."""
    found = []
    for part in text.split(","):
        part = re.sub(r"\bconst\b|\bstruct\b", " ", part)
        stars = part.count("*") + part.count("[")
        part = " ".join(re.sub(r"\[[^]]*\]|\*", " ", part).split())
        if part in ("void", ""):
            continue
        kind, _, name = part.rpartition(" ") if " " in part and part != "unsigned int" else (part, "", "")
        found.append((kind + (" " + "*" * stars if stars else ""), name))
    return found


def prototypes(directory):
    """{function: parameters} of nccl.h and the host side of its device interface."""
    found = {}
    for header in ["nccl.h"] + [os.path.join("nccl_device", name) for name in ("core.h", "host.h")]:
        path = os.path.join(directory, header)
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
        text = re.sub(r"//[^\n]*", " ", text)
        for match in re.finditer(r"\bncclResult_t\s+(nccl\w+|msccl\w+)\s*\(([^()]*)\)\s*;", text):
            found.setdefault(match.group(1), parameters(match.group(2)))
    return found


def check_row(row, given, complain):
    if row["arity"] != len(given):
        complain(f"{row['name']}: arity {row['arity']}, the header has {len(given)}")
        return
    for column, (want_kind, want_name) in CALL_CACHE_ENTRIES.items():
        if row[column]:
            kind, name = given[row[column] - 1]
            if not re.fullmatch(want_kind, kind) or (name and not re.fullmatch(want_name, name)):
                complain(f"{row['name']}: .{column} = {row[column]} is `{kind} {name}`")
    for position, (kind, name) in enumerate(given, 1):
        for want, column in REQUIRED:
            if re.fullmatch(want, kind) and row[column] != position:
                complain(f"{row['name']}: `{kind} {name}` at {position} is not .{column}")
        by_value = kind == "ncclUniqueId"
        if by_value and position != 3:
            complain(f"{row['name']}: takes the unique id by value at {position}, its wrapper expects it at 3")


def check_constants(directory, complain):
    """Compiles and runs the comparison; a header that needs another one that is not here is only parsed."""
    compiler = os.environ.get("CC", "cc").split()
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "check")
        with open(program + ".c", "w", encoding="utf-8") as file:
            file.write(CONSTANTS)
        include = ["-I", directory, "-I", "."] + [w for d in glob.glob("/usr/local/cuda*/include") for w in ("-I", d)]
        built = subprocess.run(compiler + ["-std=c11", *include, program + ".c", "-o", program],
                               capture_output=True, text=True, check=False)
        if "fatal error" in built.stderr:
            print(f"{directory}: not compiled: {built.stderr.splitlines()[0]}")
        elif built.returncode:
            complain(built.stderr)
        elif subprocess.run([program], check=False).returncode:
            complain("the configuration's magic, datatypes or reductions differ")


def main():
    calls_doc, directories = sys.argv[1], sys.argv[2:]
    if not directories:
        directories = sorted({os.path.realpath(os.path.dirname(os.path.realpath(path)))
                              for place in PLACES for path in glob.glob(os.path.join(place, "nccl.h"))})
    if not directories:
        print("nccl_headers: no nccl.h here, nothing checked")
        return 0
    lines = subprocess.run([calls_doc, "--columns"], check=True, capture_output=True, text=True).stdout.splitlines()
    titles = lines[0].split("\t")
    rows = [dict(zip(titles, line.split("\t"))) for line in lines[1:] if line.startswith("nccl")]
    for row in rows:
        for title in titles:
            if title not in ("name", "kind", "bytes"):
                row[title] = int(row[title])
    faults = []
    for directory in directories:
        given = prototypes(directory)
        complain = lambda text, where=directory: faults.append(f"{where}: {text}")
        checked = [row for row in rows if row["name"] in given]
        if len(given) < 20:
            complain(f"only {len(given)} functions found")
        for row in checked:
            check_row(row, given[row["name"]], complain)
        for name in sorted(set(given) - {row["name"] for row in rows}):
            if not any(re.fullmatch(pattern, name) for pattern, _ in NOT_ROWS):
                complain(f"{name} is neither a row nor excused")
        check_constants(directory, complain)
        print(f"{directory}: {len(given)} functions, {len(checked)} of {len(rows)} rows checked")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
