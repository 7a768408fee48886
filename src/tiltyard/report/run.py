"""A run folder as one frozen record: settings, numbers, texts, and judgments on request."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Any
from zipfile import BadZipFile

import msgspec
import numpy as np

from tiltyard.bank import Prompt
from tiltyard.bank.images import Image, count_images, is_image_type
from tiltyard.boards import EloReport
from tiltyard.errors import BankError, BattleError, RunFolderError
from tiltyard.judging.records import Judgment
from tiltyard.judging.run_folder import RUN, again, read_lines, read_object, require
from tiltyard.report.judged import JudgedBattle, JudgedBattles, list_judged, read_judgment
from tiltyard.tournament.artifacts import EloResults, MatchLine, calibrated_path
from tiltyard.tournament.ratings import BaselineTable, EloLine, PairTally
from tiltyard.types import Floats

LARGEST_SHOWN, LARGEST_TOGETHER = 1_400_000, 16_000_000
"""Characters of one image on a page (1 MB), and of all images of a report."""


def met(pair: PairTally) -> int:
    """How often two entrants were compared with a readable result."""
    return pair.a_wins + pair.b_wins + pair.ties


def wins_and_losses(pair: PairTally, entrant: str) -> tuple[int, int]:
    """Wins and losses of one of the two."""
    return (pair.a_wins, pair.b_wins) if entrant == pair.entrant_a else (pair.b_wins, pair.a_wins)


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """The numbers of one dimension, from the files. Without a decisive match the Elo parts are empty."""

    name: str
    n_matches: int
    n_decisive: int
    elo: Mapping[str, EloLine]
    sweep: Mapping[str, Mapping[str, EloLine]]
    traces: Floats
    trace_entrants: tuple[str, ...]
    pairs: tuple[PairTally, ...]
    board: EloReport | None
    against: BaselineTable | None = None
    calibrated: EloReport | None = None
    """The board that people's labels correct."""

    @property
    def best_board(self) -> EloReport | None:
        """The board to read first: the one that people's labels correct, if there is one."""
        return self.calibrated or self.board


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Everything a report shows. Each text is kept once; judge texts stay in their files until needed."""

    folder: Path
    """The folder."""
    manifest: Mapping[str, Any]
    """The contents of `manifest.json`."""
    usage: Mapping[str, Any] | None
    """The contents of `usage.json`."""
    default_k: float
    """K of the primary Elo."""
    entrants: tuple[str, ...]
    """The entrants."""
    dimensions: tuple[Dimension, ...]
    """The dimensions."""
    prompts: Mapping[str, Prompt]
    """The prompts."""
    answers: Mapping[tuple[str, str], str]
    """The text of an answer by prompt and entrant."""
    battles: JudgedBattles
    """Every judgment without its texts, in the order of the files."""
    pictures: Mapping[tuple[str, str | None], tuple[str, ...]] = field(default_factory=dict)
    """Images as data URLs, by prompt and entrant; None: of the prompt itself."""

    def judgment(self, battle: JudgedBattle) -> Judgment:
        """A judgment with the judge's texts, read from its file now."""
        return read_judgment(self.folder, battle)

    def judgments(self, dimension: str) -> Iterator[Judgment]:
        """The judgments of a dimension, one at a time."""
        return map(self.judgment, self.battles.of_dimension(dimension))


def read_run(folder: str | Path) -> Run:
    """Read a finished run folder; a missing or incomplete file is one clear error.

    Parameters:
        folder: The folder of a run.
    """
    folder = Path(folder)
    manifest = read_object(require(folder / "manifest.json", folder))
    results = _elo_results(require(folder / "elo_results.json", folder))
    tallies = _tallies(require(folder / "pairwise_winrates.csv", folder))
    traces = _traces(folder, results)
    shown = ShownImages()
    prompts, answers, n_matches = _texts(require(folder / "matches" / "matches.jsonl", folder), shown)
    names = tuple(results.primary)
    against = _against(folder / "baseline.json")
    battles = list_judged(folder, names)
    check_texts(battles, prompts, answers, "matches/matches.jsonl")
    usage = folder / "usage.json"
    return Run(
        folder=folder,
        manifest=manifest,
        usage=read_object(usage) if usage.is_file() else None,
        default_k=results.default_k,
        entrants=_entrants(manifest, answers),
        dimensions=tuple(
            Dimension(
                name=name,
                n_matches=n_matches.get(name, 0),
                n_decisive=results.n_decisive_matches.get(name, 0),
                elo=results.primary[name],
                sweep=results.k_sensitivity.get(name, {}),
                traces=traces[name][0],
                trace_entrants=traces[name][1],
                pairs=tuple(tallies.get(name, ())),
                board=_board(folder / "ratings" / f"{name}.json"),
                calibrated=_board(calibrated_path(folder, name)),
                against=against.get(name),
            )
            for name in names
        ),
        prompts=prompts,
        answers=answers,
        pictures=shown.pictures,
        battles=battles,
    )


def _elo_results(path: Path) -> EloResults:
    try:
        return msgspec.convert(read_object(path), EloResults)
    except msgspec.ValidationError as error:
        raise RunFolderError(f"{path}: {error}. {again()}") from None


def _against(path: Path) -> dict[str, BaselineTable]:
    """The win rates against the baseline by dimension; none where everyone met everyone."""
    if not path.is_file():
        return {}
    try:
        return msgspec.convert(read_object(path), dict[str, BaselineTable])
    except msgspec.ValidationError as error:
        raise RunFolderError(f"{path}: {error}. {again()}") from None


def _tallies(path: Path) -> dict[str, list[PairTally]]:
    """The lines of `pairwise_winrates.csv` by dimension."""
    pairs: dict[str, list[PairTally]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        try:
            for row in csv.DictReader(file):
                pairs.setdefault(row["dimension"], []).append(msgspec.convert(row, PairTally, strict=False))
        except (msgspec.ValidationError, UnicodeDecodeError, csv.Error, KeyError, TypeError) as error:
            raise RunFolderError(f"{path}: not a table of pairs ({error}). {again()}") from None
    return pairs


def _traces(folder: Path, results: EloResults) -> dict[str, tuple[Floats, tuple[str, ...]]]:
    """The Elo of every shuffle by dimension; empty if nothing was decided."""
    traces: dict[str, tuple[Floats, tuple[str, ...]]] = {name: (np.empty((0, 0)), ()) for name in results.primary}
    rated = [name for name, lines in results.primary.items() if lines]
    if not rated:
        return traces
    path = require(folder / "elo_per_perm.npz", folder)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            for name in rated:
                entrants = tuple(str(entrant) for entrant in arrays[f"{name}__entrants"])
                data = np.asarray(arrays[f"{name}__data"], dtype=np.float64)
                if data.ndim != 2 or data.shape[1] != len(entrants):
                    raise ValueError(f"{name}__data has shape {data.shape} for {len(entrants)} entrants")
                traces[name] = (data, entrants)
    except (OSError, ValueError, KeyError, BadZipFile, EOFError) as error:
        raise RunFolderError(f"{path}: torn, or not the traces of this run ({error}). {again()}") from None
    return traces


def _board(path: Path) -> EloReport | None:
    """A dimension's Bradley–Terry board; if the battles do not allow one, a run writes the reason instead."""
    return read_board(path) if path.is_file() else None


def read_board(path: Path, command: str = RUN) -> EloReport:
    """A ratings file of the run."""
    try:
        return EloReport.read(path)
    except (BattleError, TypeError) as error:
        raise RunFolderError(f"{path}: torn, or not a ratings file ({error}). {again(command)}") from None


def _texts(path: Path, shown: ShownImages) -> tuple[dict[str, Prompt], dict[tuple[str, str], str], dict[str, int]]:
    """Every prompt and answer once, and the number of matches of each dimension."""
    prompts: dict[str, Prompt] = {}
    answers: dict[tuple[str, str], str] = {}
    counts: dict[str, int] = {}
    for place, match in read_lines(path, msgspec.json.Decoder(MatchLine)):
        counts[match.dimension] = counts.get(match.dimension, 0) + 1
        prompt = prompts.get(match.prompt_id)
        if prompt is None:
            prompt = prompts[match.prompt_id] = _prompt(match, shown)
        texts = {
            match.entrant_a: shown.add((match.prompt_id, match.entrant_a), match.response_a, match.images_a),
            match.entrant_b: shown.add((match.prompt_id, match.entrant_b), match.response_b, match.images_b),
        }
        keep_answers(answers, prompt.prompt_id, texts, f"{path}:{place.number}")
    return prompts, answers, counts


def keep_answers(
    answers: dict[tuple[str, str], str], prompt_id: str, texts: Mapping[str, str], where: str, command: str = RUN
) -> None:
    """Add what the entrants answered to a prompt; no entrant has two answers to one prompt."""
    for entrant, answer in texts.items():
        if answers.setdefault((prompt_id, intern(entrant)), answer) != answer:
            raise RunFolderError(f"{where}: {entrant} has two different answers to {prompt_id}. {again(command)}")


def _prompt(match: MatchLine, shown: ShownImages) -> Prompt:
    """The prompt as the pages show it, with what came before it."""
    text = shown.add((match.prompt_id, None), match.prompt.whole_text, match.prompt_images)
    return msgspec.structs.replace(match.prompt, text=text)


class ShownImages:
    """Images for a page, as data URLs: only files that are still those which were judged, up to a size together."""

    def __init__(self) -> None:
        self.pictures: dict[tuple[str, str | None], tuple[str, ...]] = {}
        self._room = LARGEST_TOGETHER
        self._known: dict[Image, str] = {}

    def add(self, whose: tuple[str, str | None], text: str, images: tuple[Image, ...]) -> str:
        """Keep somebody's images, and return their text with a line that says how many there are."""
        if not images:
            return text
        shown = [self._url(image) for image in images]
        urls = tuple(url for url in shown if url.startswith("data:"))
        if urls:
            self.pictures[whose] = urls
        reasons = dict.fromkeys(reason for reason in shown if not reason.startswith("data:"))
        left = f"; {len(shown) - len(urls)} not shown here: {', '.join(reasons)}" if reasons else ""
        return f"{text}\n\n({count_images(len(images))}{left})".lstrip()

    def _url(self, image: Image) -> str:
        """The image as a data URL, or why it is not shown."""
        if image not in self._known:
            self._known[image] = self._read(image)
        return self._known[image]

    def _read(self, image: Image) -> str:
        if image.url:
            return "at an address, which a report does not load"
        try:
            data = image.encoded()
        except BankError:
            return "its file is gone or has changed"
        if not is_image_type(image.media_type):
            return "not of a type that is shown"
        if len(data) > LARGEST_SHOWN:
            return "too large"
        if len(data) > self._room:
            return "the report would be too large"
        self._room -= len(data)
        return f"data:{image.media_type};base64,{data}"


def check_texts(
    battles: Sequence[JudgedBattle],
    prompts: Mapping[str, Prompt],
    answers: Mapping[tuple[str, str], str],
    file: str,
    command: str = RUN,
) -> None:
    """Refuse a judgment whose prompt or answers are not in the file of texts."""
    for battle in battles:
        if battle.prompt_id not in prompts or any((battle.prompt_id, name) not in answers for name in battle.entrants):
            raise RunFolderError(
                f"{battle.file}:{battle.line.number}: {file} has no texts for {battle.prompt_id} of "
                f"{' and '.join(battle.entrants)}. {again(command)}"
            )


def _entrants(manifest: Mapping[str, Any], answers: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
    """The entrants in the order of the config, then any other that was compared."""
    listed = [str(name) for name in manifest.get("entrants") or []]
    return tuple(dict.fromkeys([*listed, *(name for _, name in answers)]))
