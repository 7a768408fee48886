"""The row about placement: one model among human battles, its folder rated again, and what choosing opponents saves.

Every answer states its quality as `[worth +1.2345]`: its model's strength in logits plus Gumbel noise. Voters and the
judge prefer the better answer, and call two that are close a tie, so that both follow the same known strengths. The
texts are as long as people's: half of the answers have more than 1,200 characters, and one conversation in six has
several turns.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bench import data
from bench.measure import REAL_DATA, ROOT, TILTYARD, Row, in_child, whole_process

BATTLES = 100
ROUNDS = 100
SCALE = 173.7177927613
"""Rating points per logit: 400 / ln 10."""
REAL, REAL_ROWS = REAL_DATA / "arena_140k" / "battles.csv.gz", 135_624
MAX_FROM_LIMIT = 0.10
MAX_MB = 400

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


def placement(row: Row) -> None:
    """One model placed among many human battles, its folder rated again, and chosen compared with random opponents."""
    row.title = f"one model among human battles, {BATTLES} judged, {ROUNDS} bootstrap rounds, whole process"
    with tempfile.TemporaryDirectory(prefix="tiltyard-bench-") as folder:
        _with_conversations(row, Path(folder) / "conversations")
        _without_texts(row, Path(folder) / "anchors")
    for position in ("top", "middle", "bottom"):
        answer = in_child(saving, position=position, runs=row.size(200, 10))
        if answer.problem:
            raise RuntimeError(answer.problem)
        found = answer.result
        beyond = found["ratio"] / found["limit"] - 1
        row.goal(
            f"a model at the {position} of 41 simulated: goal within {100 * MAX_FROM_LIMIT:.0f} % of the limit → "
            f"{BATTLES} chosen battles tell as much as {BATTLES / found['ratio']:.0f} random ones "
            f"({BATTLES / found['known']:.0f} for one who knows its strength, {BATTLES / found['limit']:.0f} if all "
            f"opponents were its equals; {100 * beyond:+.0f} %)",
            beyond < MAX_FROM_LIMIT,
        )


def saving(position: str, runs: int) -> dict[str, float]:
    """Battles by information over random ones for the same standard error, by the tests' simulation."""
    from oracles.sampling_simulation import own_question_each, simulate_saving, simulated_field

    cells = own_question_each(40, 40 * BATTLES)
    field = lambda rng: simulated_field(position, rng)  # noqa: E731
    return asdict(simulate_saving(runs, SEED, battles=BATTLES, make_field=field, cells=cells))


def _place(row: Row, job: str, where: Path, rows: int, *options: str, truth: Path | None = None) -> None:
    """Place, and rate the folder again; both whole processes. With a truth, the rating is held against it."""
    common = ("--n-battles", str(BATTLES), "--bootstraps", str(ROUNDS), "--yes")
    answer = whole_process(
        [TILTYARD, "place", *options, *common, "--out", str(where / "out"), "--cache-dir", str(where / "cache")]
    )
    row.add(job, "tiltyard place", answer, ours=True)
    if answer.cost is None:
        return
    (folder,) = (where / "out").iterdir()
    again = whole_process([TILTYARD, "place", "--recompute", str(folder)], 2)
    row.add(f"{job}, rated again", "tiltyard place --recompute", again, ours=True)
    row.check(f"{job}: the folder alone gives the same ratings, byte for byte", again.problem is None)
    mb = answer.cost.peak_mb
    row.goal(f"{job}: goal under {MAX_MB} MB → {mb:,.0f} MB", mb < MAX_MB)
    if truth:
        made, ratings = json.loads(truth.read_text()), json.loads((folder / "elo_ratings.json").read_text())["ratings"]
        (own,) = (entry for entry in ratings if entry["source"] == "evaluated")
        others = np.mean([entry["rating"] for entry in ratings if entry["source"] != "evaluated"])
        wanted = others + SCALE * (made["newcomer"] - np.mean(list(made["strengths"].values())))
        interval = f"{own['rating']:.0f} [{own['ci_low']:.0f}, {own['ci_high']:.0f}]"
        row.check(f"{job}: made worth {wanted:.0f}, placed at {interval}", own["ci_low"] < wanted < own["ci_high"])
    kept = (folder / "battles.jsonl").read_bytes()
    battles = kept.count(b"\n")
    text = f"{job}: battles.jsonl holds all {battles:,} battles in {len(kept) / 1e6:,.1f} MB"
    row.check(text, battles == rows + BATTLES)


def _with_conversations(row: Row, where: Path) -> None:
    rows, models = row.size(87_231, 3_000), row.size(55, 12)
    path = row.data / f"arena-{rows}-{models}.parquet"
    data.generated(path, write_arena, path=path, rows=rows, n_models=models)
    job = f"{rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB of Parquet"
    with _server(where / "server") as url:
        asked = ("--model", "local/newcomer", "--judge", "local/umpire", "--base-url", url)
        found = ("--arena", str(path), *asked, "--min-opponent-battles", str(row.size(500, 50)))
        _place(row, job, where, rows, *found, truth=data.truth_of(path))


def _without_texts(row: Row, where: Path) -> None:
    """Anchors at real size, texts beside them."""
    job = f"{REAL_ROWS:,} rows of arena_140k"
    if not REAL.exists():
        row.skip(job, "tiltyard place", "the data is not at hand")
        return
    texts = row.data / "texts-140k"
    data.generated(texts / "verdicts.jsonl", write_texts, path=texts / "verdicts.jsonl", battles=REAL)
    beside = ("--prompts", str(texts / "bank.jsonl"), "--answers", str(texts / "answers.jsonl"))
    asked = ("--model", str(texts / "responses_newcomer.jsonl"), "--judge", f"recorded/{texts / 'verdicts.jsonl'}")
    _place(row, job, where, REAL_ROWS, "--arena", str(REAL), "--on-bad", "skip", *beside, *asked)


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """The address of a server that is the new model and the judge; in a separate process, which is not measured."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-W", "ignore", "-m", "tests.fakes.server", "--state", str(folder)]
    command += ["--judge", "bench.placement:answer_or_judge"]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


# --- Worth of answers, and texts -------------------------------------------------------------------------------------


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


def write_arena(path: str, rows: int, n_models: int) -> None:
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
    to = Path(path)
    unfinished = to.with_suffix(".unfinished")
    with parquet.ParquetWriter(unfinished, schema, compression="zstd") as file:
        for start in range(0, rows, ROWS_PER_GROUP):
            part = _arena_rows(start, min(ROWS_PER_GROUP, rows - start), world, names, writer, rng)
            file.write_table(pa.table(part, schema=schema))
    truth = {"strengths": dict(zip(names.tolist(), world.truth.tolist(), strict=True)), "newcomer": NEWCOMER_STRENGTH}
    data.truth_of(to).write_text(json.dumps(truth))
    unfinished.replace(to)


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


def write_texts(path: str, battles: str) -> None:
    """A prompt bank, every model's answers, the new model's, and a judge's verdicts on all pairs in both orders."""
    from tiltyard.data.battles import read_battles

    models = read_battles(battles, on_bad="skip").models
    rng = np.random.default_rng([SEED, len(models)])
    writer = Writer(rng)
    strengths = rng.normal(0.0, data.SPREAD, len(models)).tolist()
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
        (Path(path).parent / f"{file}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
