"""What is to be judged, and by what: rubrics, and cases in order, by dimension."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TypeVar, overload

import msgspec

from tiltyard.data.bank import Image, Prompt, Response
from tiltyard.errors import JudgingError
from tiltyard.judge.verdicts.records import Matchup
from tiltyard.judge.verdicts.scoring import Scoring

HEADER = re.compile(r"#\s*(version|needs|shows)\s*:\s*(.*)", re.IGNORECASE)
NEEDS = "gold_answer"
SHOWS = "expected_behavior"
HOW_TO_STATE = "To set one, start the file with a line such as `# version: 1`"
GOLD_DIMENSION = "factuality"
"""A dimension with this name always needs a gold answer, because facts must be checked against something."""


class Rubric(msgspec.Struct, frozen=True):
    """What a dimension is judged by."""

    dimension: str
    """What is judged; each dimension has one rubric."""
    version: str
    """Its version."""
    text: str
    """Everything below the header lines, as the judge reads it."""
    needs_gold: bool = False
    """Whether only prompts with a gold answer are judged; the judge sees it."""
    shows_expected: bool = False
    """Whether the judge sees the expected behaviour."""
    version_note: str = ""
    """What to tell the user if the file states no version, so that its hash is the version."""

    @classmethod
    def load(cls, dimension: str, path: str | Path) -> Rubric:
        """The rubric of a file that starts with `# version: …` and maybe more header lines.

        Without a version, the hash of the file's text is its version.
        """
        path = Path(path)
        try:
            content = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise JudgingError(f"there is no rubric for {dimension!r} at {path}. Check the path.") from None
        except OSError as error:
            raise JudgingError(f"cannot read the rubric {path}: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise JudgingError(f"the rubric {path} is not UTF-8 text. Save it as UTF-8.") from None
        return cls.parse(dimension, content, str(path))

    @classmethod
    def parse(cls, dimension: str, content: str, where: str) -> Rubric:
        """Parse a rubric; `where` names it in errors."""
        header, body = _split_header(content)
        if not body:
            raise JudgingError(f"{where}: the rubric has no text. Say what the judge should look at.")
        for name, allowed in (("needs", NEEDS), ("shows", SHOWS)):
            for word in _words(header, name) - {allowed}:
                raise JudgingError(f"{where}: `# {name}: {word}` is not known. The only word there is `{allowed}`.")
        stated = next((value for name, value in header if name == "version" and value), None)
        version = stated or f"sha256-{hashlib.sha256(content.strip().encode()).hexdigest()[:12]}"
        return cls(
            dimension=dimension,
            version=version,
            text=body,
            needs_gold=NEEDS in _words(header, "needs") or dimension == GOLD_DIMENSION,
            shows_expected=SHOWS in _words(header, "shows"),
            version_note="" if stated else f"{where} states no version, so its hash is used: {version}. {HOW_TO_STATE}",
        )


def default_rubric(dimension: str = "quality") -> Rubric:
    """The general-quality rubric that ships with Tiltyard, for pairs without a rubric.

    Parameters:
        dimension: What is judged; each dimension has one rubric.
    """
    file = resources.files("tiltyard.judge.verdicts").joinpath("rubrics/quality.md")
    return Rubric.parse(dimension, file.read_text(encoding="utf-8"), "the rubric of the package")


def _split_header(content: str) -> tuple[list[tuple[str, str]], str]:
    """The header lines at the top as (name, value), and the text below them."""
    lines = content.strip().splitlines()
    header: list[tuple[str, str]] = []
    for place, line in enumerate(lines):
        match = HEADER.fullmatch(line.strip())
        if not match and line.strip():
            return header, "\n".join(lines[place:]).strip()
        if match:
            header.append((match[1].lower(), match[2].strip()))
    return header, ""


def _words(header: list[tuple[str, str]], name: str) -> set[str]:
    return {word for key, value in header if key == name for word in re.split(r"[,\s]+", value) if word}


Item = TypeVar("Item")


class CaseImages(msgspec.Struct, frozen=True):
    """The images of a case, by what they belong to."""

    prompt: tuple[Image, ...] = ()
    answer_a: tuple[Image, ...] = ()
    answer_b: tuple[Image, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.prompt or self.answer_a or self.answer_b)


NO_IMAGES = CaseImages()


class Case(msgspec.Struct, frozen=True):
    """One matchup with everything a judge is shown; or one answer, to be scored, as `response_a`."""

    matchup: Matchup
    """The planned comparison."""
    prompt: Prompt
    """What was asked."""
    response_a: str
    """The first answer."""
    response_b: str
    """The second answer."""
    images: CaseImages = NO_IMAGES
    """The images that belong to them."""


class JudgingPlan(msgspec.Struct, frozen=True):
    """All cases of a run by dimension, each with its rubric; judgments come back in the same order."""

    rubrics: Mapping[str, Rubric]
    """The rubric of each dimension."""
    cases: Mapping[str, Sequence[Case]]
    """What is judged: matchups with their texts."""
    canaries: Mapping[str, Sequence[Case]] = msgspec.field(default_factory=dict)
    """Judged along with the cases, but kept separate in the result."""
    scoring: Mapping[str, Scoring] = msgspec.field(default_factory=dict)
    """The dimensions whose cases are one answer each, to be scored, and how; all others are judged in pairs."""

    def __post_init__(self) -> None:
        for dimension in (*self.cases, *self.canaries):
            if dimension not in self.rubrics:
                raise JudgingError(
                    f"dimension {dimension!r} has cases but no rubric. Configure rubrics.{dimension}.path."
                )

    @classmethod
    def build(
        cls,
        matchups: Iterable[Matchup],
        prompts: Iterable[Prompt],
        responses: Mapping[str, Mapping[str, Response]],
        rubrics: Mapping[str, Rubric],
        canaries: Mapping[str, Sequence[Case]] | None = None,
    ) -> JudgingPlan:
        """The judging plan of some matchups; `responses` are those of each entrant by prompt id."""
        by_id = {prompt.prompt_id: prompt for prompt in prompts}
        cases: dict[str, list[Case]] = {dimension: [] for dimension in rubrics}
        for matchup in matchups:
            if matchup.prompt_id not in by_id:
                raise JudgingError(f"a matchup names prompt {matchup.prompt_id!r}, which is not in the bank.")
            case = Case(
                matchup,
                by_id[matchup.prompt_id],
                _answer(responses, matchup.entrant_a, matchup.prompt_id),
                _answer(responses, matchup.entrant_b, matchup.prompt_id),
            )
            cases.setdefault(matchup.dimension, []).append(case)
        return cls(rubrics, cases, canaries or {})

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions, in the order of their rubrics."""
        return tuple(self.rubrics)

    @property
    def pair_dimensions(self) -> tuple[str, ...]:
        """The dimensions that are judged in pairs."""
        return tuple(name for name in self.rubrics if name not in self.scoring)

    def cases_and_canaries(self, dimension: str) -> Sequence[Case]:
        """The cases of a dimension followed by its canaries."""
        cases, canaries = self.cases.get(dimension, ()), self.canaries.get(dimension, ())
        n = len(cases)
        return LazySequence(n + len(canaries), lambda place: cases[place] if place < n else canaries[place - n])


class LazySequence(Sequence[Item]):
    """Items that are made when they are looked at, so that a million take no more memory than a dozen."""

    def __init__(self, length: int, make: Callable[[int], Item]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    def __reduce__(self) -> tuple[type[list[Item]], tuple[list[Item]]]:
        return list, (list(self),)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        numbers = range(self._length)[place]
        return self._make(numbers) if isinstance(numbers, int) else [self._make(number) for number in numbers]

    def __iter__(self) -> Iterator[Item]:
        return map(self._make, range(self._length))


def scores_of(dimension: str) -> str:
    """What the scores of a dimension are called in a plan, and in caches, quotes and usage."""
    return f"{dimension} scores"


def single_answers(case: Case, dimension: str) -> tuple[Case, Case]:
    """The two answers of a case, each alone, to be scored."""
    matchup, images = case.matchup, case.images
    alone = []
    for name, text, own in (
        (matchup.entrant_a, case.response_a, images.answer_a),
        (matchup.entrant_b, case.response_b, images.answer_b),
    ):
        about = Matchup(prompt_id=matchup.prompt_id, dimension=dimension, entrant_a=name, entrant_b="")
        alone.append(Case(about, case.prompt, text, "", CaseImages(images.prompt, own)))
    return alone[0], alone[1]


def case_of_each(cases: Sequence[Case], judgments: int) -> Sequence[Case]:
    """The case of every judgment where there may be several for each case, one after the other."""
    times = max(1, judgments // max(1, len(cases)))
    return LazySequence(len(cases) * times, lambda number: cases[number // times])


def _answer(responses: Mapping[str, Mapping[str, Response]], entrant: str, prompt_id: str) -> str:
    try:
        return responses[entrant][prompt_id].response_text
    except KeyError:
        raise JudgingError(
            f"{entrant!r} has no answer to prompt {prompt_id!r}. Generate it, or drop the prompt."
        ) from None
