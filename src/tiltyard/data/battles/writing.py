"""Writing battles: to a file, to a dataframe, and to a folder that the Hugging Face hub takes as a data set."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import numpy as np

from tiltyard.data.battles.battle import FLAGS, REQUIRED_FIELDS, Battle
from tiltyard.data.battles.fast import literal, session
from tiltyard.data.battles.frames import Array, Unfolded, columns_to_frame, frame_columns
from tiltyard.data.battles.inputs import KNOWN_SUFFIXES, FileKind, PathLike, delimiter, suffix_kind
from tiltyard.data.battles.reading import read_battles
from tiltyard.data.battles.stats import BattleStats, battle_stats
from tiltyard.data.battles.table import BattleTable, Codes
from tiltyard.data.schemas import schema_file, schema_text
from tiltyard.errors import BattleError
from tiltyard.files import escape_line_ends, whole_file, write_text

CHUNK_ROWS = 50_000

Battles = BattleTable | Iterable[Battle | Mapping[str, Any]]
"""A `BattleTable`, or an iterable of `Battle` or of dicts."""


def write_battles(path: PathLike, battles: Battles) -> int:
    """Write battles as rows of our own format and say how many rows were written.

    The file's name says how: `.jsonl`, `.csv` or `.tsv` (each also `.gz`), or `.parquet`. The file appears when it is
    complete, under its own name; until then any older file stays as it was.

    Parameters:
        path: Where to; the name says how (`.jsonl`, `.csv`, `.tsv`, each also `.gz`, or `.parquet`).
        battles: A table, or an iterable of `Battle` or of dicts.
    """
    kind, zipped = kind_to_write(path)
    table = as_table(battles)
    try:
        with whole_file(Path(path)) as unfinished:
            if kind is FileKind.PARQUET:
                _write_parquet(unfinished, table)
            else:
                with unfinished.open("wb") as file:
                    if not zipped:
                        write_lines(file, table, kind)
                    else:
                        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
                            write_lines(cast("BinaryIO", packed), table, kind)
    except OSError as error:
        raise BattleError(f"cannot write {path}: {error.strerror or error}. Check the folder and its rights.") from None
    return len(table)


def kind_to_write(path: PathLike) -> tuple[FileKind, bool]:
    """How a file of this name is written, and whether it is gzipped; other names are refused."""
    kind, zipped = suffix_kind(path)
    if kind is None or Path(path).name.lower().removesuffix(".gz").endswith(".json"):
        raise BattleError(f"cannot tell how to write {path}. End its name in {KNOWN_SUFFIXES.replace('.json, ', '')}.")
    if kind is FileKind.PARQUET and zipped:
        raise BattleError(f"{path}: a Parquet file is packed already. Drop the .gz.")
    return kind, zipped


def as_table(battles: Battles) -> BattleTable:
    """The battles as a table; an empty one for no battles."""
    if isinstance(battles, BattleTable):
        return battles
    rows = list(battles)
    if rows:
        return read_battles(rows)
    no_codes, no_bytes = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int8)
    return BattleTable((), no_codes, no_codes, no_bytes, no_bytes, np.zeros(0))


def write_lines(stream: BinaryIO, table: BattleTable, kind: FileKind = FileKind.JSONL) -> None:
    """Write a table to a stream as JSON Lines, CSV or TSV."""
    if kind is FileKind.JSONL:
        encoder = msgspec.json.Encoder()
        for rows in _row_chunks(table):
            stream.write(escape_line_ends(encoder.encode_lines(rows)))
        return
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    unfolded = Unfolded(table)
    # The csv module leaves a lone carriage return unquoted, though readers take it for the end of a line.
    odd = any("\r" in text for texts in unfolded.texts.values() for text in texts if text)
    writer = csv.DictWriter(
        text,
        list(unfolded.columns(slice(0, 0))),
        delimiter=delimiter(kind),
        lineterminator="\n",
        quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL,
    )
    writer.writeheader()
    for rows in _row_chunks(table):
        writer.writerows(rows)
    text.detach()


def _row_chunks(table: BattleTable) -> Iterator[list[dict[str, Any]]]:
    """The rows as dicts that hold only what is not missing, a stretch at a time."""
    unfolded = Unfolded(table)
    for start in range(0, len(table), CHUNK_ROWS):
        columns = unfolded.columns(slice(start, start + CHUNK_ROWS))
        values = [_plain_values(column) for column in columns.values()]
        yield [
            {name: value for name, value in zip(columns, row, strict=True) if value is not None}
            for row in zip(*values, strict=True)
        ]


def _plain_values(column: Array) -> list[Any]:
    """Python values: None for missing, whole numbers without a decimal point, false flags left out."""
    if column.dtype == bool:
        return [True if value else None for value in column.tolist()]
    values: list[Any] = column.tolist()
    if column.dtype != np.float64:
        return values
    return [None if value != value else int(value) if value.is_integer() else value for value in values]


def column_types(table: BattleTable) -> dict[str, str]:
    """The columns of a battle row that a table has, each with its type in Parquet: VARCHAR, DOUBLE or BOOLEAN."""
    columns = dict.fromkeys(REQUIRED_FIELDS, "VARCHAR")
    for name in list(Unfolded(table).columns(slice(0, 0)))[4:]:
        is_text = isinstance(table.columns.get(name), Codes)
        columns[name] = "VARCHAR" if is_text else "BOOLEAN" if name in FLAGS else "DOUBLE"
    return columns


def _write_parquet(path: Path, table: BattleTable) -> None:
    """By way of JSON Lines, which DuckDB turns into Parquet in one stream."""
    columns = column_types(table)
    declared = ", ".join(f"{literal(name)}: '{sql_type}'" for name, sql_type in columns.items())
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as folder, session() as connection:
        lines = Path(folder) / "battles.jsonl"
        with lines.open("wb") as stream:
            write_lines(stream, table)
        source = f"read_json({literal(str(lines))}, format = 'newline_delimited', columns = {{{declared}}})"
        connection.execute(f"COPY (SELECT * FROM {source}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd)")


def same_parquet(one: Path, other: Path) -> bool:
    """Whether two Parquet files hold the same: the bytes, or written by two versions of DuckDB the columns and rows."""
    import duckdb

    if one.read_bytes() == other.read_bytes():
        return True
    first, second = literal(str(one)), literal(str(other))
    with session() as connection:

        def differ(query: str) -> bool:
            answers = [connection.execute(query.format(file)).fetchall() for file in (first, second)]
            return bool(answers[0] != answers[1])

        try:
            same_writer = not differ("SELECT created_by FROM parquet_file_metadata({})")
            if same_writer or differ("SELECT name, type, converted_type, num_children FROM parquet_schema({})"):
                return False
            joined = f"(SELECT a, b FROM {first} AS a POSITIONAL JOIN {second} AS b) WHERE a IS DISTINCT FROM b"
            return not differ("SELECT count(*) FROM {}") and not connection.execute(f"FROM {joined}").fetchone()
        except duckdb.Error:
            return False


def battles_to_frame(battles: Battles) -> Any:
    """The battles with the columns of a battle row, as a frame of whatever library is installed.

    That is a pandas frame, else a polars frame, else an Arrow table, else a list of dictionaries. `rate` and
    `read_battles` take each of them.

    Parameters:
        battles: Battles: a table, or whatever `read_battles` takes.
    """
    return columns_to_frame(frame_columns(read_battles(battles)))


DATA_FILE = "data/train-00000-of-00001.parquet"
CARD = "README.md"
MARK = "<!-- written by tiltyard: writing the folder again replaces this card -->"
DECIDER_TAGS = {"human": "human-preference", "llm-judge": "llm-as-a-judge"}
DTYPES = {"VARCHAR": "string", "BOOLEAN": "bool", "DOUBLE": "float64"}
SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "1B<n<10B", "n>1T")
"""The hub's size categories: the first ends before a thousand rows, each further one before ten times as many."""


def write_dataset(folder: str | Path, table: BattleTable, *, title: str, licence: str | None = None) -> int:
    """Write battles as a data set and say how many rows it has: `datasets.load_dataset(folder)` reads it.

    A card that was edited by hand is not replaced. `licence` is its name on the hub, such as `cc-by-4.0`.
    """
    folder = Path(folder)
    card = folder / CARD
    if folder.exists() and not folder.is_dir():
        raise BattleError(f"{folder} is a file. Name a folder for the data set.")
    if card.exists() and MARK not in card.read_text(encoding="utf-8", errors="replace"):
        raise BattleError(f"{card} was not written by Tiltyard, or was edited. Choose another folder, or move it away.")
    if not len(table):
        raise BattleError("there is no battle to write. Check the input and its filters.")
    (folder / DATA_FILE).parent.mkdir(parents=True, exist_ok=True)
    write_battles(folder / DATA_FILE, table)
    write_text(folder / schema_file("battle"), schema_text("battle"))
    write_text(card, dataset_card(table, title=title, licence=licence))
    return len(table)


def dataset_card(table: BattleTable, *, title: str, licence: str | None = None) -> str:
    """The text of a data set's card: front matter that the hub reads, then words."""
    import yaml

    types, counts = column_types(table), battle_stats(table)
    front: dict[str, Any] = {
        "pretty_name": title,
        **({"license": licence} if licence else {}),
        "size_categories": [next((name for n, name in enumerate(SIZES) if len(table) < 1000 * 10**n), SIZES[-1])],
        "tags": ["tiltyard", "pairwise-comparison", "leaderboard", *(DECIDER_TAGS[name] for name in counts.sources)],
        "configs": [{"config_name": "battles", "data_files": [{"split": "train", "path": DATA_FILE}], "default": True}],
        "dataset_info": {
            "config_name": "battles",
            "features": [{"name": name, "dtype": DTYPES[kind]} for name, kind in types.items()],
            "splits": [{"name": "train", "num_examples": len(table)}],
        },
    }
    head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=120)
    return f"---\n{head}---\n\n{MARK}\n\n" + "\n".join(_words(counts, types, title, licence))


def _words(counts: BattleStats, types: dict[str, str], title: str, licence: str | None) -> list[str]:
    return [
        f"# {title}",
        "",
        f"{counts.rows:,} pairwise battles of {counts.models:,} models: each row says which of two models answered a "
        "prompt better, and who decided that.",
        "",
        *_counts(counts),
        "",
        "## Columns",
        "",
        "| column | type | meaning |",
        "|---|---|---|",
        *(f"| `{name}` | {DTYPES[kind]} | {_meaning(name)} |" for name, kind in types.items()),
        "",
        f"`{schema_file('battle')}` is the JSON Schema of a row.",
        "",
        "## Use",
        "",
        "```python",
        "from datasets import load_dataset",
        "import tiltyard as ty",
        "",
        'battles = load_dataset("this/data-set", split="train")',
        "print(ty.rate(battles.to_pandas()))",
        "```",
        "",
        "## Licence",
        "",
        f"`{licence}`" if licence else "Not stated. Ask whoever published the battles before using them.",
        "",
    ]


def _counts(counts: BattleStats) -> list[str]:
    def listed(numbers: Mapping[str, float]) -> str:
        return ", ".join(f"{name} {number:,.{2 if number % 1 else 0}f}" for name, number in numbers.items() if number)

    apart = len(counts.islands)
    lines = {
        "outcomes": listed(counts.outcomes),
        "decided by": listed(counts.sources),
        "prompts": "" if counts.prompts is None else f"{counts.prompts:,}",
        "judges": ", ".join(counts.judges[:8]),
        "dimensions": ", ".join(counts.dimensions[:8]),
        "groups of models that never met and cannot be compared": str(apart) if apart > 1 else "",
        "bad rows left out": listed(counts.skipped),
    }
    return [f"- {name}: {value}" for name, value in lines.items() if value]


def _meaning(name: str) -> str:
    known = json.loads(schema_text("battle"))["properties"]
    if name in known:
        return str(known[name].get("description", ""))
    side = "first" if name.endswith("_a") else "second"
    return f"A number of the {side} answer to control for." if name.endswith(("_a", "_b")) else ""
