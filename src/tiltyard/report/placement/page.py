"""The report of a placement: what its sections show, as values; `templates/placement.html` makes the page."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiltyard.boards.text import footnotes, headline
from tiltyard.pages import svg
from tiltyard.pages.figures import plain_count
from tiltyard.placement.manifest import JudgeAgainstPeople, Round
from tiltyard.ratings.quantiles import normal_quantile
from tiltyard.report import sections
from tiltyard.report.boards import board_view, interval_head
from tiltyard.report.counts import Behaviour, behaviour, behaviour_by
from tiltyard.report.judged import JudgedBattle
from tiltyard.report.page import ReportKind, own_file, report_page, sibling_files
from tiltyard.report.placement.counts import OUTCOMES, Results, count_results, disagreements, expected_score, outcome
from tiltyard.report.placement.folder import UNKNOWN_LANGUAGE, Placement
from tiltyard.report.sections import Fact, HabitRow, fact, source_anchor, words
from tiltyard.report.site_map import MAIN, ONE_PAGE, Here, SiteMap

PLACES = {
    "meaning": "Meaning",
    "board": "Board",
    "rounds": "Rounds",
    "opponents": "Opponents",
    "languages": "Languages",
    "judge": "Judge",
    "calibration": "People",
    "families": "Families",
    "leave-one-out": "Leave one out",
    "examples": "Examples",
    "failures": "Failures",
    "left-out": "Left out",
    "usage": "Cost",
    "recompute": "Recompute",
    "run": "Run",
    "prompts": "Prompts",
    "battles": "Battles",
}
"""What the navigation calls each section, in the order of the page."""


def render_placement(placed: Placement) -> str:
    """The text of `report.html`; above `ONE_PAGE` judged battles it links to the files of `render_placement_site`.

    Parameters:
        placed: The placement.
    """
    return _main_page(Here(SiteMap(placed.run)), placed)


def render_placement_site(placed: Placement, one_page: int = ONE_PAGE) -> Iterator[tuple[str, str]]:
    """Every file of a placement's report, by its path in the run folder; `report.html` comes last.

    Parameters:
        placed: The placement.
        one_page: Up to how many judgments the report is one page; above, it has files beside it.
    """
    site_map = SiteMap(placed.run, one_page)
    yield from sibling_files(site_map, _kind(placed))
    yield MAIN, _main_page(Here(site_map), placed)


def _kind(placed: Placement) -> ReportKind:
    return ReportKind(
        title=f"{placed.model} among human battles: {placed.manifest.arena.name}",
        lists="report/placement_lists.html",
        pair_view=lambda here, key: opponent_view(here, placed, key),
        outcomes=OUTCOMES,
        style=own_file("placement/style.css"),
        script=own_file("placement/script.js"),
    )


def _main_page(here: Here, placed: Placement) -> str:
    run, manifest, kind = here.run, placed.manifest, _kind(placed)
    disagreeing = disagreements(placed)
    told = manifest.calibration.warnings if manifest.calibration else ()
    settled = [battle for battle in run.battles if battle.settled]
    values: dict[str, Any] = {
        "placed": placed,
        "manifest": manifest,
        "entry": placed.entry,
        "scale_words": manifest.scale.replace("'", "’"),
        "n_settled": len(settled),
        "n_opponents": len({placed.opponent(battle) for battle in settled}),
        "n_questions": len({battle.prompt_id for battle in settled}),
        "when": sections.when(run),
        "counted": count_results(placed, run.battles),
        "behaviour": behaviour(run.battles),
        "cost": sections.cost(run),
        "told": sections.common_warnings(run, [*told, *sections.disagreeing(disagreeing)]),
        "readings": _readings(placed),
        "level": interval_head(placed.board),
        "sampling_only": SAMPLING_ONLY,
        "floor": _floor(manifest.calibration),
        "board": board_view(placed.board, shown_places(len(placed.board), _place(placed)), placed.entry),
        "headline": headline(placed.board).replace("by question_id", "by question"),
        "notes": footnotes(placed.board),
        "rounds": _rounds(placed),
        "opponents": _opponents(here, placed),
        "languages": _languages(here, placed),
        "habits": _habits(placed),
        "against_people": _against_people(placed),
        "variance": _variance(manifest.calibration),
        "left_one_out": _left_one_out(placed),
        "examples": _examples(placed),
        "failures": sections.failures(run),
        "left_out": _left_out(placed),
        "usage": sections.usage(run),
        "commands": _commands(placed),
        "manifest_facts": _manifest_facts(run.manifest),
        "disagreements": len(disagreeing),
        "sources": sections.prompts_by_source(run),
        "by_opponent": [
            (str(key[2]), run.entrants[key[2]], len(battles)) for key, battles in here.site_map.by_pair.items()
        ],
        "pair_view": kind.pair_view,
    }
    absent = {
        "rounds": values["rounds"] is None,
        "languages": not values["languages"],
        "calibration": manifest.calibration is None,
        "families": manifest.families is None,
        "leave-one-out": manifest.leave_one_out is None,
        "examples": not values["examples"],
    }
    places = [(anchor, name) for anchor, name in PLACES.items() if not absent.get(anchor)]
    return report_page("report/placement.html", here, kind, places=places, **values)


AROUND = 8
"""Places above and below the model that the picture shows."""
ENDS = 2
"""Places at the top and at the bottom of the board that it shows too."""

SAMPLING_ONLY = "judge’s scale, sampling error only"

Reading = tuple[str, float, float | None, float | None]
"""What it is, the rating, and the two ends of its interval."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Ratings with their intervals, on one scale."""

    lines: list[Reading]
    scale: svg.Scale

    @classmethod
    def of(cls, lines: list[Reading]) -> Readings:
        """On a scale that holds them all."""
        return cls(lines, svg.Scale.of([end for _, *ends in lines for end in ends if end is not None]))


def _readings(placed: Placement) -> Readings:
    """The rating on people's scale, on the judge's own, or both."""
    entry = placed.entry
    own = entry.extra.get("judge_scale_rating")
    if placed.manifest.calibration is None or own is None:
        name = SAMPLING_ONLY if placed.manifest.calibration is None else "people’s scale, calibrated"
        return Readings.of([(name, entry.rating, entry.ci_low, entry.ci_high)])
    ends = (entry.extra.get("judge_scale_ci_low"), entry.extra.get("judge_scale_ci_high"))
    return Readings.of(
        [("people’s scale, calibrated", entry.rating, entry.ci_low, entry.ci_high), (SAMPLING_ONLY, own, *ends)]
    )


def _floor(calibration: JudgeAgainstPeople | None) -> tuple[float, float]:
    """The floor of the judge's error in points, and half the width of the interval that it allows."""
    floor = calibration.floor_points if calibration else 0.0
    return floor, normal_quantile(0.95) * floor


def _place(placed: Placement) -> int:
    return placed.board.entries.index(placed.entry)


def shown_places(n: int, place: int) -> list[int]:
    """The places to show: both ends and those around the model; a gap of one is filled."""
    wanted = {*range(ENDS), *range(place - AROUND, place + AROUND + 1), *range(n - ENDS, n)}
    wanted = {i for i in wanted if 0 <= i < n}
    return [i for i in range(n) if i in wanted or {i - 1, i + 1} <= wanted]


def _left_one_out(placed: Placement) -> Readings | None:
    """The placement beside people's own rating of the same model."""
    known, entry = placed.manifest.leave_one_out, placed.entry
    if known is None:
        return None
    return Readings.of(
        [
            ("placed by the judge", entry.rating, entry.ci_low, entry.ci_high),
            ("people’s own votes", known.human_rating, known.human_ci_low, known.human_ci_high),
        ]
    )


MOST_ROUNDS = 24


@dataclass(frozen=True, slots=True)
class RoundsView:
    """A row per round, more battles further down, so that the intervals make a funnel."""

    rows: list[tuple[Round, str]]
    """The rounds, each with the words of its picture."""
    scale: svg.Scale
    last: float
    n: int
    on_judges_scale: bool
    per_battle: float | None
    """How much a battle said, compared with one against a random opponent."""


def _rounds(placed: Placement) -> RoundsView | None:
    rounds = [line for line in placed.manifest.rounds if line.rating is not None]
    if not rounds:
        return None
    shown = rounds
    if len(rounds) > MOST_ROUNDS:  # evenly spaced, including the first and the last
        step = (len(rounds) - 1) / (MOST_ROUNDS - 1)
        shown = [rounds[round(step * i)] for i in range(MOST_ROUNDS)]
    scale = svg.Scale.of([end for one in shown for end in (one.rating, one.ci_low, one.ci_high) if end is not None])
    own, last = placed.entry.extra.get("judge_scale_rating"), placed.manifest.rounds[-1].rating
    nearer = own is not None and last is not None and abs(last - own) < abs(last - placed.entry.rating)
    information = placed.manifest.information
    return RoundsView(
        rows=[(one, f"{placed.model} after {one.battles} battles: {one.rating:.1f}") for one in shown],
        scale=scale,
        last=rounds[-1].rating or 0.0,
        n=len(rounds),
        on_judges_scale=placed.manifest.calibration is not None and nearer,
        per_battle=information.per_battle / information.limit if information and information.limit else None,
    )


@dataclass(frozen=True, slots=True)
class GroupRow:
    """The model's battles with one opponent or in one language."""

    name: str
    href: str
    rating: float | None
    counted: Results
    flips: int | None
    label: str


def _opponents(here: Here, placed: Placement) -> list[GroupRow]:
    """Every opponent, best first, with its rating and its battles with the model."""
    groups = placed.run.battles.grouped(placed.opponent)
    rows = []
    for name in placed.run.entrants:
        if name in groups:
            entry = placed.entries.get(name)
            href = here.pair(placed.dimension, placed.model, name)
            rows.append(_group(placed, name, href, groups[name], entry.rating if entry else None))
    return rows


def _languages(here: Here, placed: Placement) -> list[GroupRow]:
    """The same by the language of the question, where a language is known."""
    groups = placed.run.battles.grouped(placed.language)
    if set(groups) <= {UNKNOWN_LANGUAGE}:
        return []
    names = sorted(groups, key=lambda name: (-len(groups[name]), name))
    return [_group(placed, name, here.section(source_anchor(here, name)), groups[name]) for name in names]


def _group(
    placed: Placement, name: str, href: str, battles: Sequence[JudgedBattle], rating: float | None = None
) -> GroupRow:
    counted, flips = count_results(placed, battles), behaviour(battles).flips
    expected = "" if counted.expected is None else f", expected {100 * counted.expected:.0f} %"
    label = f"{name}: score {100 * (counted.score or 0.0):.0f} % of {counted.n}{expected}"
    return GroupRow(name, href, rating, counted, flips.hits if flips.n else None, label)


def _habits(placed: Placement) -> list[tuple[str, list[HabitRow]]]:
    """The judge's habits: overall, and by language where there are several."""
    groups = [("", [HabitRow("all judgments", behaviour(placed.run.battles))])]
    by_language: list[tuple[str, Behaviour]] = sorted(
        behaviour_by(placed.run.battles, placed.language).items(), key=lambda group: (-group[1].first_slot.n, group[0])
    )
    if len(by_language) > 1:
        groups.append(("by language", [HabitRow(name, habits) for name, habits in by_language]))
    return groups


VARIANCE = {
    "sampling": "sampling: which questions and battles were judged",
    "idiosyncrasy": "idiosyncrasy: the judge’s bias for or against single models",
    "slope": "slope: how the judge’s scale differs from people’s",
    "anchors": "anchors: uncertainty of the opponents’ ratings",
}
PEOPLE = {"one": "one of the two", "tie": "a tie", "both bad": "both bad"}
JUDGE = {
    "same": "the same one",
    "other": "the other one",
    "one": "one of the two",
    "tie": "a tie",
    "changed": "changed with the order",
    "failed": "failed",
}


def _against_people(placed: Placement) -> tuple[list[str], list[tuple[str, list[int | None]]]]:
    """The judge's labels by people's labels: the counts behind the agreement."""
    counts = placed.against_people
    columns = [word for word in JUDGE if any(label == word for _, label in counts)]
    rows = [
        (name, [counts.get((people, word)) for word in columns])
        for people, name in PEOPLE.items()
        if any(label == people for label, _ in counts)
    ]
    return [JUDGE[word] for word in columns], rows


@dataclass(frozen=True, slots=True)
class VarianceView:
    """The sources of the uncertainty: their variances, and rows of `(words, share, standard error)`."""

    parts: list[float]
    label: str
    rows: list[tuple[str, float, float]]


def _variance(calibration: JudgeAgainstPeople | None) -> VarianceView | None:
    variances = {} if calibration is None else calibration.variance_points2
    parts = {name: variances[name] for name in VARIANCE if name in variances}
    whole = sum(parts.values())
    if not whole > 0:
        return None
    label = ", ".join(f"{name} {100 * part / whole:.0f} %" for name, part in parts.items())
    rows = [(VARIANCE[name], part / whole, part**0.5) for name, part in parts.items()]
    return VarianceView(list(parts.values()), label, rows)


OF_EACH = 2
TITLES = {"won": "Won", "lost": "Lost", "tie": "Tied", "inconsistent": "Changed with the order"}
SURPRISING_SCORE = {"won": 1.0, "lost": 0.0}


def _examples(placed: Placement) -> list[tuple[str, list[JudgedBattle]]]:
    """Wins over the strongest, losses to the weakest, ties and changed verdicts with the most unequal."""
    groups = [(title, surprising(placed, kind)) for kind, title in TITLES.items()]
    return [(title, battles) for title, battles in groups if battles]


def surprising(placed: Placement, kind: str) -> list[JudgedBattle]:
    """The least likely battles of an outcome, of different opponents."""
    happened = SURPRISING_SCORE.get(kind, 0.5)

    def likely(battle: JudgedBattle) -> float:
        expected = expected_score(placed, placed.opponent(battle))
        return 1.0 if expected is None else 1.0 - abs(happened - expected)

    chosen: dict[str, JudgedBattle] = {}
    for battle in sorted((b for b in placed.run.battles if outcome(placed.model, b) == kind), key=likely):
        chosen.setdefault(placed.opponent(battle), battle)
    return list(chosen.values())[:OF_EACH]


def _left_out(placed: Placement) -> list[str]:
    """Every battle that is in no rating, with the reason."""
    lines = [f"{plain_count(count)} × {reason}" for reason, count in placed.board.left_out.items()]
    failed = placed.manifest.judged.failed
    if failed:
        named = ", ".join(f"{count} {name}" for name, count in placed.manifest.judged.failed_by.items())
        lines.append(f"{failed:,} judged battles that failed" + (f" ({named})" if named else ""))
    return lines


ELSEWHERE = (
    *("kind", "looks", "rounds", "stopped", "judged", "flips", "calibration", "leave_one_out", "information"),
    *("sensitivity", "families"),
)
"""Parts of the manifest that have their own sections."""

RATE_DEFAULTS = {"--ties": "davidson", "--both-bad": "separate", "--inconsistent": "tie"}


def rate_command(placed: Placement) -> str:
    """The command that fits the recorded battles again with the recorded parameters."""
    report = placed.report
    interval = report.details.get("interval") or {}
    parts = ["tiltyard", "rate", "battles.jsonl", "--evaluated", placed.model]
    kind = str(interval.get("kind") or "none")
    parts += ["--ci", kind]
    if kind == "bootstrap":
        parts += ["--rounds", str(report.n_bootstraps), "--seed", str(report.seed)]
    if interval.get("level") not in (None, 0.95):
        parts += ["--level", f"{interval['level']:g}"]
    recorded = {option: report.details.get(_key(option)) for option in RATE_DEFAULTS}
    for option, value in recorded.items():
        if value is not None and value != RATE_DEFAULTS[option]:
            parts += [option, str(value)]
    anchor = report.details.get("anchor")
    if anchor:
        parts += ["--anchor", f"{anchor['model']}={anchor['rating']:g}"]
    return shlex.join(parts)


def _key(option: str) -> str:
    return {"--ties": "tie_model"}.get(option, option.removeprefix("--").replace("-", "_"))


def _commands(placed: Placement) -> tuple[str, list[str]]:
    """The commands that rebuild the numbers from the files of this folder alone, and what they reproduce."""
    whole, manifest = "tiltyard place --recompute .", placed.manifest
    reasons = [
        ("is calibrated", manifest.calibration is not None),
        ("holds people’s ratings fixed", bool(manifest.options.get("fixed_anchors"))),
        ("has intervals that allow for repeated checks", manifest.looks.critical is not None),
    ]
    special = " and ".join(reason for reason, holds in reasons if holds)
    inline = manifest.options.get("inline_human", True)
    if special:
        sentence = f"This placement {special}: the first command reproduces its numbers"
        sentence += ", the second fits the judge’s battles and people’s together." if inline else "."
    else:
        sentence = f"{'Either' if inline else 'It'} reproduces the ratings on this page."
    return sentence, [whole, rate_command(placed)] if inline else [whole]


def _manifest_facts(manifest: Mapping[str, Any]) -> list[tuple[str, Fact]]:
    return [(words(key), fact(value, key)) for key, value in manifest.items() if key not in ELSEWHERE]


@dataclass(frozen=True, slots=True)
class OpponentView:
    """The battles with one opponent: each with its outcome for the model and the verdicts in both orders."""

    anchor: str
    number: int
    model: str
    opponent: str
    rating: float | None
    counted: Results
    battles: Iterable[tuple[JudgedBattle, str, str, str]]


def opponent_view(here: Here, placed: Placement, key: tuple[int, int, int]) -> OpponentView:
    """The battles with one opponent."""
    opponent, battles = here.run.entrants[key[2]], here.site_map.by_pair[key]
    entry = placed.entries.get(opponent)
    return OpponentView(
        anchor="m{}-{}-{}".format(*key),
        number=key[2],
        model=placed.model,
        opponent=opponent,
        rating=entry.rating if entry else None,
        counted=count_results(placed, battles),
        battles=(
            (
                battle,
                outcome(placed.model, battle),
                battle.word_when_first(placed.model),
                battle.word_when_first(placed.opponent(battle)),
            )
            for battle in battles
        ),
    )
