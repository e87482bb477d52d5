# SPDX-License-Identifier: Apache-2.0
#
# Asks DuckDB the queries that come as a JSON list on stdin, of an SQLite file; answers a JSON list of rows or errors.
import json
import pathlib
import sys

import duckdb
import duckdb_extension_sqlite_scanner

reader = next(pathlib.Path(duckdb_extension_sqlite_scanner.__file__).parent.rglob("sqlite_scanner.duckdb_extension"))
connection = duckdb.connect()
connection.execute(f"LOAD '{reader}'")
connection.execute(f"ATTACH '{sys.argv[1]}' AS job (TYPE sqlite, READ_ONLY)")
connection.execute("USE job")
answers = []
for query in json.load(sys.stdin):
    try:
        answers.append(connection.execute(query).fetchall())
    except duckdb.Error as error:
        answers.append(str(error))
json.dump(answers, sys.stdout, default=float)
