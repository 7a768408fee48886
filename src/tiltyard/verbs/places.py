"""Where battles are: files and data as they are; an arena's database and a review with what is known of them."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from tiltyard.errors import MissingExtra, OptionError, OptionValue
from tiltyard.options import VerbOptions

DATABASES = ("sqlite:", "postgresql:", "postgres:")
OptionsT = TypeVar("OptionsT", bound=VerbOptions)


def open_battles(battles: Any, options: OptionsT) -> tuple[Any, OptionsT]:
    """The battles, and the options with what their place says where they do not: clusters, and texts of prompts."""
    places = [battles] if isinstance(battles, str | Path) else battles
    if not isinstance(places, list | tuple) or not all(isinstance(place, str | Path) for place in places):
        return battles, options
    names = [str(place) for place in places]
    if not all(name.strip() for name in names):
        raise OptionError(
            OptionValue("battles", None), " is empty: give a file of battles, a run folder, or an arena's database."
        )
    review = any((Path(name) / "review.json").is_file() for name in names)
    if not review and not any(name.startswith(DATABASES) for name in names):
        return list(places), options
    if len(names) > 1:
        what = "a review's folder" if review else "an arena's database"
        how = "`tiltyard review export`" if review else "`tiltyard arena export`"
        raise OptionError(f"{what} stands alone: export it ({how}) to join it with others.")
    need_arena()
    rows, known = _review(names[0], options) if review else _arena(names[0])
    unsaid = {name: value for name, value in known.items() if getattr(options, name, value) is None}
    return rows, replace(options, **unsaid)


def need_arena() -> None:
    """Raise a one-line error if the extra is not installed."""
    if find_spec("psycopg") is None or find_spec("uvicorn") is None:
        raise MissingExtra("the live arena", "arena")


def _arena(url: str) -> tuple[Any, dict[str, Any]]:
    """The battles of an arena, its prompts, and what its board clusters by."""
    from tiltyard.arena import open_export

    with open_export(url) as export:
        return list(export.rows), {"texts": export.texts, "cluster": export.cluster}


def _review(folder: str, options: VerbOptions) -> tuple[Any, dict[str, Any]]:
    """The battles of a review. Its reviewers are a fixed panel, so what varies is the prompts."""
    from tiltyard.arena.review import ReviewResult, agreement_sentence, battle_rows, open_review, panel_words
    from tiltyard.render import plural

    result = ReviewResult.of(open_review(Path(folder)))
    rows = list(battle_rows(result, result.finished))
    if not rows:
        nothing = "no item has all its reviews" if result.behind else "nobody has reviewed anything"
        raise OptionError(f"{nothing} in {folder} yet. `tiltyard review status` says who is where.")
    options.note(f"{panel_words(result.panel)}; --cluster prompt,voter is for other reviewers like them")
    options.note(agreement_sentence(result))
    if result.behind:
        options.note(
            f"{plural(result.behind, 'label')} after items that wait for somebody are left out: quick people made them"
        )
    return rows, {"cluster": "prompt"}
