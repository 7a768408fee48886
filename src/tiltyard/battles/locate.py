"""Naming the bad rows of a typed source (Parquet, a frame), whose rows have numbers but no lines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tiltyard.battles.fast import load
from tiltyard.battles.problems import Findings, Problem, explain
from tiltyard.battles.query import Rows, filtered, identifier
from tiltyard.battles.settle import Reason, settle

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from tiltyard.battles.careful import OnProblem
    from tiltyard.battles.plan import Plan
    from tiltyard.battles.table import BattleTable

ROW = "number of the row"


def locate(
    connection: DuckDBPyConnection,
    rows: Rows,
    plan: Plan,
    name: str,
    on_problem: OnProblem | None,
    findings: Findings,
) -> BattleTable:
    """The battles of the good rows; of the bad ones, the counts and the first few by number and value."""
    plan = plan.without_merging()
    numbered = replace(rows, sql=f"(SELECT *, row_number() OVER () AS {identifier(ROW)} FROM {rows.sql})")
    settled = settle(load(connection, numbered, plan), plan)
    for reason, count in settled.counts().items():
        findings.count(reason, count)
    bad = np.flatnonzero(settled.reasons)
    if len(bad):
        query = f"SELECT {identifier(ROW)} AS n FROM {filtered(numbered, plan)}"
        numbers = np.asarray(connection.execute(query).fetchnumpy()["n"]).tolist()
        chosen = bad[:1] if on_problem is not None else _first_few(settled.reasons, findings)
        for at in chosen:
            reason = Reason(int(settled.reasons[at]))
            detail = explain(reason, _row(connection, numbered, plan, numbers[at]), plan)
            problem = Problem(reason, f"{name}: row {numbers[at]}", detail)
            findings.add(problem)
            if on_problem is not None:
                on_problem(problem)
    return replace(settled.table, skipped=findings.skipped)


def _first_few(reasons: np.ndarray[Any, np.dtype[np.int8]], findings: Findings) -> list[int]:
    chosen: list[int] = []
    for reason in Reason:
        if reason is not Reason.FINE:
            room = findings.examples_each - len(findings.examples.get(reason, ()))
            chosen += np.flatnonzero(reasons == reason)[: max(room, 0)].tolist()
    return sorted(chosen)


def _row(connection: DuckDBPyConnection, rows: Rows, plan: Plan, number: int) -> dict[str, Any]:
    """One row by its number, as Python values under the source's own column names."""
    names = list(dict.fromkeys(field.raw.top for field in plan.fields))
    values = ", ".join(f"to_json({identifier(name)})" for name in names)
    found = connection.execute(f"SELECT {values} FROM {rows.sql} WHERE {identifier(ROW)} = {number}").fetchone()
    return {name: _value(value) for name, value in zip(names, found or (), strict=False)}


def _value(text: str | None) -> object:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return float("nan")
