"""A folder that the Hugging Face hub takes as a data set: battles as Parquet, and a card that says what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tiltyard.battles.stats import BattleStats, battle_stats
from tiltyard.battles.table import BattleTable
from tiltyard.battles.writing import column_types, write_battles
from tiltyard.errors import BattleError
from tiltyard.files import write_text
from tiltyard.schemas import schema_file, schema_text

DATA_FILE = "data/train-00000-of-00001.parquet"
CARD = "README.md"
MARK = "<!-- written by tiltyard: writing the folder again replaces this card -->"
DTYPES = {"VARCHAR": "string", "BOOLEAN": "bool", "DOUBLE": "float64"}
SIZES = (("n<1K", 1e3), ("1K<n<10K", 1e4), ("10K<n<100K", 1e5), ("100K<n<1M", 1e6), ("1M<n<10M", 1e7))
LARGER = (("10M<n<100M", 1e8), ("100M<n<1B", 1e9), ("1B<n<10B", 1e10))
"""The hub's size categories: each with the number of rows that it ends before."""


def write_dataset(folder: str | Path, table: BattleTable, *, title: str, licence: str | None = None) -> int:
    """Write battles as a data set and say how many rows it has: `datasets.load_dataset(folder)` reads it.

    Parameters:
        folder: Where to; made if it is not there. A card that was edited by hand is not replaced.
        table: The battles.
        title: What the data set is called.
        licence: The licence's name on the hub, such as `cc-by-4.0`; None: the card says that none is stated.
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
    """The text of a data set's card: front matter that the hub reads, then words.

    Parameters:
        table: The battles.
        title: What the data set is called.
        licence: The licence's name on the hub; None: not stated.
    """
    types = column_types(table)
    front: dict[str, Any] = {
        "pretty_name": title,
        **({"license": licence} if licence else {}),
        "size_categories": [_size(len(table))],
        "tags": ["tiltyard", "pairwise-comparison", "leaderboard", *_deciders(table)],
        "configs": [{"config_name": "battles", "data_files": [{"split": "train", "path": DATA_FILE}], "default": True}],
        "dataset_info": {
            "config_name": "battles",
            "features": [{"name": name, "dtype": DTYPES[kind]} for name, kind in types.items()],
            "splits": [{"name": "train", "num_examples": len(table)}],
        },
    }
    head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=120)
    return f"---\n{head}---\n\n{MARK}\n\n" + "\n".join(_words(table, types, title, licence))


def _words(table: BattleTable, types: dict[str, str], title: str, licence: str | None) -> list[str]:
    counts = battle_stats(table)
    return [
        f"# {title}",
        "",
        f"{len(table):,} pairwise battles of {counts.models:,} models: each row says which of two models answered a "
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
    """What there is, as a list; battles are sums of weights."""
    lines = [f"- outcomes: {', '.join(f'{name} {_n(number)}' for name, number in counts.outcomes.items() if number)}"]
    lines.append(f"- decided by: {', '.join(f'{name} {_n(number)}' for name, number in counts.sources.items())}")
    if counts.prompts is not None:
        lines.append(f"- prompts: {counts.prompts:,}")
    if counts.judges:
        lines.append(f"- judges: {', '.join(counts.judges[:8])}")
    if counts.dimensions:
        lines.append(f"- dimensions: {', '.join(counts.dimensions[:8])}")
    if len(counts.islands) > 1:
        lines.append(
            f"- {len(counts.islands)} groups of models never met: models of different groups cannot be compared"
        )
    if counts.skipped:
        lines.append(
            f"- bad rows left out: {', '.join(f'{name} {_n(number)}' for name, number in counts.skipped.items())}"
        )
    return lines


def _n(number: float) -> str:
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.2f}"


def _meaning(name: str) -> str:
    """What a column means, as the schema says it."""
    known = json.loads(schema_text("battle"))["properties"]
    if name in known:
        return str(known[name].get("description", ""))
    side = "first" if name.endswith("_a") else "second"
    return f"A number of the {side} answer to control for." if name.endswith(("_a", "_b")) else ""


def _size(rows: int) -> str:
    return next((name for name, end in (*SIZES, *LARGER) if rows < end), "n>1T")


def _deciders(table: BattleTable) -> list[str]:
    found = battle_stats(table).sources
    return [{"human": "human-preference", "llm-judge": "llm-as-a-judge"}[name] for name in found]
