"""The routes of the pages that show the board. Each gets values from the observatory and passes them to a template."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tiltyard.analysis.decisions import POINTS, EstimatedDifference, side
from tiltyard.arena import KEPT, MODEL_VOTES, OFTEN, SHADOW_PHASE, LiveBoard, rate_options
from tiltyard.arena.store import (
    KeptWeek,
    WeekTexts,
    files_of,
    final_votes,
    kept_about,
    kept_weeks,
    model_reasons,
    week_texts,
)
from tiltyard.arena.study import Snapshot
from tiltyard.errors import ArenaError
from tiltyard.render import Html, shortened
from tiltyard.reports import rule_numbers, week_view, worth_knowing
from tiltyard.site import charts, reports
from tiltyard.site.addresses import compare_address, model_address
from tiltyard.site.answer_files import PublicAnswer
from tiltyard.site.bodies import form_of
from tiltyard.site.failures import Failure
from tiltyard.site.leaderboard import withholds
from tiltyard.site.me import own_page, own_votes
from tiltyard.site.model import (
    ComparePage,
    ModelPage,
    chosen_prompt,
    compare_page,
    estimated_difference,
    extremes,
    model_page,
    prompt_grid,
)
from tiltyard.site.networks import address_block
from tiltyard.site.page_cache import Key, has_already, tag_of
from tiltyard.site.rendering import fingerprint, render
from tiltyard.site.site import Site, site_of
from tiltyard.site.text import rendered_answer

FORGET = "forget"
OWN = {"cache-control": "private, no-store"}
"""A page for one visitor alone."""
PAGE_NUMBER = re.compile(r"[0-9]{1,6}\Z")
CHECKED = {"cache-control": "private, no-cache"}
"""A page that the visitor's browser may cache, but must revalidate each time."""


async def public_page(
    request: Request,
    template: str,
    here: str,
    view: Callable[[Site, Snapshot], Mapping[str, Any]],
    *asked: object,
    fits: bool = False,
) -> Response:
    """A public page: cached by query until an event or a study changes it."""
    site = site_of(request)

    def make(snapshot: Snapshot) -> bytes:
        return render(template, site.facts(snapshot), view(site, snapshot), here=here).encode()

    frame = site.settings.title, site.settings.notice, site.settings.public_url
    return await prepared(request, (template, frame, *asked), make, "text/html", CHECKED, fits=fits)


def page_at(path: str, here: str, view: Callable[[Site, Snapshot], Mapping[str, Any]]) -> Route:
    """A public page that is the same for everybody; its template has the name of its address."""

    async def answer(request: Request) -> Response:
        return await public_page(request, f"{path[1:]}.html", here, view)

    return Route(path, answer)


async def prepared(
    request: Request,
    asked: tuple[object, ...],
    make: Callable[[Snapshot], bytes],
    media_type: str,
    headers: Mapping[str, str],
    *,
    fits: bool = False,
) -> Response:
    """A public response, rendered once per snapshot and query; 304 for a client that already has it.

    One that `fits` takes a fit of its own, and waits for others of its kind instead of keeping pages waiting. While
    many wait, or this network has its share in the making, the last one is shown as long as there is one.
    """
    site = site_of(request)
    snapshot = site.observatory.snapshot
    key: Key = ((asked, snapshot.board.phase), snapshot.log_hash, snapshot.edition, snapshot.seq, snapshot.study.seq)
    cache, who, body = site.prepared, "", None
    if fits:
        cache, who = site.parts, address_block(request.state.address) or request.state.address
        key, body = cache.older(key, who) or (key, None)
    tag = tag_of(fingerprint(), *key)
    if has_already(request, tag):
        return Response(status_code=304, headers={**headers, "etag": tag})
    if body is None:
        body = await cache.get(key, lambda: make(snapshot), who)
    return Response(body, media_type=media_type, headers={**headers, "etag": tag})


def rules_of(board: LiveBoard) -> list[tuple[str, str, str, bool, str]]:
    """The policy's publication rules: name, what was found, what is needed, whether it is met, and more."""
    return [(rule.name, *rule_numbers(rule), rule.met, rule.detail) for rule in board.publication.deciding]


async def model(request: Request) -> Response:
    """One model's page."""
    name = request.path_params["name"]
    asked = request.query_params.get("prompt")
    return await public_page(
        request,
        "model.html",
        "leaderboard",
        lambda site, snapshot: model_view(site, snapshot, name, asked),
        name,
        asked,
    )


def page_of(site: Site, snapshot: Snapshot, name: str) -> ModelPage:
    """The values of a model's page; a model that is not on the board is a 404."""
    if all(row.model != name for row in snapshot.board.rows):
        raise Failure(404, "not_found", "there is no model of this name on the board.")
    return site.observatory.look(
        lambda state, votes: model_page(snapshot, state, votes, name), "model", name, snapshot.edition
    )


def model_view(site: Site, snapshot: Snapshot, name: str, asked: str | None) -> dict[str, Any]:
    """What a model's template shows."""
    page = page_of(site, snapshot, name)
    names, display_name, store = names_of(snapshot), page.facts.display_name, site.engine.arena.store
    prompt = chosen_prompt(page, asked)
    hidden = prompt is not None and not page.answers[prompt]
    text, answers = _texts(site, prompt, [] if prompt is None or hidden else [page.answers[prompt]])
    texts = _prompt_texts(site, snapshot)
    beginnings = _first_words(texts)
    subjects = {facts.prompt_id: facts.subject for facts in snapshot.prompts if facts.subject}
    public = {prompt for prompt, is_public in page.answers.items() if is_public}
    against, left_out = charts.rival_grid(page.facts, page.detail, public, snapshot, beginnings)
    rated = page.detail.row.votes - page.detail.row.both_bad
    drawn = rated >= MODEL_VOTES
    reasons = site.observatory.look(lambda _, __: model_reasons(store, snapshot.seq), "reasons", snapshot.edition)
    return {
        "page": page,
        "models": len(snapshot.board.rows),
        "names": names,
        "withheld": withholds(snapshot),
        "interval_votes": MODEL_VOTES,
        "asked": beginnings,
        "prompt_grid": prompt_grid(page, texts, names, subjects, blind=snapshot.blind),
        "rated": rated,
        "chosen": asked is not None,
        "extremes": extremes(page),
        "path_chart": charts.path_chart(page.path, display_name) if drawn else None,
        "trend_chart": charts.trend_chart(page.trend, display_name) if drawn else None,
        "calibration_chart": charts.calibration_chart(page.calibration, display_name) if drawn else None,
        "reasons": reasons.get(name),
        "rival_grid": against,
        "grid_left_out": left_out,
        "prompt_id": prompt,
        "prompt_text": text,
        "hidden": hidden,
        "live_prompts": len(page.answers) - len(public),
        "answers": answers,
    }


def names_of(snapshot: Snapshot) -> dict[str, str]:
    """The names of models as they are shown, by id."""
    return {facts.model: facts.display_name for facts in snapshot.models}


def _prompt_texts(site: Site, snapshot: Snapshot) -> dict[str, str]:
    """The texts of all prompts, which anybody may read: only who answered what is hidden."""
    result = site.observatory.texts(("prompt", facts.prompt_id) for facts in snapshot.prompts)
    return {facts.prompt_id: result.get(("prompt", facts.prompt_id), "") for facts in snapshot.prompts}


def _first_words(texts: Mapping[str, str]) -> dict[str, str]:
    """How each prompt begins; its id where it has no text."""
    return {name: shortened(text) or name for name, text in texts.items()}


def _texts(site: Site, prompt: str | None, responses: list[str]) -> tuple[str, list[PublicAnswer]]:
    """The text of a prompt, and these answers to it."""
    if prompt is None:
        return "", []
    result = site.observatory.texts([("prompt", prompt), *(("response", response) for response in responses)])
    answers = {response: PublicAnswer(rendered_answer(result[("response", response)])) for response in responses}
    for name, file in files_of(site.engine.arena.store, responses).items():
        answers[name] = replace(answers[name], kind=file.kind, url=site.answer_links.public_url(name, file.kind))
    return result[("prompt", prompt)], [answers[response] for response in responses]


async def compare(request: Request) -> Response:
    """Two models beside each other."""
    asked = request.query_params
    return await public_page(
        request,
        "compare.html",
        "leaderboard",
        lambda site, snapshot: compare_view(site, snapshot, asked),
        *(asked.get(name) for name in ("a", "b", "prompt")),
        fits=True,
    )


def compare_view(site: Site, snapshot: Snapshot, asked: Mapping[str, str]) -> dict[str, Any]:
    """What the comparison's template shows; without two models, a form to choose them."""
    rows = [row.model for row in snapshot.board.rows]
    a, b = asked.get("a") or "".join(rows[:1]), asked.get("b") or "".join(rows[1:2])
    view: dict[str, Any] = {
        "a": a,
        "b": b,
        "withheld": withholds(snapshot),
        "models": [snapshot.model(name) for name in rows],
        "anytime": snapshot.policy.intervals.anytime,
        "sure": None,
        "page": None,
        "problem": "",
        "prompt_id": None,
    }
    if "a" not in asked or "b" not in asked:
        return view
    if a == b:
        return view | {"problem": "Choose two different models."}
    try:
        page = site.observatory.look(lambda state, _: compare_page(snapshot, state, a, b), "compare", a, b)
    except ArenaError:
        raise Failure(404, "not_found", "there is no such model. Choose two from the list.") from None
    if not view["withheld"]:
        page = replace(page, difference=estimated_difference(snapshot, a, b))
    difference = {"sure": page.difference and difference_words(page), "wide_open": wide_open(page.difference)}
    return view | _compared(site, page, asked.get("prompt"), _prompt_texts(site, snapshot)) | difference


WIDE_OPEN = 400
"""An interval that reaches this many points to both sides says nothing yet: either could win ten battles of eleven."""


def wide_open(result: EstimatedDifference | None) -> bool:
    """Whether votes are so few that the ends of the interval would only frighten."""
    if result is None or result.low is None or result.high is None:
        return False
    return result.low < -WIDE_OPEN and result.high > WIDE_OPEN


def difference_words(page: ComparePage) -> str:
    """The difference of two models in one sentence, with its interval."""
    result = page.difference
    assert result is not None
    ahead = f"{POINTS.signed(result.difference)} points ({POINTS.between(result.low, result.high)})"
    a, b = page.a.display_name, page.b.display_name
    if wide_open(result):
        return f"The votes cannot tell {a} from {b} yet: either could be more than {WIDE_OPEN} points ahead."
    match side(result.low, result.high):
        case "better":
            return f"{a} is better than {b}: {ahead}."
        case "worse":
            return f"{a} is worse than {b}: {ahead}."
    return f"The votes cannot tell {a} from {b}: {ahead}."


def _compared(site: Site, page: ComparePage, asked: str | None, texts: Mapping[str, str]) -> dict[str, Any]:
    public = (prompt for prompt in page.shared if prompt in page.answers)
    prompt = asked if asked in page.shared else next(public, None)
    text, answers = _texts(site, prompt, list(page.answers.get(prompt, ())) if prompt is not None else [])
    record = page.record
    message = (
        f"{page.a.display_name} won {record.wins}, {record.ties} ties, {record.both_bad} both bad, "
        f"{page.b.display_name} won {record.losses}"
    )
    return {
        "page": page,
        "asked": _first_words(texts),
        "bar": charts.split_bar(record.wins, record.ties, record.both_bad, record.losses, message),
        "prompt_id": prompt,
        "prompt_text": text,
        "answer_a": answers[0] if answers else None,
        "answer_b": answers[1] if answers else None,
    }


def _validity(_: Site, snapshot: Snapshot) -> Mapping[str, Any]:
    study = snapshot.study
    report, publication = study.weekly, study.weekly.board.publication
    if snapshot.board.phase == SHADOW_PHASE:
        return {"report": report, "shadow": True}
    return {
        **week_view(report, names_of(snapshot), model_address, compare_address),
        "rules": rules_of(report.board),
        "also": worth_knowing(publication),
        "shadow": False,
        "contested": study.contested,
        "odd": reports.out_of_bounds(report),
        "swaps": list(study.blocks_to_swap.items())[: max(publication.top - 1, 0)],
    }


async def weeks(request: Request) -> Response:
    """The reports of finished weeks."""
    kept = await public_weeks(request)
    return await public_page(request, "weeks.html", "validity", lambda *_: {"weeks": kept, "kept": None}, kept)


async def week(request: Request) -> Response:
    """One of them, as it was written."""
    week = request.path_params["week"]
    kept, texts = await week_of(request, week)
    view = {"kept": kept, "sections": Html(texts.sections), "weeks": ()}
    return await public_page(request, "weeks.html", "validity", lambda *_: view, kept)


async def public_weeks(request: Request) -> tuple[KeptWeek, ...]:
    """The kept reports that may be shown, newest first: not those of phase 1."""
    store = site_of(request).engine.arena.store
    return tuple(kept for kept in await asyncio.to_thread(kept_weeks, store) if kept.phase > SHADOW_PHASE)


async def week_of(request: Request, week: str) -> tuple[KeptWeek, WeekTexts]:
    """A kept report with its texts; a week without one is a 404."""
    store = site_of(request).engine.arena.store
    kept = next((kept for kept in await public_weeks(request) if kept.week == week), None)
    texts = None if kept is None else await asyncio.to_thread(week_texts, store, kept.week)
    if kept is None or texts is None:
        raise Failure(404, "not_found", "there is no report of this week. The list of weeks is at /validity/weeks.")
    return kept, texts


def _bank(site: Site, snapshot: Snapshot) -> Mapping[str, Any]:
    exposure = reports.exposure_of(site)
    groups, rules = reports.named_groups(exposure), snapshot.policy.bank
    return {"bank": exposure, "groups": groups, "often": OFTEN, "rules": rules}


def _methods(_: Site, snapshot: Snapshot) -> Mapping[str, Any]:
    in_force, settings = reports.settings_values(snapshot.policy), reports.flat_settings(snapshot.policy)
    rows = [(name, reports.written(value)) for name, value in settings.items()]
    return {"snapshot": snapshot, "in_force": in_force, "settings": rows}


def _data(_: Site, snapshot: Snapshot) -> Mapping[str, Any]:
    return {"snapshot": snapshot, "rate_options": rate_options(snapshot.policy.intervals)}


def _privacy(site: Site, snapshot: Snapshot) -> Mapping[str, Any]:
    policy = snapshot.policy
    places = {"everywhere", "open" if site.settings.rate_limit and not policy.entry.invitation_only else ""}
    return {
        "operator": [part for part in site.settings.privacy.split("\n\n") if part],
        "period": policy.defences.publish_seconds,
        "kept": [kept.row(getattr(policy.retention, kept.rule, 0)) for kept in KEPT if kept.where in places],
    }


async def me(request: Request) -> Response:
    """The visitor's own board and votes, private to them."""
    site, asked = site_of(request), request.query_params.get("page", "")
    voter, number = await site.visitors.known(request), int(asked) if PAGE_NUMBER.match(asked) else 0
    arena = site.engine.arena
    votes = await asyncio.to_thread(final_votes, arena.store, voter, arena.now()) if voter is not None else []
    own, more = await asyncio.to_thread(own_votes, site, voter, number) if voter is not None else ((), False)
    view = {
        "page": own_page(site.observatory.snapshot, votes),
        "own": own,
        "number": number,
        "more": more,
        "token": site.visitors.token(request, FORGET),
        "known": voter is not None,
        "forgotten": request.query_params.get("forgotten") == "1" and not votes,
    }
    return site.page("me.html", view, here="me", headers=OWN)


async def me_data(request: Request) -> Response:
    """All that is kept about the visitor, as a file."""
    site, cookie = site_of(request), request.state.cookie
    models = [facts.model for facts in site.observatory.snapshot.models]
    name, arena = site.visitors.cookies.hash(cookie) if cookie else "", site.engine.arena
    body = await asyncio.to_thread(kept_about, arena.store, name, models, arena.now())
    headers = {**OWN, "content-disposition": 'attachment; filename="about-me.json"'}
    return Response(msgspec.json.format(msgspec.json.encode(body)), media_type="application/json", headers=headers)


async def forget(request: Request) -> Response:
    """Delete what leads from this visitor's cookie to their votes, and the cookie."""
    site = site_of(request)
    form = await form_of(request)
    site.visitors.check_form(request, form.get("token", ""), FORGET)
    await site.visitors.forget(request)
    return RedirectResponse("/me?forgotten=1", status_code=303)


ROUTES = [
    Route("/models/{name:path}", model),
    Route("/compare", compare),
    page_at("/validity", "validity", _validity),
    Route("/validity/weeks", weeks),
    Route("/validity/weeks/{week}", week),
    page_at("/bank", "validity", _bank),
    page_at("/methods", "methods", _methods),
    page_at("/data", "data", _data),
    page_at("/privacy", "privacy", _privacy),
    Route("/me", me),
    Route("/me/data", me_data),
    Route("/me/forget", forget, methods=["POST"]),
]
