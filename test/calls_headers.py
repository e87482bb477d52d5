#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# Checks the table of calls against the headers of the MPI libraries: arity, what sits at every argument position, and
# that no function of a header is missing without a reason.
# Lives here: how an mpi.h is read, what a column's parameter looks like. Must not live here: the table's facts.
#
# usage: calls_headers.py CALLS_DOC [HEADER_DIRECTORY...]
"""Each directory holds one library's mpi.h. Without directories the ones of Debian's MPICH and Open MPI are taken."""

import glob
import os
import re
import subprocess
import sys

DEBIAN = ["/usr/include/*/mpich", "/usr/lib/*/openmpi/include"]
HEADERS = ["mpi.h", "mpi_proto.h", "mpio.h"]

# Functions of a header that are no row, by whole name, with the reason.
NOT_ROWS = [
    (r"MPI_(Pcontrol|Initialized)", "has a body written by hand"),
    (r"MPI_(Wtime|Wtick|Get_(?!accumulate|c$)\w+|Finalized|Query_thread|Is_thread_main|Address|Aint_\w+|Alloc_mem|Free_mem)", "local"),
    (r"MPI_Error_\w+|MPI_(Add|Remove)_error_\w+|MPI_Errhandler_\w+|MPI_\w+_errhandler(_fn)?", "error handling"),
    (r"MPI_(Attr|Keyval)_\w+|MPI_\w+_(attr|keyval)|MPI_\w+_FN|MPI_CONVERSION_FN_NULL(_C|_c)?", "attributes and callbacks"),
    (r"MPI_Info_\w+|MPI_T_\w+|MPI_Status_\w+|MPI_Op_\w+|MPI_Grequest_\w+|MPI_Register_datarep(_c)?", "local objects"),
    (r"MPI_Group_\w+|MPI_Type_(?!free$)\w+|MPI_(Pack|Unpack)\w*|MPI_Reduce_local(_c)?|MPI_Sizeof", "local"),
    (r"MPI_\w+_(f2c|c2f|f082c|c2f08|f082f|f2f08|toint|fromint)|MPI_Abi_\w+", "handle conversion"),
    (r"MPI_Comm_(rank|size|group|compare|test_inter|remote_\w+|get_(name|info))", "local"),
    (r"MPI_Session_(get_\w+|set_info)", "local"),
    (r"MPI_(Cart|Graph|Dist_graph)_(coords|get|map|rank|shift|neighbors\w*)|MPI_(Cartdim|Graphdims)_get", "local"),
    (r"MPI_(Dims_create|Topo_test|Test_cancelled)", "local"),
    (r"MPI_Win_(get_\w+|set_name|attach|detach|shared_query(_c)?)", "local"),
    (r"MPI_File_get_\w+", "local"),
    (r"MPI_(Open_port|Close_port|(Publish|Unpublish|Lookup)_name)", "talks to a name server, not to ranks"),
    (r"MPI_DUP_FN", "callback"),
]

OUTPUTS = {
    "COMM_": r"MPI_Comm \*", "INTERCOMM_": r"MPI_Comm \*", "TYPE_": r"MPI_Datatype \*", "WIN_": r"MPI_Win \*",
    "FILE_": r"MPI_File \*", "INIT": r"MPI_Session \*", "SESSION_": r"MPI_Session \*",
}

# column: (pattern of the parameter's type, pattern of its name). Types have `const` and blanks before * removed.
CALL_CACHE_ENTRIES = {
    "comm": (r"MPI_Comm", r".*"), "win": (r"MPI_Win", r".*"), "file": (r"MPI_File", r".*"),
    "type": (r"MPI_Datatype( \*)?", r"(?!filetype|etype).*"), "type2": (r"MPI_Datatype( \*)?", r".*"),
    "root": (r"int", r"root"), "peer": (r"int", r"dest|source|target_rank|rank"), "peer2": (r"int", r"source"),
    "tag": (r"int", r"tag|sendtag"), "tag2": (r"int", r"recvtag"), "redop": (r"MPI_Op", r".*"),
    "request": (r"(MPI|MPIO)_Request \*", r".*"), "n": (r"int", r"(in)?count"), "status": (r"MPI_Status \*", r".*"),
    "flag": (r"int \*", r"flag"), "index": (r"int \*", r"indx|index|array_of_indices"),
    "outcount": (r"int \*", r"outcount"), "message": (r"MPI_Message \*", r".*"),
    "group": (r"MPI_Group", r"(?!remote).*"), "group2": (r"MPI_Group", r"remote.*"),
    "text": (r"char \*", r"comm_name|stringtag|tag"), "assertion": (r"int", r"assert"),
}

# A parameter of this type and name must be somebody's column: what is forgotten in a row is found here.
REQUIRED = [
    (r"MPI_Comm", r"(?!peer_comm|bridge_comm).*", ["comm"]), (r"MPI_Win", r".*", ["win"]), (r"MPI_File", r".*", ["file"]),
    (r"(MPI|MPIO)_Request \*", r".*", ["request"]), (r"MPI_Status \*", r".*", ["status"]),
    (r"MPI_Message \*", r".*", ["message"]), (r"MPI_Op", r".*", ["redop"]), (r"MPI_Group", r".*", ["group", "group2"]),
    (r"int", r"root", ["root"]), (r"int", r"dest|source|target_rank|rank", ["peer", "peer2"]),
    (r"int", r"tag|sendtag|recvtag", ["tag", "tag2"]), (r"(MPI_Comm|MPI_Win|MPI_File|MPI_Session) \*", r".*", ["output"]),
    (r"int \*", r"flag", ["flag"]), (r"int \*", r"outcount", ["outcount"]),
]

# Byte formulas that read arrays, and which.
ARRAYS = {
    "SUM": ["count"], "GATHERV": ["count2"], "SCATTERV": ["count"], "ALLTOALLV": ["count", "count2"],
    "ALLTOALLW": ["count", "type", "count2", "type2"], "NEIGHBOR_V": ["count"], "NEIGHBOR_W": ["count", "type"],
}


def parameters(text):
    """[(type, name)] of a parameter list."""
    found = []
    for part in text.split(","):
        part = re.sub(r"\b(const|restrict)\b", " ", part)
        part = " ".join(part.split())
        if part in ("void", ""):
            continue
        arrays = part.count("[")
        part = re.sub(r"\s*\[[^]]*\]", "", part)
        match = re.fullmatch(r"(.*?[\s*])(\w+)", part)
        kind, name = match.groups() if match else (part, "")
        stars = kind.count("*") + arrays
        found.append((kind.replace("*", " ").strip() + (" " + "*" * stars if stars else ""), name))
    return found


def prototypes(directory):
    """{function: parameters} of the headers in a directory."""
    found = {}
    for header in HEADERS:
        path = os.path.join(directory, header)
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
        text = re.sub(r"//[^\n]*", " ", text)
        text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", " ", text, flags=re.M)
        for match in re.finditer(r"\bint\s+(MPI_\w+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)[^;{]*;", text):
            found.setdefault(match.group(1), parameters(match.group(2)))
    return found


def table(calls_doc):
    lines = subprocess.run([calls_doc, "--columns"], check=True, capture_output=True, text=True).stdout.splitlines()
    titles = lines[0].split("\t")
    rows = []
    for line in lines[1:]:
        row = dict(zip(titles, line.split("\t")))
        for title in titles:
            if title not in ("name", "kind", "bytes"):
                row[title] = int(row[title])
        rows.append(row)
    return rows


def in_place_buffer(name):
    """The buffer that MPI_IN_PLACE may stand for, by the standard's rules; None where it may not."""
    if re.fullmatch(r"MPI_I?scatterv?(_init)?(_c)?", name, re.I):
        return "recvbuf"
    if re.search(r"gather|alltoall|reduce|scan", name, re.I) and not re.search(r"neighbor|file", name, re.I):
        return "sendbuf"
    return None


def shape(row, column):
    if column in ("count", "count2"):
        partitioned = row["name"] in ("MPI_Psend_init", "MPI_Precv_init")
        large = row["large"] or (partitioned and column == "count")
        name = r"partitions" if partitioned and column == "count2" else r"\w*count\w*"
        return (r"MPI_Count( \*)?" if large else r"int( \*)?"), name
    if column == "output":
        return next(kind for prefix, kind in OUTPUTS.items() if row["kind"].startswith(prefix)), r".*"
    if column == "request" and row["kind"] == "POLL" and not row["n"]:
        return r"MPI_Request", r".*"
    if column == "inplace":
        return r"void \*", in_place_buffer(row["name"])
    return CALL_CACHE_ENTRIES[column]


def side(name):
    """Whose argument a count or a datatype is, from its name."""
    match = re.match(r"(send|recv|origin|target|result)_?", name)
    return match.group(1) if match else ""


def check_sides(row, given, complain):
    """Counts go with their datatypes, `count` is what is sent where there are two, arrays are where they are read."""
    sides = {column: side(name) for column, (kind, name) in given.items()}
    for one, other in (("count", "type"), ("count2", "type2")):
        if sides.get(one) and sides.get(other) and sides[one] != sides[other]:
            complain(f"{row['name']}: .{one} and .{other} are of different sides")
    if sides.get("count2") and (sides["count"], sides["count2"]) != ("send", "recv"):
        complain(f"{row['name']}: .count and .count2 are not what is sent and what is received")
    arrays = {column for column, (kind, name) in given.items() if kind.endswith("*")}
    if arrays != set(ARRAYS.get(row["bytes"], [])):
        complain(f"{row['name']}: formula {row['bytes']} reads arrays other than {sorted(arrays)}")


def check_row(row, given, complain):
    if row["arity"] != len(given):
        complain(f"{row['name']}: arity {row['arity']}, the header has {len(given)}")
        return
    columns = [c for c in list(CALL_CACHE_ENTRIES) + ["inplace", "count", "count2", "output"] if row[c]]
    for column in columns:
        kind, name = given[row[column] - 1]
        want_kind, want_name = shape(row, column)
        if not re.fullmatch(want_kind, kind) or (name and not re.fullmatch(want_name, name)):
            complain(f"{row['name']}: .{column} = {row[column]} is `{kind} {name}`")
    if in_place_buffer(row["name"]) and not row["inplace"]:
        complain(f"{row['name']}: .inplace is missing")
    check_sides(row, {c: given[row[c] - 1] for c in ("count", "type", "count2", "type2") if row[c]}, complain)
    for position, (kind, name) in enumerate(given, 1):
        for want_kind, want_name, any_of in REQUIRED:
            if re.fullmatch(want_kind, kind) and re.fullmatch(want_name, name):
                if not any(row[column] == position for column in any_of):
                    complain(f"{row['name']}: `{kind} {name}` at {position} is in none of the columns {any_of}")


def main():
    calls_doc, directories = sys.argv[1], sys.argv[2:]
    if not directories:
        directories = [d for pattern in DEBIAN for d in sorted(glob.glob(pattern))]
    if not directories:
        print("calls_headers: no MPI headers here, nothing checked")
        return 77
    rows = [row for row in table(calls_doc) if row["name"].startswith("MPI_")]
    names = {row["name"] for row in rows}
    faults = []
    seen = set()
    for directory in directories:
        given = prototypes(directory)
        if len(given) < 300:
            faults.append(f"{directory}: only {len(given)} functions found")
        checked = [row for row in rows if row["name"] in given]
        seen.update(row["name"] for row in checked)
        for row in checked:
            check_row(row, given[row["name"]], lambda text: faults.append(f"{directory}: {text}"))
        for name in sorted(set(given) - names):
            if not any(re.fullmatch(pattern, name) for pattern, _ in NOT_ROWS):
                faults.append(f"{directory}: {name} is neither a row nor excused")
        print(f"{directory}: {len(given)} functions, {len(checked)} of {len(rows)} rows checked")
    for row in rows:
        if any(re.fullmatch(pattern, row["name"]) for pattern, _ in NOT_ROWS):
            faults.append(f"{row['name']} is a row and excused")
    unseen = sorted(names - seen)
    twins = [name for name in unseen if name.endswith("_c")]
    print(f"in none of these headers: {len(twins)} large count twins, and", " ".join(n for n in unseen if n not in twins))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


sys.exit(main())
