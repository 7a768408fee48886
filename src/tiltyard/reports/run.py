"""A run folder as one frozen record: settings, numbers, texts, and every judgment in brief."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from sys import intern
from typing import Any, TypeVar
from zipfile import BadZipFile

import msgspec
import numpy as np

from tiltyard.analysis.boards import RatingsFile, rate
from tiltyard.data.bank import Image, Prompt, count_images, is_image_type
from tiltyard.data.battles import BATTLES
from tiltyard.errors import BankError, BattleError, RunFolderError, TiltyardError
from tiltyard.judge.tournament import (
    RESULTS_FILE,
    BaselineTable,
    DimensionScores,
    EloLine,
    EloResults,
    MatchLine,
    PairTally,
    calibrated_path,
)
from tiltyard.judge.verdicts import (
    RUN,
    Judgment,
    LineSpan,
    VerdictLabel,
    again,
    decode,
    in_pairs,
    read_lines,
    read_object,
    read_record,
    require,
)
from tiltyard.types import FileStem, Floats

LARGEST_SHOWN, LARGEST_TOGETHER = 1_400_000, 16_000_000
"""Characters of one image on a page (1 MB), and of all images of a report."""

JUDGMENTS = msgspec.json.Decoder(Judgment)
Key = TypeVar("Key")


class JudgedBattle(msgspec.Struct, frozen=True, gc=False):
    """One judgment without its texts: what lists, counts and links need."""

    number: int
    """Its place in the run."""
    prompt_id: str
    line: LineSpan
    file: str
    dimension: str
    entrant_a: str
    entrant_b: str
    winner: str | None
    inconsistent: bool
    status: str
    slots: tuple[VerdictLabel, ...]
    """The verdicts as they were given: A is the answer shown first."""
    labels: tuple[VerdictLabel, ...]
    """The same by entrant: A is entrant_a."""
    judges: tuple[str, ...]
    swaps: tuple[bool, ...]
    """For each verdict, whether entrant_b was shown first."""
    pairs: tuple[tuple[VerdictLabel, VerdictLabel], ...]
    """The labels of one judge in both orders, for every judge and repeat."""

    @property
    def entrants(self) -> tuple[str, str]:
        return (self.entrant_a, self.entrant_b)

    @property
    def settled(self) -> bool:
        return self.status == "ok"

    @property
    def outcome(self) -> str:
        if not self.settled:
            return "failed"
        return self.winner or ("inconsistent" if self.inconsistent else "tie")

    @property
    def kind(self) -> str:
        return "decisive" if self.winner is not None else self.outcome

    @property
    def words(self) -> list[str]:
        """Each verdict in a word: an entrant's name, `tie`, or a failure's name."""
        names = {VerdictLabel.A: self.entrant_a, VerdictLabel.B: self.entrant_b, VerdictLabel.TIE: "tie"}
        return [names.get(label, str(label)) for label in self.labels]

    def word_when_first(self, entrant: str) -> str:
        """The verdict when this entrant was shown first, or how often each was given; `not asked` if it never was."""
        pairs = zip(self.words, self.swaps, strict=True)
        words = Counter(word for word, swap in pairs if entrant == self.entrants[swap])
        if words.total() < 2:
            return next(iter(words), "not asked")
        return ", ".join(f"{word} {count}" for word, count in words.most_common())


def read_judged(files: Mapping[str, Path], folder: Path, command: str = RUN) -> list[JudgedBattle]:
    """The judgments of a file for each dimension, in brief, in the order of the files."""
    battles: list[JudgedBattle] = []
    shared: dict[Any, Any] = {}

    def once(*values: Any) -> Any:
        """Equal values as one object: most judgments have the same few."""
        return shared.setdefault((type(values[0]) if values else None, values), values)

    for dimension, path in files.items():
        file = path.relative_to(folder).as_posix()
        for place, judgment in read_lines(path, JUDGMENTS, command):
            raw = judgment.raw
            battles.append(
                JudgedBattle(
                    number=len(battles),
                    prompt_id=intern(judgment.prompt_id),
                    line=place,
                    file=file,
                    dimension=dimension,
                    entrant_a=intern(judgment.entrant_a),
                    entrant_b=intern(judgment.entrant_b),
                    winner=judgment.winner and intern(judgment.winner),
                    inconsistent=judgment.inconsistent,
                    status=judgment.status,
                    slots=once(*(verdict.verdict for verdict in raw)),
                    labels=once(*(verdict.for_entrants for verdict in raw)),
                    judges=once(*dict.fromkeys(verdict.judge_model for verdict in raw)),
                    swaps=once(*(verdict.position_swap for verdict in raw)),
                    pairs=once(*((one.for_entrants, other.for_entrants) for one, other in in_pairs(raw))),
                )
            )
    return battles


def grouped(battles: Iterable[JudgedBattle], key: Callable[[JudgedBattle], Key]) -> dict[Key, list[JudgedBattle]]:
    """Those with the same key together, in the order in which the keys appear."""
    groups: dict[Key, list[JudgedBattle]] = {}
    for battle in battles:
        groups.setdefault(key(battle), []).append(battle)
    return groups


class Dimension(msgspec.Struct, frozen=True, eq=False):
    """The numbers of one dimension, from the files. Without a decisive match the Elo parts are empty."""

    name: str
    n_decisive: int
    board: RatingsFile | None
    calibrated: RatingsFile | None = None
    against: BaselineTable | None = None
    pairs: Sequence[PairTally] = ()
    elo: Mapping[str, EloLine] = msgspec.field(default_factory=dict)
    sweep: Mapping[str, Mapping[str, EloLine]] = msgspec.field(default_factory=dict)
    traces: Mapping[str, Floats] = msgspec.field(default_factory=dict)
    """The Elo of each entrant in every shuffle."""

    @property
    def best_board(self) -> RatingsFile | None:
        """The board to read first: the one that people's labels correct, if there is one."""
        return self.calibrated or self.board


class Run(msgspec.Struct, frozen=True, eq=False):
    """Everything a report shows. Each text is kept once; judge texts stay in their files until needed."""

    folder: Path
    manifest: Mapping[str, Any]
    usage: Mapping[str, Any] | None
    default_k: float
    entrants: tuple[str, ...]
    dimensions: tuple[Dimension, ...]
    prompts: Mapping[str, Prompt]
    answers: Mapping[tuple[str, str], str]
    battles: list[JudgedBattle]
    """Every judgment without its texts, in the order of the files."""
    scores: tuple[DimensionScores, ...] = ()
    pictures: Mapping[tuple[str, str | None], tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Images as data URLs, by prompt and entrant; None: of the prompt itself."""

    @property
    def results(self) -> Mapping[str, Any]:
        return self.manifest.get("results") or {}

    def judgment(self, battle: JudgedBattle) -> Judgment:
        """A judgment with the judge's texts, read from its file now."""
        path = self.folder / battle.file
        with path.open("rb") as file:
            file.seek(battle.line.start)
            line = file.read(battle.line.end - battle.line.start)
        judgment: Judgment = decode(line, JUDGMENTS, path, battle.line.number)
        return judgment

    def judgments(self, dimension: str) -> Iterator[Judgment]:
        return map(self.judgment, self.of_dimension(dimension))

    def of_dimension(self, name: str) -> list[JudgedBattle]:
        return [battle for battle in self.battles if battle.dimension == name]


def read_run(folder: str | Path) -> Run:
    """Read a finished run folder; a missing or incomplete file is one clear error."""
    folder = Path(folder)
    manifest = read_object(require(folder / "manifest.json", folder))
    results = read_record(require(folder / "elo_results.json", folder), EloResults)
    tallies = _tallies(require(folder / "pairwise_winrates.csv", folder))
    traces = _traces(folder, results)
    shown = ShownImages()
    prompts, answers, planned = _texts(require(folder / "matches" / "matches.jsonl", folder), shown)
    names = tuple(results.primary)
    baseline = folder / "baseline.json"
    against = read_record(baseline, dict[FileStem, BaselineTable]) if baseline.is_file() else {}
    files = {name: require(folder / "verdicts" / f"{name}.jsonl", folder) for name in names if name in planned}
    battles = read_judged(files, folder)
    check_texts(battles, prompts, answers, "matches/matches.jsonl")
    usage, scores = folder / "usage.json", folder / RESULTS_FILE
    listed = [str(name) for name in manifest.get("entrants") or []]
    return Run(
        folder=folder,
        manifest=manifest,
        usage=read_object(usage) if usage.is_file() else None,
        default_k=results.default_k,
        entrants=tuple(dict.fromkeys([*listed, *(name for _, name in answers)])),
        dimensions=tuple(
            Dimension(
                name=name,
                n_decisive=results.n_decisive_matches.get(name, 0),
                elo=results.primary[name],
                sweep={f"{float(k):g}": lines for k, lines in results.k_sensitivity.get(name, {}).items()},
                traces=traces.get(name, {}),
                pairs=tallies.get(name, ()),
                board=_board(folder, name, manifest.get("judge_model")),
                calibrated=read_board(path) if (path := calibrated_path(folder, name)).is_file() else None,
                against=against.get(name),
            )
            for name in names
        ),
        prompts=prompts,
        answers=answers,
        pictures=shown.pictures,
        battles=battles,
        scores=tuple(read_record(scores, dict[FileStem, DimensionScores]).values()) if scores.is_file() else (),
    )


def _tallies(path: Path) -> dict[str, list[PairTally]]:
    pairs: dict[str, list[PairTally]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        try:
            for row in csv.DictReader(file):
                pairs.setdefault(row["dimension"], []).append(msgspec.convert(row, PairTally, strict=False))
        except (msgspec.ValidationError, UnicodeDecodeError, csv.Error, KeyError, TypeError) as error:
            raise RunFolderError(f"{path}: not a table of pairs ({error}). {again()}") from None
    return pairs


def _traces(folder: Path, results: EloResults) -> dict[str, dict[str, Floats]]:
    traces: dict[str, dict[str, Floats]] = {}
    rated = [name for name, lines in results.primary.items() if lines]
    if not rated:
        return traces
    path = require(folder / "elo_per_perm.npz", folder)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            for name in rated:
                data = np.asarray(arrays[f"{name}__data"], dtype=np.float64)
                traces[name] = dict(zip(map(str, arrays[f"{name}__entrants"]), data.T, strict=True))
    except (OSError, ValueError, KeyError, BadZipFile, EOFError) as error:
        raise RunFolderError(f"{path}: torn, or not the traces of this run ({error}). {again()}") from None
    return traces


def _board(folder: Path, dimension: str, judge: str | None) -> RatingsFile | None:
    """A dimension's Bradley–Terry board; made now for a run that writes neither boards nor battles.

    If the battles do not allow one, a run of ours writes the reason instead.
    """
    path = folder / "ratings" / f"{dimension}.json"
    if path.is_file():
        return read_board(path)
    if (folder / BATTLES).is_file():
        return None
    try:
        return RatingsFile.of(rate(folder, dimension=dimension), arena=dimension, judge_model=judge)
    except TiltyardError:
        return None


def read_board(path: Path, command: str = RUN) -> RatingsFile:
    """A ratings file of the run."""
    try:
        return RatingsFile.read(path)
    except (BattleError, TypeError) as error:
        raise RunFolderError(f"{path}: torn, or not a ratings file ({error}). {again(command)}") from None


def _texts(path: Path, shown: ShownImages) -> tuple[dict[str, Prompt], dict[tuple[str, str], str], set[str]]:
    """Every prompt and answer once, and the dimensions that have a match."""
    planned: set[str] = set()
    prompts: dict[str, Prompt] = {}
    answers: dict[tuple[str, str], str] = {}
    for place, match in read_lines(path, msgspec.json.Decoder(MatchLine)):
        name = match.prompt_id
        planned.add(match.dimension)
        if name not in prompts:
            asked = shown.add((name, None), match.prompt.whole_text, match.prompt_images)
            prompts[name] = msgspec.structs.replace(match.prompt, text=asked)
        texts = {
            match.entrant_a: shown.add((name, match.entrant_a), match.response_a, match.images_a),
            match.entrant_b: shown.add((name, match.entrant_b), match.response_b, match.images_b),
        }
        keep_answers(answers, name, texts, f"{path}:{place.number}")
    return prompts, answers, planned


def keep_answers(
    answers: dict[tuple[str, str], str], prompt_id: str, texts: Mapping[str, str], where: str, command: str = RUN
) -> None:
    """Add what the entrants answered to a prompt; no entrant has two answers to one prompt."""
    for entrant, answer in texts.items():
        if answers.setdefault((prompt_id, intern(entrant)), answer) != answer:
            raise RunFolderError(f"{where}: {entrant} has two different answers to {prompt_id}. {again(command)}")


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
        for image in images:
            if image not in self._known:
                self._known[image] = self._read(image)
        shown = [self._known[image] for image in images]
        urls = tuple(url for url in shown if url.startswith("data:"))
        if urls:
            self.pictures[whose] = urls
        reasons = dict.fromkeys(reason for reason in shown if not reason.startswith("data:"))
        left = f"; {len(shown) - len(urls)} not shown here: {', '.join(reasons)}" if reasons else ""
        return f"{text}\n\n({count_images(len(images))}{left})".lstrip()

    def _read(self, image: Image) -> str:
        """The image as a data URL, or why it is not shown."""
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
