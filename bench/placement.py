"""Arenas for the placement row, generated once and cached, and their model and judge.

Every answer states its quality as `[worth +1.2345]`: its model's strength in logits plus Gumbel noise. Voters and the
judge prefer the better answer, and call two that are close a tie, so that both follow the same known strengths. The
texts are as long as people's: half of the answers have more than 1,200 characters, and one conversation in six has
several turns.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bench import data
from bench.measure import ROOT

SEED = 20_250_102
NEWCOMER_STRENGTH = 0.5
TIE_WIDTH = 0.3
LANGUAGES = ("en", "ru", "zh", "de", "vi", "ja", "fr")
LANGUAGE_SHARES = (0.55, 0.12, 0.12, 0.06, 0.05, 0.05, 0.05)
ROWS_PER_GROUP = 4_000
PROMPTS = 150
WORTH = re.compile(r"\[worth ([+-]\d+\.\d+)\]")
SHOWN = re.compile(r"\[ANSWER [AB] .*?\](.*?)\[END ANSWER", flags=re.DOTALL)
QUESTION = re.compile(r"Question (\d+):")


def worth(strength: float, *ids: int) -> float:
    """The quality of an answer; the same every time."""
    return strength + float(np.random.default_rng([SEED, *ids]).gumbel())


def answer_or_judge(system: str, user: str) -> str:  # noqa: ARG001 - a server passes both
    """As the judge, prefer the better answer; as the new model, give an answer of its strength."""
    shown = SHOWN.findall(user)
    if len(shown) == 2:
        first, second = (float(WORTH.findall(text)[-1]) for text in shown)
        return f"The better one says what was asked.\nVERDICT: {_verdict(first - second)}"
    found = QUESTION.search(user)
    number = int(found[1]) if found else 0
    return f"An answer to question {number}. [worth {worth(NEWCOMER_STRENGTH, number):+.4f}] {'So it is. ' * 60}"


def _verdict(lead: float) -> str:
    return "TIE" if abs(lead) < TIE_WIDTH else "A" if lead > 0 else "B"


class Writer:
    """Texts of given lengths, cut from one long text of made-up words."""

    def __init__(self, rng: np.random.Generator) -> None:
        letters = np.array(list("etaoinshrdlucmfwypvbgk"))
        words = ["".join(rng.choice(letters, size)) for size in rng.integers(2, 11, 8_000)]
        frequency = 1.0 / (np.arange(len(words)) + 3.0)
        self._text = " ".join(rng.choice(words, 400_000, p=frequency / frequency.sum()).tolist())
        self._rng = rng

    def texts(self, n: int, median: float, most: int) -> list[str]:
        """This many texts, half of them longer than `median` characters, none longer than `most`."""
        sizes = np.minimum(self._rng.lognormal(np.log(median), 0.9, n), most).astype(int) + 1
        starts = self._rng.integers(0, len(self._text) - most - 1, n)
        return [self._text[start : start + size] for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]


# --- An arena with its conversations ---------------------------------------------------------------------------------


def write_arena(path: Path, rows: int, n_models: int) -> None:
    """An arena in LMArena's schema as Parquet with nested conversations, some thousand rows at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng([SEED, rows, n_models])
    world, writer = data.World.of(n_models, rng), Writer(rng)
    names = data.names_of(n_models)
    talk = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    types = {"conversation_a": talk, "conversation_b": talk, "turn": pa.int64(), "tstamp": pa.float64()}
    columns = ("question_id", "model_a", "model_b", "winner", "conversation_a", "conversation_b", "turn", "language")
    schema = pa.schema([(name, types.get(name, pa.string())) for name in (*columns, "tstamp")])
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    with parquet.ParquetWriter(unfinished, schema, compression="zstd") as file:
        for start in range(0, rows, ROWS_PER_GROUP):
            part = _arena_rows(start, min(ROWS_PER_GROUP, rows - start), world, names, writer, rng)
            file.write_table(pa.table(part, schema=schema))
    truth = {"strengths": dict(zip(names.tolist(), world.truth.tolist(), strict=True)), "newcomer": NEWCOMER_STRENGTH}
    data.truth_of(path).write_text(json.dumps(truth))
    unfinished.replace(path)


def _arena_rows(
    start: int, n: int, world: data.World, names: np.ndarray, writer: Writer, rng: np.random.Generator
) -> dict[str, Any]:
    """The next rows, column by column."""
    a, b = world.pairs(n, rng)
    worths = np.stack([world.truth[a], world.truth[b]]) + rng.gumbel(size=(2, n))
    turns = np.where(rng.random(n) < 1 / 6, rng.integers(2, 6, n), 1)
    verdicts = [_verdict(lead) for lead in (worths[0] - worths[1]).tolist()]
    asked = [f"Question {start + k}: {text}?" for k, text in enumerate(writer.texts(n, 120.0, 6_000))]
    return {
        "question_id": [hashlib.md5(f"question {start + k}".encode()).hexdigest() for k in range(n)],
        "model_a": names[a].tolist(),
        "model_b": names[b].tolist(),
        "winner": [{"A": "model_a", "B": "model_b", "TIE": "tie"}[word] for word in verdicts],
        "conversation_a": _talks(asked, worths[0], turns, writer),
        "conversation_b": _talks(asked, worths[1], turns, writer),
        "turn": turns.tolist(),
        "language": rng.choice(LANGUAGES, n, p=LANGUAGE_SHARES).tolist(),
        "tstamp": (1_735_689_600.0 + 40.0 * np.arange(start, start + n)).tolist(),
    }


def _talks(asked: list[str], worths: np.ndarray, turns: np.ndarray, writer: Writer) -> list[list[dict[str, str]]]:
    answers = iter(writer.texts(int(turns.sum()), 1_200.0, 12_000))
    talks = []
    for question, value, length in zip(asked, worths.tolist(), turns.tolist(), strict=True):
        talk = []
        for turn in range(length):
            talk.append({"role": "user", "content": question if turn == 0 else f"And what of part {turn + 1}?"})
            talk.append({"role": "assistant", "content": f"{next(answers)} [worth {value:+.4f}]"})
        talks.append(talk)
    return talks


# --- Texts beside battles that have none -----------------------------------------------------------------------------


def write_texts(folder: Path, battles: Path) -> None:
    """A prompt bank, every model's answers, the new model's, and a judge's verdicts on all pairs in both orders."""
    from tiltyard.battles import read_battles

    models = read_battles(battles, on_bad="skip").models
    rng = np.random.default_rng([SEED, len(models)])
    writer = Writer(rng)
    strengths = rng.normal(0.0, data.SPREAD, len(models)).tolist()
    folder.mkdir(parents=True, exist_ok=True)
    ids = [f"p{number:03d}" for number in range(PROMPTS)]
    asked = writer.texts(PROMPTS, 120.0, 6_000)
    bank = [{"prompt_id": name, "text": f"{text}?"} for name, text in zip(ids, asked, strict=True)]
    answers, verdicts, own = [], [], []
    for number, name in enumerate(ids):
        mine = worth(NEWCOMER_STRENGTH, number)
        own.append({"entrant_id": "newcomer", "prompt_id": name, "response_text": writer.texts(1, 1_200.0, 12_000)[0]})
        for code, (model, text) in enumerate(zip(models, writer.texts(len(models), 1_200.0, 12_000), strict=True)):
            answers.append({"entrant_id": model, "prompt_id": name, "response_text": text})
            lead = mine - worth(strengths[code], number, code + 1)
            said = {"verdict": _verdict(lead), "verdict_swapped": _verdict(-lead)}
            verdicts.append({"prompt_id": name, "entrant_a": "newcomer", "entrant_b": model, **said})
    for file, records in (("bank", bank), ("answers", answers), ("responses_newcomer", own), ("verdicts", verdicts)):
        (folder / f"{file}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


# --- What choosing opponents saves -----------------------------------------------------------------------------------


def saving(position: str, runs: int, battles: int) -> dict[str, float]:
    """Battles by information over random ones for the same standard error, by the tests' simulation."""
    sys.path.insert(0, str(ROOT / "tests"))
    from oracles.sampling_simulation import own_question_each, simulate_saving, simulated_field

    found = simulate_saving(
        runs,
        SEED,
        battles=battles,
        make_field=lambda rng: simulated_field(position, rng),
        cells=own_question_each(40, 40 * battles),
    )
    return asdict(found)


def main() -> None:
    """One of the above in a separate process, so that the caller stays small."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    what = parser.add_subparsers(dest="what", required=True)
    arena = what.add_parser("arena")
    arena.add_argument("path", type=Path)
    arena.add_argument("rows", type=int)
    arena.add_argument("models", type=int)
    texts = what.add_parser("texts")
    texts.add_argument("folder", type=Path)
    texts.add_argument("battles", type=Path)
    spared = what.add_parser("saving")
    spared.add_argument("position")
    spared.add_argument("runs", type=int)
    spared.add_argument("battles", type=int)
    chosen = vars(parser.parse_args())
    work = {"arena": write_arena, "texts": write_texts, "saving": saving}[chosen.pop("what")]
    names = {"models": "n_models"} if work is write_arena else {}
    print(json.dumps(work(**{names.get(name, name): value for name, value in chosen.items()})))


if __name__ == "__main__":
    main()
