"""Counting battles on Spark: for data larger than one machine.

The reading rules are those of every other source: a `Plan` made from the header says which fields there are, Spark
groups equal rows, and `settle` judges the groups. Two statements are all that Spark is asked: `COUNTS` and `SQUARES`.
"""

from __future__ import annotations

import os
import shutil
import warnings
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tiltyard.battles.elsewhere import ClusterSums, CountedElsewhere, GroupScores, groups, with_groups
from tiltyard.battles.plan import Plan, Wishes, make_plan
from tiltyard.battles.spark_fields import FAULT, field_value, where_columns
from tiltyard.battles.spark_groups import KeyColumn, SparkGroups, key_columns
from tiltyard.battles.spark_rows import SparkRows, find_rows, first_line
from tiltyard.errors import BattleError, MissingExtra, NoBattles, OptionError, TiltyardError

if TYPE_CHECKING:
    from tiltyard.battles.reading import OnBad
    from tiltyard.battles.table import BattleTable, Mask

MOST_GROUPS = 2_000_000
"""At most this many groups of equal rows leave Spark: beyond, the outcomes are hardly counts any more."""
MOST_PARAMETERS = 2_000
"""At most this many models have intervals by prompt: the square of their number leaves Spark."""
ROWS_IN_A_STATEMENT = 20_000
"""So many rows of scores travel in one statement."""
SMALL_TABLE = 500_000
"""Up to this many rows a table is sent to every worker whole."""

COUNTS = """
SELECT {keys}, count(*) AS rows, sum(weight) AS total
FROM {{battles}} GROUP BY {keys}
"""
SQUARES = """
WITH pulls AS (
  SELECT {hint} battles.cluster, scores.parameter, sum(battles.weight * scores.score) AS pull
  FROM {{battles}} AS battles JOIN {{scores}} AS scores ON {same_group}
  WHERE battles.cluster IS NOT NULL
  GROUP BY battles.cluster, scores.parameter
)
SELECT one.parameter AS i, other.parameter AS j, sum(one.pull * other.pull) AS square, count(*) AS clusters
FROM pulls AS one JOIN pulls AS other ON one.cluster = other.cluster AND one.parameter <= other.parameter
GROUP BY one.parameter, other.parameter
"""
EVERY = -1
"""A parameter that every battle has and none moves: it counts the clusters."""


def is_spark_frame(data: object) -> bool:
    """True for a DataFrame of Spark."""
    return any(kind.__module__.startswith("pyspark.") for kind in type(data).__mro__)


def open_on_spark(data: Any) -> SparkRows:
    """The rows of paths that Spark reads, or of a Spark DataFrame, with their header; nothing is counted yet."""
    if is_spark_frame(data):
        return find_rows(data.sparkSession, data)
    items = [data] if isinstance(data, str | Path) else data
    paths = [str(path) for path in items] if isinstance(items, list | tuple) else []
    if not paths or not all(isinstance(path, str | Path) for path in items):
        raise BattleError(
            f"the spark engine reads paths or a Spark DataFrame, not a {type(data).__name__}. Use the duckdb engine."
        )
    return find_rows(_session(), paths)


def count_on_spark(rows: SparkRows, wishes: Wishes, *, on_bad: OnBad) -> CountedElsewhere:
    """The battles as counts. `wishes.hashed` names the column that battles are clustered by, if any."""
    plan = make_plan(rows.header, wishes, rows.name)
    keys = key_columns(plan)
    battles = _staged(rows, plan, keys)
    sql = COUNTS.format(keys=", ".join(key.name for key in keys))
    found = _collect(rows, plan, lambda: rows.session.sql(sql, battles=battles).limit(MOST_GROUPS + 1))
    if len(found) > MOST_GROUPS:
        raise OptionError(
            f"{rows.name} holds more than {MOST_GROUPS:,} different outcomes of pairs: too many soft scores or models "
            "to count. Use the duckdb engine, or leave some out with --where."
        )
    grouped = SparkGroups.of(found, plan, keys)
    settled = grouped.settled()
    skipped = grouped.skipped(settled)
    if skipped and on_bad == "error":
        raise grouped.first_problem(settled, rows.name)
    if not len(settled.table):
        why = ", ".join(f"{count} × {reason}" for reason, count in skipped.items()) or "no row is left"
        raise NoBattles(f"{rows.name}: no row is a battle ({why}). Check --from and --where.")
    table = with_groups(settled.table, np.flatnonzero(settled.reasons == 0), skipped)
    clusters = _Clusters(next(iter(wishes.hashed)), rows, plan, battles, grouped) if wishes.hashed else None
    return CountedElsewhere(table, clusters)


def _session() -> Any:
    """The session that is there, or a new one: of the master that Spark's own settings name, else of this machine."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the version of pandas, which is not used here
            sql = import_module("pyspark.sql")
    except ImportError:
        raise MissingExtra("the spark engine", "spark") from None
    session = sql.SparkSession.getActiveSession()
    if session is not None:
        return session
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None and "SPARK_REMOTE" not in os.environ:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on PATH"
        raise TiltyardError(f"the spark engine needs Java 17 or later: {where}. Install a JDK, or set JAVA_HOME.")
    quiet = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    builder = sql.SparkSession.builder.appName("tiltyard")
    for option, value in quiet.items():
        builder = builder.config(option, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return builder.getOrCreate()
    except Exception as error:  # a JVM that does not start, a master that does not answer: all are Spark's own words
        raise TiltyardError(f"Spark does not start: {first_line(error)}. Check Java and Spark's settings.") from None


def _staged(rows: SparkRows, plan: Plan, keys: list[KeyColumn]) -> Any:
    """One column per key, the weight, and the cluster of every row that `where` keeps."""
    frame = rows.frame
    if plan.where is not None:
        if plan.header.cells != "typed":
            frame = frame.selectExpr(*where_columns(plan.header))
        try:
            frame = frame.where(f"{FAULT} <> 0 OR ({plan.where}\n)")
        except Exception as error:
            raise _where_error(plan, error) from None
    weight = plan.field("weight")
    value = "double(1)" if weight is None else field_value(weight, plan)
    cluster = next((field_value(field, plan) for field in plan.fields if field.hashed), "cast(NULL AS string)")
    frame = frame.selectExpr(
        FAULT,
        f"{value} AS given",
        f"{cluster} AS cluster",
        *(f"{field_value(key.field, plan)} AS {key.name}" for key in keys if key.field is not None),
    )
    return frame.selectExpr(
        *(f"{key.sql or key.name} AS {key.name}" for key in keys),
        "CASE WHEN isnan(given) THEN 1 ELSE given END AS weight",
        "cluster",
    )


def _where_error(plan: Plan, error: Exception) -> OptionError:
    names = ", ".join(plan.header.top_names)
    return OptionError(f"--where {plan.where!r} cannot be used: {first_line(error)}. The columns are {names}.")


def _collect(rows: SparkRows, plan: Plan, query: Any) -> list[Any]:
    try:
        return list(query().collect())
    except Exception as error:
        if plan.where is not None and "CAST" in str(error):
            raise _where_error(plan, error) from None
        raise BattleError(f"Spark cannot read {rows.name}: {first_line(error)}.") from None


@dataclass(frozen=True, slots=True, eq=False)
class _Clusters:
    """The clusters of battles that Spark holds."""

    column: str
    source: SparkRows
    plan: Plan
    battles: Any
    grouped: SparkGroups

    def shared(self, table: BattleTable) -> Mask:
        """Which rows of the counted table hold battles that have a cluster."""
        shared: Mask = self.grouped.has_cluster[groups(table)]
        return shared

    def sums(self, scores: GroupScores) -> ClusterSums:
        """The sums over clusters, by the second statement."""
        n = scores.n_parameters
        if n > MOST_PARAMETERS:
            raise OptionError(
                f"intervals by {self.column} of {n:,} models are too large to leave Spark: at most {MOST_PARAMETERS:,} "
                "may. Use --cluster none, --ci none, or --min-battles."
            )
        table = self._score_table(scores)
        same_group = " AND ".join(f"battles.{key.name} <=> scores.{key.name}" for key in self.grouped.keys)
        hint = "/*+ BROADCAST(scores) */" if len(scores.group) <= SMALL_TABLE else ""
        sql = SQUARES.format(same_group=same_group, hint=hint)
        found = _collect(
            self.source, self.plan, lambda: self.source.session.sql(sql, battles=self.battles, scores=table)
        )
        squares, clusters = np.zeros((n + 1, n + 1)), np.zeros(n + 1)
        for i, j, square, count in found:
            squares[i, j] = squares[j, i] = square
            if i == j:
                clusters[i] = count
        return ClusterSums(squares[:n, :n], float(clusters[EVERY]), clusters[:n])

    def _score_table(self, scores: GroupScores) -> Any:
        """The scores as a small table at Spark, with the keys of their groups.

        They travel as JSON inside the statement, because a table made of Python objects would need Python at every
        worker.
        """
        keys, key_values = self.grouped.keys, self.grouped.key_values()
        triples = list(zip(scores.group.tolist(), scores.parameter.tolist(), scores.score.tolist(), strict=True))
        triples += [(group, EVERY, 0.0) for group in np.unique(scores.group).tolist()]
        names = [*(key.name for key in keys), "parameter", "score"]
        types = ", ".join(f"{key.name}: {key.sql_type}" for key in keys) + ", parameter: int, score: double"
        tables = []
        for start in range(0, len(triples), ROWS_IN_A_STATEMENT):
            part = triples[start : start + ROWS_IN_A_STATEMENT]
            rows = [
                dict(zip(names, (*key_values[group], parameter, score), strict=True))
                for group, parameter, score in part
            ]
            sql = f"SELECT inline(from_json(:rows, 'array<struct<{types}>>'))"
            tables.append(self.source.session.sql(sql, args={"rows": msgspec.json.encode(rows).decode()}))
        return reduce(lambda one, other: one.unionAll(other), tables)
