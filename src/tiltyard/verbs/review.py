"""The verbs of a team's review: serve it, say how far it is, close it; and what else a review can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.arena.review import (
    Candidate,
    Review,
    ReviewResult,
    ReviewSource,
    agreement_sentence,
    close_review,
    conclusion,
    look,
    open_review,
    percent,
    remarks,
    served_at,
    status_values,
)
from tiltyard.arena.review import change_people as change_people
from tiltyard.arena.review import erase_names as erase_names
from tiltyard.arena.review import export as export
from tiltyard.arena.review import preference_rows as preference_rows
from tiltyard.arena.review import sources as sources
from tiltyard.arena.review import start_review as start_review
from tiltyard.arena.store import Store
from tiltyard.data.bank import Response
from tiltyard.data.battles import read_battles
from tiltyard.errors import OptionError
from tiltyard.files import write_text
from tiltyard.judge.tournament import JUDGE_PROMPTS, JudgePrompts, MatchLine
from tiltyard.judge.verdicts import read_lines, require
from tiltyard.reports import review_page
from tiltyard.site import serving
from tiltyard.site.checkup import is_private
from tiltyard.site.serving import bound_sockets
from tiltyard.site.settings import SiteSettings, secrets_of
from tiltyard.verbs.rendered import Rendered


def serve(
    folder: Path,
    host: str,
    port: int,
    workers: int,
    *,
    say: Callable[[str], None],
    note: Callable[[str], None],
    **about: Any,
) -> None:
    """Open the review's site until somebody stops it; say everybody's link first."""
    review = open_review(folder)
    settings = SiteSettings(db=review.url, secret=secrets_of()[0], rate_limit=False, review=folder, **about)
    sockets = bound_sockets(host, port)
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host  # noqa: S104 - only said
    say(links_text(served_at(review, settings.public_url or f"http://{shown}:{port}")))
    if not settings.secret:
        with closing(Store.open(review.url)) as store:
            note(store.outside.about_secret())
    note("serving the review (Ctrl-C stops; everything that was said is kept)")
    if not is_private(host):
        note("for the open internet, put a proxy in front: this server has no TLS and waits for slow clients")
    serving.serve(settings, workers=workers, sockets=sockets)


def links_text(review: Review) -> str:
    """Everybody's private link."""
    active = [person for person in review.links.people if person.active]
    width = max(len(person.name) for person in active)
    return "\n".join(f"{person.name:<{width}}  {review.link(person)}" for person in active)


def read_review(folder: Path) -> ReviewResult:
    """What a review has come to."""
    return ReviewResult.of(open_review(folder))


def status(folder: Path) -> Rendered:
    """How far everybody is, how the team agrees, and everybody's link."""
    result = read_review(folder)
    return Rendered(status_values(result), f"{status_text(result)}\n\n{links_text(result.review)}")


def close(folder: Path) -> tuple[ReviewResult, bool]:
    """End the review and write its labels and report; and whether it was open until now."""
    review = open_review(folder)
    was_open = close_review(review)
    result = ReviewResult.of(review)
    export(result)
    write_report(result)
    return result, was_open


def write_report(result: ReviewResult) -> Path:
    """Write the review's page into its folder, and say where it is."""
    path = result.review.folder / "report.html"
    write_text(path, review_page(result))
    return path


def status_text(result: Any) -> str:
    """The status as people read it, without the links."""
    width = max(len(result.review.name(one.key)) for one in result.people)
    lines = []
    for one in result.people:
        name = f"{result.review.name(one.key):<{width}}"
        of = one.done + one.cannot + one.left
        parts = [f"{one.done + one.cannot} of {of}"]
        parts += [f"{one.cannot} cannot judge"] if one.cannot else []
        parts += [f"{one.seconds:.0f} s an item"] if one.seconds is not None else []
        parts += (
            [f"same as the others in {percent(one.rest.own)}"] if one.rest is not None and one.rest.own.known else []
        )
        parts += ["adjudicator"] if one.is_adjudicator else []
        lines.append(f"{name}  {', '.join(parts)}")
    labels = ", ".join(f"{result.how[how]} {how}" for how in ("agreed", "majority", "adjudicated", "open"))
    lines += ["", f"{len(result.log.items)} items: {labels}", agreement_sentence(result), *remarks(result)]
    if result.log.rules.closed:
        why, rule = result.log.rules.why_closed, result.review.record.until
        lines.append(f"the review closed by itself (until {rule}): {why}" if why else "the review is closed")
        for name in dict.fromkeys(item.dimension for item in result.review.record.items):
            if said := conclusion(result, name):
                lines += ["", f"{f'{name}: ' if name else ''}{said}"]
    elif (at := look(result)) is not None:
        lines.append(f"until {result.review.record.until}: {at.sentence}")
    return "\n".join(lines)


def read_source(places: Sequence[Path], *, dimension: str | None = None, prompts: Path | None = None) -> ReviewSource:
    """What is in these places: one run folder, file of battles or folder of answers; or two answer files.

    Of a run only one dimension may be wanted. `prompts` are those of answer files that do not say what was asked.
    """
    if len(places) == 1 and prompts is None and (places[0] / "matches" / "matches.jsonl").is_file():
        return _judged_run(places[0], dimension)
    return sources.read_source(places, dimension=dimension, prompts=prompts)


def _judged_run(folder: Path, dimension: str | None) -> ReviewSource:
    """The judged matchups of a run, which are what people's labels correct."""
    battles = require(folder / "battles.jsonl", folder)
    judged = read_battles(battles, columns=["question_id", "dimension"])
    names = judged.models
    prompts = judged.text_column("question_id").texts()
    about = judged.text_column("dimension").texts() if "dimension" in judged.columns else [None] * len(judged)
    wanted = {
        (what or "", prompt, *sorted((names[a], names[b])))
        for prompt, what, a, b in zip(prompts, about, judged.model_a.tolist(), judged.model_b.tolist(), strict=True)
    }
    result = ReviewSource([], _rubrics(folder), battles)
    seen: set[tuple[str, ...]] = set()
    for _, line in read_lines(folder / "matches" / "matches.jsonl", msgspec.json.Decoder(MatchLine)):
        key = (line.dimension, line.prompt_id, *sorted((line.entrant_a, line.entrant_b)))
        if key not in wanted or key in seen or (dimension is not None and line.dimension != dimension):
            continue
        if line.images_a or line.images_b or line.prompt_images:
            raise OptionError(
                f"the matchup on {line.prompt_id} holds images beside a text, which a review cannot show yet. Review a "
                "folder of answers whose answers are images instead."
            )
        seen.add(key)
        told = {"Reference answer": line.gold_answer, "Expected": line.expected_behavior}
        text = "\n\n".join([line.prompt.whole_text, *(f"{name}: {what}" for name, what in told.items() if what)])
        answers = (
            Response(entrant_id=line.entrant_a, prompt_id=line.prompt_id, response_text=line.response_a),
            Response(entrant_id=line.entrant_b, prompt_id=line.prompt_id, response_text=line.response_b),
        )
        result.candidates.append(
            Candidate(line.prompt_id, line.entrant_a, line.entrant_b, text, answers, line.dimension)
        )
    if not result.candidates:
        what = f"on {dimension!r} " if dimension is not None else ""
        raise OptionError(f"{folder} has no judged matchup {what}to review. `tiltyard report` says what it has.")
    return result


def _rubrics(folder: Path) -> dict[str, str]:
    with suppress(OSError, msgspec.DecodeError):
        kept = msgspec.json.decode((folder / JUDGE_PROMPTS).read_bytes(), type=JudgePrompts)
        return {name: prompts.rubric for name, prompts in kept.dimensions.items() if prompts.rubric}
    return {}
