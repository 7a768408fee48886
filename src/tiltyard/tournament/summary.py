"""The summary on the terminal: entrants by dimensions, mean ± SEM, and what other prompts could have given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.tournament.counts import failed_questions, own_counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltyard.judging.judge import JudgingResult
    from tiltyard.tournament.standings import DimensionRatings, EloLine


_MOST_NAMED = 3


def _range(line: EloLine) -> str:
    if line.sampling_low is None:
        return "no interval"
    return f"{line.sampling_low:.0f} … {line.sampling_high:.0f}"


def summary_table(standings: Mapping[str, DimensionRatings]) -> str:
    """Entrants × dimensions: permutation Elo ± shuffle error, the sampling interval below, decisive matches last."""
    entrants = sorted({name for standing in standings.values() for name in standing.elo})
    if not entrants:
        return "no Elo results: no dimension has a decisive match"
    header = ["entrant", *standings]
    rows = []
    for name in entrants:
        lines = [standing.elo.get(name) for standing in standings.values()]
        rows.append([name, *("–" if line is None else f"{line.mean:.1f} ± {line.sem:.2f}" for line in lines)])
        rows.append(["", *("" if line is None else _range(line) for line in lines)])
    rows.append(["decisive matches", *(f"{standing.n_decisive:,}" for standing in standings.values())])
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(cells: list[str]) -> str:
        rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        return "  ".join([cells[0].ljust(widths[0]), *rest]).rstrip()

    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join(
        [
            "Elo averaged over shuffles: mean ± SEM (shuffle error only), below it the 95 % sampling interval",
            line(header),
            rule,
            *map(line, rows[:-1]),
            rule,
            line(rows[-1]),
        ]
    )


def failure_lines(judged: JudgingResult) -> list[str]:
    """Per dimension that has any: the verdicts that failed, by name, and those that were never given."""
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
    """Per dimension: what was cached, what was asked, what it took."""
    lines = []
    for dimension, stats in judged.stats.items():
        usage = stats.usage
        failures = ", ".join(f"{count} {name}" for name, count in stats.failures.items())
        cost = "price unknown" if stats.cost is None else f"${stats.cost:,.2f}"
        if stats.replies_without_usage:
            cost += f", and unknown for {stats.replies_without_usage:,} replies whose tokens were not stated"
        lines.append(
            f"{dimension}: {stats.cache_hits:,} cached, {stats.fresh_calls:,} fresh; "
            f"cache written {usage.cache_creation_input_tokens:,}, read {usage.cache_read_input_tokens:,}; "
            f"input {usage.input_tokens:,}, output {usage.output_tokens:,} tokens; {cost}"
            + (f"; failed: {failures}" if failures else "")
            + (f"; {stats.missing:,} verdicts missing" if stats.missing else "")
        )
    return lines
