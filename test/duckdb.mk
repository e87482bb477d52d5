# SPDX-License-Identifier: Apache-2.0
#
# Whether DuckDB reads what `commtap export --format sqlite` writes, and answers the README's questions as SQLite does.
#
#   make check-duckdb
#
# DuckDB and its reader of SQLite files come from PyPI by the hashes in test/duckdb_peer/pins.txt; where they cannot be had
# it is skipped with a line.

.PHONY: check-duckdb
check-duckdb: all $(BUILD)/test/scenes/play
	@$(PYTHON) test/duckdb_peer/main.py
