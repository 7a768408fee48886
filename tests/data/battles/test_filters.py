"""A `where` expression is one condition over the columns: nothing else gets into a statement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.data.battles.battle_rows import rows, write_raw

from tiltyard.data.battles import read_battles
from tiltyard.data.battles.fast import refusal, spark_refusal
from tiltyard.errors import OptionError

FINE = [
    "category = 'law'",
    "category = 'select; -- (from x)'",
    "len_a between 5 and 10 -- short ones",
    "\"odd ; name\" in ('x', 'y') and not (tstamp is null)",
    "list_contains(['a', 'b'], winner) and lower(model_a) like 'gpt%'",
    "list_filter([1, 2], lambda x: x > 1) = [2]",
    "meta->>'$.topic' = 'law' and (case when len_a > 1 then true else false end)",
    "epoch(now()) - tstamp < 7 * 86400 and split_part(model_a, '/', 1) = 'acme'",
    "CAST(tstamp AS DATE) > DATE '2026-01-01' and regexp_matches(model_a, '^a')",
    "cast(tstamp as date) < current_date and to_timestamp(tstamp) < current_timestamp and today() > date '2020-01-01'",
    "pi() > 3 and length([]) = 0 and hash(model_a) % 2 = 0 and count_if > 1",
]
REFUSED = [
    "true; COPY (SELECT 1) TO '{target}'",
    "1); COPY (SELECT 1) TO '{target}' --",
    "1); COPY (SELECT 1) TO '{target}'; SELECT (1",
    "len_a > 1) OR (true",
    "len_a in (SELECT 1)",
    "exists(FROM read_text('/etc/hostname'))",
    "(SELECT count(*) FROM read_csv('/etc/passwd', columns = {{'a': 'VARCHAR'}})) > 0",
    "(FROM '/etc/passwd') is not null",
    "(WITH x AS (SELECT 1) FROM x) = 1",
    "(TABLE battles) = 1",
    "(/* a comment */ VALUES (1)) = 1",
    "list_apply([1], lambda x: (SELECT 1)) = [1]",
    "[(SELECT 1) for x in [1]] = [1]",
    "case when (SELECT true) then true end",
    "len_a = any(SELECT 1)",
    "read_text('/etc/hostname') is not null",
    "'/etc/hostname'.read_blob() is not null",
    "glob('/*') is not null",
    "\"current_setting\"('temp_directory') = 'x'",
    "system.main.current_setting('temp_directory') = 'x'",
    "write_log('x') is null",
    "version() = 'x'",
    "current_user = 'x'",
    "User = 'x'",
    "current_user() = 'x'",
    "current_schema = 'x'",
    "current_database() = 'x'",
    "main.current_schemas(true) = []",
    "txid_current() > 0",
    "pg_postmaster_start_time() is null",
    "json_serialize_plan('select 1') is null",
    "in_search_path('a', 'b')",
    "inet_server_addr() is null",
    "pg_sleep(0) is null",
    "pg_get_viewdef(1) is null",
    "get_block_size('memory') > 0",
    "format_type(1, 2) is null",
    "random() < 0.5",
    "COLUMNS(*) is not null",
    "true UNION SELECT 1",
    "true ORDER BY 1",
    "true GROUP BY 1",
    "true USING SAMPLE 1",
    "true\0); COPY (SELECT 1) TO '{target}'",
    "\u3000(select\u00a01) = 1",
    "$1 = 1",
    "PRAGMA version",
    "ATTACH '{target}' AS x",
    "/*",
]


@pytest.mark.parametrize("where", FINE)
def test_a_condition_over_columns_is_taken(where: str) -> None:
    assert refusal(where, duckdb.connect()) is None


def test_a_column_that_is_called_user_can_be_asked_for() -> None:
    named = [row | {"user": f"v{at % 2}"} for at, row in enumerate(rows())]
    assert len(read_battles(named, where="user = 'v1'")) == len(named) // 2


def test_anything_but_one_condition_is_refused_in_one_line_and_has_no_effect(tmp_path: Path) -> None:
    target = tmp_path / "written"
    sources: list[Any] = [write_raw(tmp_path / f"battles.{kind}", rows()) for kind in ("jsonl", "csv", "parquet")]
    for at, where in enumerate(REFUSED):
        source = [*sources, rows()][at % 4]
        with pytest.raises(OptionError, match="cannot be used") as caught:
            read_battles(source, where=where.format(target=target))
        assert "\n" not in str(caught.value), where
        assert not target.exists(), where


def test_spark_is_given_no_subquery_and_no_call_of_java() -> None:
    refused = (
        "x in (select 1)",
        "x = ( --\r select max(y) from csv.`/etc/passwd`)",
        "x = (\n-- a\n\t-- b\nselect 1)",
        "exists(FROM t SELECT 1)",
        "x = (/**/select 1)",
        "'\\'' = (select 1) or '' = ''",
        "x = (TABLE t)",
        "reflect('java.lang.System', 'getenv', 'HOME') = 'x'",
        "`java_method`('java.lang.System', 'exit', 1) = 1",
        "identifier('ref' || 'lect')('java.lang.System', 'exit', 1) = 1",
    )
    assert [where for where in refused if spark_refusal(where) is None] == []
    fine = ("language = 'select'", "(len_a < 5 or (map(1, 2)[1] = 2)) -- short", "(tables > 1) and (fromage = 'brie')")
    assert [where for where in fine if spark_refusal(where) is not None] == []
