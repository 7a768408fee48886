"""Score files for `compare`, `gate`, `plan` and `rate`: which arguments are scores, and the answers from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tiltyard.cli.output import Format, as_flag
from tiltyard.errors import Message, OptionError, OptionValue, ScoreError
from tiltyard.options import CompareOptions, ScoreBoardOptions, options_of

if TYPE_CHECKING:
    from tiltyard.decisions.score_board import ScoreBoard
    from tiltyard.scores import ScoreTable


def _of(kind: type, given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in options_of(kind)}


def are_scores(data: Sequence[str], given: dict[str, Any]) -> bool:
    """Whether files hold scores, by their columns; a database or a missing file does not."""
    from tiltyard.scores import ReadScoresOptions, holds_scores

    if any(place.startswith(("sqlite:", "postgresql:", "postgres:")) for place in data):
        return False
    return holds_scores(list(data), ReadScoresOptions(**_of(ReadScoresOptions, given)))


def read_score_files(data: Sequence[str], given: dict[str, Any]) -> tuple[list[ScoreTable], CompareOptions]:
    """The scores by metric, with the options of a comparison."""
    from tiltyard.decisions.scores import check_no_battles, read_to_compare_scores

    options = CompareOptions(**_of(CompareOptions, given))
    check_no_battles(options)
    strange = [name for name in given if name not in options_of(CompareOptions)]
    if strange:
        raise OptionError(OptionValue(strange[0], None), " says nothing about scores: leave it out.")
    return read_to_compare_scores(list(data), options), options


def two_names(tables: Sequence[ScoreTable], new: str, old: str) -> tuple[str, str]:
    """The models of two files, of which each holds one."""
    names = []
    for given, models in zip((new, old), tables[0].sources, strict=True):
        if not models:
            raise ScoreError(f"{given} has no row with a score. Check what wrote it.")
        if len(models) != 1:
            some = ", ".join(models[:6])
            example = f"tiltyard compare {models[-1]} {models[0]} --in {given}"
            raise OptionError(f"{given} holds scores of {len(models)} models ({some}): name two of them: {example}")
        names.append(models[0])
    return names[0], names[1]


def with_flags(notes: Sequence[str]) -> tuple[str, ...]:
    """Notes with their options spelled as on the command line."""
    return tuple(one.spelled(as_flag) if isinstance(one, Message) else one for one in notes)


def boards_of_files(files: Sequence[str], given: dict[str, Any]) -> list[ScoreBoard]:
    """Boards of mean scores, one for each metric; options that have no effect on them are refused."""
    from tiltyard.decisions.score_board import score_boards
    from tiltyard.decisions.scores import ABOUT_BATTLES

    strange = [name for name in given if name not in options_of(ScoreBoardOptions) or name in ABOUT_BATTLES]
    if strange:
        raise OptionError(
            OptionValue(strange[0], None),
            " is about ratings, and these are scores: leave it out, or make battles of them with ",
            OptionValue("as_battles", None),
            ".",
        )
    return score_boards(list(files), **given)


def boards_text(boards: Sequence[ScoreBoard], shape: Format) -> str:
    """Boards of mean scores in a format."""
    if shape == "json":
        return (
            boards[0].to_json()
            if len(boards) == 1
            else json.dumps({"metrics": [b.to_dict() for b in boards]}, indent=2)
        )
    if shape == "csv":
        return "".join(board.csv(head=place == 0) for place, board in enumerate(boards))
    if shape == "md":
        from tiltyard.pages.tables import markdown_text

        return "\n\n".join(
            f"{board.table().markdown()}\n\n" + "\n".join(f"- {markdown_text(n)}" for n in board.notes)
            for board in boards
        )
    if shape == "latex":
        return "\n\n".join(board.table().latex(f"Mean {board.metric}", board.notes) for board in boards)
    return "\n\n".join(map(str, boards))


def battles_of_scores(files: Sequence[str], given: dict[str, Any]) -> Any:
    """What `rate --as-battles` rates: logs as they are, whose repeats are paired one by one; else rows of battles.

    Options of reading are taken out of those given where the rows are battles already.
    """
    from tiltyard.battles.eval_logs import check_tie_band
    from tiltyard.battles.inputs import find_parts
    from tiltyard.battles.log_readers import tool_of
    from tiltyard.scores import ReadScoresOptions, as_battles, read_scores

    if any(tool_of(part, given.get("format", "auto")) is not None for part in find_parts(list(files))):
        if "score" in given:
            raise OptionError("the metrics of a log are dimensions of its battles: name one with --dimension.")
        return list(files)
    if "default_source" in given:
        raise OptionError(OptionValue("default_source", None), " is about battles: those of scores are a judge's.")
    taken = {name: given.pop(name) for name in options_of(ReadScoresOptions) if name in given}
    return as_battles(read_scores(list(files), **taken), check_tie_band(taken.get("tie_band")))
