"""`compare`: is the new one better than the old one, by how much, how sure, and on which prompts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tiltyard.analysis.boards import Leaderboard, RatingsFile
from tiltyard.analysis.decisions import (
    Difference,
    MetricsComparison,
    RatingDifference,
    RunComparison,
    ScoreDifference,
    battle_source,
    compare_models,
    compare_ratings,
    compare_runs,
    is_run_folder,
)
from tiltyard.analysis.decisions.compare_scores import compare_scores
from tiltyard.data.battles import Opened
from tiltyard.data.scores import ReadScoresOptions, holds_scores
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import CompareOptions, accepts_options
from tiltyard.verbs.places import open_battles


@accepts_options(CompareOptions)
def compare(new: Any, old: Any, options: CompareOptions) -> Difference | Any:
    """Is the new one better than the old one, by how much, how sure, and on which prompts.

    From battles a `Difference` in rating points; from scores of answers, which have no winner, one in the unit of the
    scores (by several metrics a `MetricsComparison`). Of two runs, or two boards, a `RunComparison`: what moved.

    Parameters:
        new: The new model, with `battles`. Without: a new run (a folder, files, a frame, rows of battles), its file of
            scores, or a board (a `Leaderboard`, or a ratings file).
        old: What it is compared with.
    """
    battles, known = open_battles(options.battles, options)
    reading = options.part(ReadScoresOptions)
    if battles is not None:
        data = Opened.of(battles)
        if holds_scores(data, reading):
            return _by_scores(compare_scores(data, new, old, known))
        page = partial(_page_of_models, data, options)
        return replace(compare_models(data, new, old, known), page=page)
    for one in (new, old):
        if isinstance(one, str | Path) and not Path(one).exists() and "*" not in str(one):
            where = OptionValue("battles", "battles.jsonl")
            raise OptionError(f"there is no file or folder {one}. To compare two models, say where they met: ", where)
    now, then = _board(new, "new board"), _board(old, "old board")
    if now is not None and then is not None:
        return replace(compare_ratings(now, then, options), page=partial(_page_of_runs, new, old))
    first = Opened.of(new)
    sides = first, Opened(old, like=first)
    if all(holds_scores(one, reading) for one in sides):
        return _by_scores(compare_scores(None, *sides, options))
    return replace(compare_runs(*sides, options), page=partial(_page_of_runs, new, old))


def _board(data: Any, name: str) -> tuple[str, RatingsFile] | None:
    """A board and its name, as it is or from its ratings file; None where it is none."""
    if isinstance(data, Leaderboard | RatingsFile):
        return name, data if isinstance(data, RatingsFile) else RatingsFile.of(data)
    path = Path(data) if isinstance(data, str | Path) else Path()
    is_board = path.suffix == ".json" and path.is_file() and b'"ratings"' in path.read_bytes()
    return (str(data), RatingsFile.read(path)) if is_board else None


def _by_scores(answers: dict[str, ScoreDifference]) -> ScoreDifference | MetricsComparison:
    if len(answers) == 1:
        return replace(*answers.values(), page=_page_of_scores)
    return MetricsComparison(answers, page=_page_of_scores)


def _page_of_scores(answer: ScoreDifference | MetricsComparison) -> str:
    from tiltyard.reports import score_page

    return score_page([answer] if isinstance(answer, ScoreDifference) else list(answer.metrics.values()))


def _page_of_models(battles: Any, options: CompareOptions, answer: RatingDifference) -> str:
    """The self-contained page with the grid of prompts, from the counted battles behind the answer."""
    from tiltyard.analysis.boards import Selection, select
    from tiltyard.data.battles import concat, read_battles
    from tiltyard.options import ReadingOptions
    from tiltyard.reports import comparison_page, run_behind

    origin = battle_source(battles)
    kept = select(read_battles(origin.battles, **vars(options.part(ReadingOptions))), options.part(Selection))
    run = None if origin.folder is None else run_behind(origin.folder)
    texts = {prompt.prompt: prompt.text for prompt in answer.prompts if prompt.text is not None}
    return comparison_page(answer, concat([kept.table, kept.both_bad]), run=run, texts=texts)


def _page_of_runs(new: Any, old: Any, answer: RunComparison) -> str:
    """The page of two runs, with answers and the judge's words where both are run folders."""
    from tiltyard.reports import run_behind, runs_page

    folders = [Path(one) for one in (new, old) if isinstance(one, str | Path) and is_run_folder(Path(one))]
    if len(folders) < 2:
        return runs_page(answer)
    return runs_page(answer, new=run_behind(folders[0]), old=run_behind(folders[1]))
