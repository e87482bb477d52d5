# SPDX-License-Identifier: Apache-2.0
#
# The README's ten questions to a database that commtap wrote, asked by DuckDB and by SQLite; fails where an answer differs.
# Must not live here: what the tables hold (test/e2e/test_database.py).
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMMTAP, PLAY = ROOT / "build" / "commtap", ROOT / "build" / "test" / "scenes" / "play"
sys.path.insert(0, str(ROOT / "test" / "support"))
import peers  # noqa: E402


def questions():
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("```sql\n")[1].split("```")[0]
    return [part.strip() for part in re.split(r"^-- \d+\. .*$", text, flags=re.M) if part.strip()]


def plain(rows):
    """Without order, which may differ among equals; sums of floating point to ten digits."""
    if isinstance(rows, str):
        return rows
    return sorted(repr([float(f"{cell:.10g}") if isinstance(cell, (int, float)) else cell for cell in row]) for row in rows)


def main():
    packages = peers.install(ROOT / "build" / "test" / "duckdb", HERE / "pins.txt", "DuckDB", "--only-binary", ":all:")
    if not packages:
        return 0
    queries, differ = questions(), 0
    with tempfile.TemporaryDirectory() as folder:
        database, dumps = pathlib.Path(folder) / "job.db", pathlib.Path(folder) / "dumps"
        dumps.mkdir()
        subprocess.run([PLAY, dumps, "stencil", "ranks=8", "steps=20"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([COMMTAP, "export", "--format", "sqlite", "-o", database, dumps], check=True)
        said = subprocess.run([sys.executable, HERE / "ask.py", database], input=json.dumps(queries), check=True, text=True,
                              stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(packages)})
        theirs = json.loads(said.stdout)
        with sqlite3.connect(database) as connection:
            ours = [connection.execute(query).fetchall() for query in queries]
        connection.close()
    for number, (mine, peer) in enumerate(zip(ours, theirs), 1):
        same = plain(mine) == plain(peer)
        differ += not same
        print(f"{number:3}: {len(mine)} rows" + ("" if same else f", DuckDB: {str(peer)[:200]}"))
    return differ > 0 or len(ours) != 10 or not all(ours[n] for n in (0, 1, 8, 9))


sys.exit(main())
