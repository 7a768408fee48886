"""The terminal summary of a run, the counts behind it, and the pilot's gate: go or no-go, with reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import msgspec

from tiltyard.boards import as_table
from tiltyard.judging import MOST_INCONSISTENT, Check, JudgingResult, add_stats, scores_of
from tiltyard.pages import Table, plural
from tiltyard.tournament.artifacts import failed_questions, own_counts
from tiltyard.tournament.ratings import DimensionRatings, baseline_text
from tiltyard.tournament.scoring import DimensionScores, RunScores

_MOST_NAMED = 3
MOST_VALUES = 12
"""With more different scores than this, how often each was given is not listed."""


def summary_table(standings: Mapping[str, DimensionRatings]) -> str:
    """Entrants × dimensions: permutation Elo ± shuffle error, the sampling interval below, decisive matches last.

    The highest mean over the dimensions comes first.
    """
    ratings: dict[str, list[float]] = {}
    for standing in standings.values():
        for name, elo in standing.elo.items():
            ratings.setdefault(name, []).append(elo.mean)
    entrants = sorted(ratings, key=lambda name: (-sum(ratings[name]) / len(ratings[name]), name))
    if not entrants:
        return "no Elo results: no dimension has a decisive match"
    header = ["entrant", *standings]
    rows = []
    for name in entrants:
        means, ranges = [name], [""]
        for line in (standing.elo.get(name) for standing in standings.values()):
            sem = "" if line is None or line.sem is None else f" ± {line.sem:.2f}"
            means.append("–" if line is None else f"{line.mean:.1f}{sem}")
            if line is None or line.sampling_low is None:
                ranges.append("" if line is None else "no interval")
            else:
                ranges.append(f"{line.sampling_low:.0f} … {line.sampling_high:.0f}")
        rows += [means, ranges]
    rows.append(["decisive matches", *(f"{standing.n_decisive:,}" for standing in standings.values())])
    title = "Elo averaged over shuffles: mean ± shuffle error only; below it the 95 % interval over prompts"
    return "\n".join([title, *Table.of(header, rows).text(last=1)])


def board_text(standing: DimensionRatings) -> str:
    """A dimension's Bradley–Terry board, or why there is none, and below it what the judge's habits mean for it.

    In a run against a baseline, the win rates against it come first.
    """
    board = standing.leaderboard
    against = [] if standing.against is None else [baseline_text(standing.against), ""]
    table = f"no board: {standing.board_missing}" if board is None else as_table(board)
    return "\n".join([*against, table, *standing.habits.lines()])


def canary_lines(canaries: Mapping[str, Any]) -> list[str]:
    """Per dimension: how the judge did on the canaries, and of each that it missed, what it said."""
    lines = []
    for dimension, scores in canaries.items():
        missed, undecided = scores["missed"], scores["asked"] - scores["right"] - len(scores["missed"])
        ties = f", {undecided} tied, which this rubric allows" if undecided else ""
        if not missed:
            lines.append(f"{dimension}: canaries: {scores['right']} of {scores['asked']} right{ties}")
            continue
        lines.append(
            f"WARNING: {dimension}: the judge missed {len(missed)} of {scores['asked']} canaries, pairs with a clearly "
            f"better answer{ties}. Do not trust this board; try another judge or a clearer rubric"
        )
        lines += [f"  {one['canary']} ({one['kind']}): {one['answer']}" for one in missed]
    return lines


def failure_lines(judged: JudgingResult) -> list[str]:
    """Per dimension that has any: the failed verdicts, by name, and the missing ones."""
    lines = []
    for dimension in judged.judgments:
        counts = own_counts(judged, dimension)
        words = [f"{count:,} {name}" for name, count in counts.failed_verdicts.items()]
        words += [f"{counts.missing_verdicts:,} never asked for"] if counts.missing_verdicts else []
        if words:
            lines.append(f"{dimension}: verdicts that failed, which are in no rating: {', '.join(words)}")
            shown = failed_questions(judged, dimension, most=_MOST_NAMED)
            lines += [f"  {one.prompt_id}, {one.entrant_a} – {one.entrant_b}: {one.error}" for one in shown]
            more = counts.failed_verdicts.total() - len(shown)
            lines += [f"  and {more:,} more, named in the report"] if more else []
    return lines


def usage_lines(judged: JudgingResult) -> list[str]:
    """Per dimension: what was cached, what was asked, and its cost."""
    lines = []
    for dimension, stats in judged.stats.items():
        usage = stats.usage
        failures = ", ".join(f"{count} {name}" for name, count in stats.failures.items())
        cost = "price unknown" if stats.cost is None else f"${stats.cost:,.2f}"
        if stats.replies_without_usage:
            cost += f", and unknown for {plural(stats.replies_without_usage, 'reply')} whose tokens were not stated"
        lines.append(
            f"{dimension}: {stats.cache_hits:,} cached, {stats.fresh_calls:,} fresh; "
            f"cache written {usage.cache_creation_input_tokens:,}, read {usage.cache_read_input_tokens:,}; "
            f"input {usage.input_tokens:,}, output {usage.output_tokens:,} tokens; {cost}"
            + (f"; failed: {failures}" if failures else "")
            + (f"; {stats.missing:,} verdicts missing" if stats.missing else "")
        )
    for judge, of_dimensions in judged.panel.member_stats.items() if judged.panel is not None else ():
        stats = reduce(add_stats, of_dimensions.values())
        cost = "price unknown" if stats.cost is None else f"${stats.cost:.2f}"
        failed = sum(stats.failures.values())
        lines.append(
            f"{judge}: {stats.cache_hits:,} cached, {stats.fresh_calls:,} fresh; "
            f"input {stats.usage.input_tokens:,}, output {stats.usage.output_tokens:,} tokens; {cost}"
            + (f"; {failed:,} questions failed" if failed else "")
        )
    return lines


MOST_FAILED = 0.05
"""Above this share of failed judgments the judge does not follow the rubric; more money will not fix that."""

FEWEST_DECISIVE = 10
"""Below this many decisive matches a dimension cannot order even two entrants."""


def answers_check(cells_present: int, cells_expected: int, left_out: Sequence[str]) -> Check:
    """Whether every entrant answered everything."""
    return Check(
        "answers complete",
        cells_present == cells_expected and not left_out,
        f"{cells_present} of {cells_expected} cells"
        + (f", and no answers of {', '.join(left_out)}" if left_out else ""),
    )


def gate(
    answers: Check,
    judged: JudgingResult,
    standings: Mapping[str, DimensionRatings],
    canaries: Mapping[str, Any] | None = None,
    scores: Mapping[str, DimensionScores] | None = None,
) -> list[Check]:
    """The checks of every dimension, after that of the answers; `canaries` as `canary_report` gives them."""
    by_votes = judged.panel is not None and judged.panel.combine != "rows"
    why = "have no majority" if by_votes else "changed with the order of the answers"
    checks = [answers]
    for dimension, standing in standings.items():
        failures = own_counts(judged, dimension).failed_verdicts
        names = ", ".join(f"{count} {name}" for name, count in failures.items()) or "none"
        settled = sum(pair.a_wins + pair.b_wins + pair.ties for pair in standing.pairs)
        cases = own_counts(judged, dimension).judgments
        failed = cases - settled
        contradicted = sum(pair.inconsistent for pair in standing.pairs)
        checks += [
            Check(
                f"{dimension}: verdicts readable",
                failed <= MOST_FAILED * max(cases, 1),
                f"{failed} of {cases} judgments failed ({names})",
            ),
            Check(
                f"{dimension}: judge consistent",
                contradicted <= MOST_INCONSISTENT * max(settled, 1),
                f"{contradicted} of {settled} judgments {why}",
            ),
            Check(
                f"{dimension}: enough decisive matches",
                standing.n_decisive >= FEWEST_DECISIVE,
                f"{standing.n_decisive} decisive",
            ),
        ]
        checks += _canary_checks(dimension, canaries)
    for dimension, own in (scores or {}).items():
        name = scores_of(dimension)
        names = ", ".join(f"{count} {word}" for word, count in own.failures.items()) or "none"
        told = [warning for one in own.metrics if (warning := one.use.warning(one.metric))]
        checks += [
            Check(
                f"{name}: scores readable",
                own.failed <= MOST_FAILED * max(own.answers, 1),
                f"{own.failed} of {own.answers} answers failed ({names})",
            ),
            Check(f"{name}: scale used", not told, "; ".join(told) or "scores vary"),
            *_canary_checks(name, canaries),
        ]
    return checks


def _canary_checks(dimension: str, canaries: Mapping[str, Any] | None) -> list[Check]:
    if not canaries or dimension not in canaries:
        return []
    missed, asked = [one["canary"] for one in canaries[dimension]["missed"]], canaries[dimension]["asked"]
    detail = f"missed {len(missed)} of {asked}: {', '.join(missed)}" if missed else f"{asked} judged"
    return [Check(f"{dimension}: no canary missed", not missed, detail)]


def score_text(scores: RunScores) -> str:
    """The boards of means, the judge's use of its scale, and what scores and pairs cost."""
    lines: list[str] = []
    for dimension, own in scores.dimensions.items():
        for board in scores.boards[dimension]:
            lines += [*board.table().text(), ""]
        for metric in own.metrics:
            given = ", ".join(f"{value} in {count:,}" for value, count in metric.use.given.items())
            if len(metric.use.given) <= MOST_VALUES:
                lines.append(f"{metric.metric}: scores {own.scale}, given: {given or 'none'}")
            if metric.people is not msgspec.UNSET:
                both = metric.people
                matched = "–" if both.correlation is None else f"{both.correlation:.2f}"
                lines.append(
                    f"{metric.metric}: people scored {both.answers:,} of these answers: correlation {matched}, the "
                    f"judge {both.judge_minus_people:+.2f} on average, {both.equal:.0%} equal"
                )
            for one in () if metric.corrected is msgspec.UNSET else metric.corrected:
                ends = "" if one.low is None or one.high is None else f" ({one.low:+.2f} to {one.high:+.2f})"
                lines.append(
                    f"{metric.metric}, corrected by people: {one.new} − {one.old} {one.difference:+.2f}{ends}; the "
                    f"judge counts {one.judge_weight:.2f}"
                )
            if metric.corrected is not msgspec.UNSET:
                lines.append(
                    f"{metric.metric}: that holds if the prompts that people scored are a random draw; nothing "
                    "records how they were drawn"
                )
        if own.against_pairs is not msgspec.UNSET:
            lines.append(f"{dimension}: {own.against_pairs.sentence}")
        lines += [f"WARNING: {line}" for line in own.warnings]
        lines.append("")
    return "\n".join(lines).rstrip()


def passes(checks: Sequence[Check]) -> bool:
    """Whether the pilot says GO."""
    return all(check.passed for check in checks)


def verdict_lines(checks: Sequence[Check]) -> list[str]:
    """The gate as text: GO or NO-GO, then every check."""
    head = "GO: the pilot found nothing against the headline run" if passes(checks) else "NO-GO: see what failed below"
    return [head, *(f"  {'ok  ' if check.passed else 'FAIL'} {check.check}: {check.detail}" for check in checks)]
