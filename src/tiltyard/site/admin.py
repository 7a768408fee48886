"""The administrator's pages: plain forms over the log.

Every change is an event; without a secret these pages do not exist.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tiltyard.arena import AppendEvents, in_parts, lost_blindness
from tiltyard.arena import events as e
from tiltyard.arena.store import delete_comment, latest_decision, latest_events, prompt_texts, settle_reports
from tiltyard.errors import OptionError, StoreError, TiltyardError
from tiltyard.site import admin_views, health
from tiltyard.site.admin_cases import CaseKind, ReviewItem, Screener
from tiltyard.site.admin_gate import GUESS_SECONDS, GUESSES, SESSION_SECONDS, Gate, Login
from tiltyard.site.bodies import choice_of, form_of
from tiltyard.site.site import Site, site_of

HOME = "/admin"
LOGIN = "/admin/login"
LISTED = 200
"""Sessions and answers that are listed at once."""
REASON_CHARACTERS = 500
FOLLOWED_SECONDS = 3.0
"""How long an action waits until the published board includes it, so that the next page shows it."""

_log = logging.getLogger("tiltyard.site")


class _Desk:
    """What the pages of one process share."""

    def __init__(self, site: Site) -> None:
        self.gate = Gate(site.settings, site.engine.arena.store)
        self.cases = Screener(site)


def _desk(request: Request) -> _Desk:
    """What the pages share; without a secret, their addresses do not exist."""
    site = site_of(request)
    if site.settings.admin_secret is None:
        raise HTTPException(404)
    result = getattr(request.app.state, "admin_desk", None)
    if not isinstance(result, _Desk):
        result = request.app.state.admin_desk = _Desk(site)
    return result


def close(app: Starlette) -> None:
    """Close what these pages opened."""
    if (result := getattr(app.state, "admin_desk", None)) is not None:
        result.cases.close()
        app.state.admin_desk = None


async def _session(request: Request) -> Login | None:
    """The login of a request, if it is valid."""
    gate = _desk(request).gate
    session = gate.session(request.cookies.get(gate.cookie))
    return None if session is None or await asyncio.to_thread(gate.left, session) else session


Answer = Callable[[Request], Awaitable[Response]]


def desk(path: str, tab: str, look: Answer | None = None, change: Answer | None = None) -> list[Route]:
    """The routes of a page for administrators, and of its form. Others are led to the login page.

    What is refused is said on a page of its own; database failures are answered as everywhere.
    """

    def checked(answer: Answer) -> Answer:
        async def handle(request: Request) -> Response:
            request.state.admin_session = await _session(request)
            if request.state.admin_session is None:
                raise HTTPException(303, headers={"location": LOGIN})
            try:
                return await answer(request)
            except StoreError:
                raise
            except TiltyardError as error:
                context = {"problem": str(error), "back": f"{HOME}/{tab}"}
                return admin_page(request, tab, context, status=400, template="admin_trouble.html")

        return handle

    routes = [] if look is None else [Route(HOME + path, checked(look))]
    return routes if change is None else [*routes, Route(HOME + path, checked(change), methods=["POST"])]


def _purpose(request: Request) -> str:
    return f"admin\n{request.state.admin_session.name}"


def admin_page(
    request: Request, tab: str, context: Mapping[str, Any], *, status: int = 200, template: str = ""
) -> Response:
    """A page for a logged-in administrator, which `desk` has checked."""
    site = site_of(request)
    frame = {
        "tab": tab,
        "token": site.visitors.token(request, _purpose(request)),
        "said": request.query_params.get("said", ""),
    }
    return site.page(template or f"admin_{tab}.html", {**frame, **context}, status=status)


async def posted(request: Request) -> Mapping[str, str]:
    """The form of a logged-in administrator, checked to come from one of these pages."""
    form = await form_of(request)
    site_of(request).visitors.check_form(request, form.get("token", ""), _purpose(request))
    return form


async def append(request: Request, bodies: Sequence[e.AnyBody]) -> None:
    """Write events; they are committed when this returns."""
    await asyncio.wrap_future(site_of(request).engine.arena.submit(AppendEvents(bodies)))
    for kind, n in Counter(str(body.__struct_config__.tag) for body in bodies).items():
        _log.info("administrator at %s: %d %s", request.state.address, n, kind)


async def followed(request: Request) -> None:
    """Wait a little, until the published board shows what was decided."""
    site = site_of(request)
    decided = await asyncio.to_thread(latest_decision, site.engine.arena.store)
    ends = time.monotonic() + FOLLOWED_SECONDS
    while time.monotonic() < ends:
        if site.observatory.snapshot.seq >= decided:
            return
        await asyncio.sleep(0.05)


def redirect(path: str, done: str = "") -> RedirectResponse:
    """To another of these pages, which then says what was done."""
    return RedirectResponse(f"{path}?said={done}" if done else path, status_code=303)


# --- Login and logout ------------------------------------------------------------------------------------------------


async def login_page(request: Request) -> Response:
    """The form that asks for the secret."""
    if await _session(request) is not None:
        return redirect(HOME)
    return _login(request, "")


def _login(request: Request, trouble: str, status: int = 200) -> Response:
    site = site_of(request)
    return site.page(
        "admin_login.html", {"token": site.visitors.token(request, LOGIN), "trouble": trouble}, status=status
    )


async def login(request: Request) -> Response:
    """Log in with the secret."""
    gate, site = _desk(request).gate, site_of(request)
    form = await form_of(request)
    site.visitors.check_form(request, form.get("token", ""), LOGIN)
    session = await asyncio.to_thread(gate.enter, request.state.address, form.get("secret", ""))
    if session is None:
        _log.warning("administrator: a wrong secret from %s", request.state.address)
        message = f"Wrong secret. After {GUESSES} wrong attempts there is a pause of {GUESS_SECONDS // 60} minutes."
        return _login(request, message, 403)
    answer = redirect(HOME)
    answer.set_cookie(
        gate.cookie,
        gate.written(session),
        max_age=SESSION_SECONDS,
        path=HOME,
        secure=request.state.is_https,
        httponly=True,
        samesite="strict",
    )
    return answer


async def logout(request: Request) -> Response:
    """End the session."""
    await posted(request)
    await asyncio.to_thread(_desk(request).gate.leave, request.state.admin_session)
    answer = redirect(LOGIN)
    name = _desk(request).gate.cookie
    answer.delete_cookie(name, path=HOME, secure=request.state.is_https, httponly=True, samesite="strict")
    return answer


# --- Overview, models, prompts ---------------------------------------------------------------------------------------


async def overview(request: Request) -> Response:
    """Health, backlog, size, and recent changes."""
    site = site_of(request)
    result = await health.look_at(site)
    totals = await site.engine.read(admin_views.arena_size) if result.well else None
    actions = []
    if result.store is not None:
        store = site.engine.arena.store
        written = await asyncio.to_thread(latest_events, store, admin_views.ACTIONS, 20)
        actions = [(event.at, event.seq, *admin_views.event_label(event.body)) for event in written]
    board = site.observatory.snapshot.board if result.board_seq is not None else None
    context = {"health": result, "totals": totals, "actions": actions, "board": board}
    return admin_page(request, "overview", context, template="admin.html")


async def models(request: Request) -> Response:
    """Every model with its switch."""
    return admin_page(request, "models", {"lines": await site_of(request).engine.read(admin_views.model_lines)})


async def prompts(request: Request) -> Response:
    """Every prompt with its switch."""
    site = site_of(request)
    lines = await site.engine.read(admin_views.prompt_lines)
    texts = await asyncio.to_thread(prompt_texts, site.engine.arena.store)
    excerpts = {name: admin_views.excerpt(text) for name, text in texts.items()}
    return admin_page(request, "prompts", {"lines": lines, "texts": excerpts})


async def switch_model(request: Request) -> Response:
    """Switch a model on or off."""
    form = await posted(request)
    name, to = form.get("name", ""), choice_of(form, "to", "on", "off")
    body = e.ModelEnabled(model=name) if to == "on" else e.ModelDisabled(model=name)
    return await _switch(request, "models", body, f"model_{to}")


async def switch_prompt(request: Request) -> Response:
    """Switch a prompt on or off."""
    form = await posted(request)
    name, to = form.get("name", ""), choice_of(form, "to", "on", "off")
    body = e.PromptEnabled(prompt_id=name) if to == "on" else e.PromptDisabled(prompt_id=name)
    seen = to == "on" and await site_of(request).engine.read(
        lambda state: state.catalog.has_prompt(name) and lost_blindness(state, name)
    )
    return await _switch(request, "prompts", body, f"{'seen_prompt' if seen else 'prompt'}_{to}")


async def reports(request: Request) -> Response:
    """What visitors reported, and the answers that are switched off."""
    engine = site_of(request).engine
    off = await engine.read(lambda state: sorted(state.catalog.answers_off))
    return admin_page(request, "reports", await asyncio.to_thread(admin_views.report_lines, engine.arena.store, off))


ANSWER_EVENTS: Mapping[str, type[e.ResponseEnabled | e.ResponseDisabled | e.ResponseWithdrawn]] = {
    "on": e.ResponseEnabled,
    "off": e.ResponseDisabled,
    "withdrawn": e.ResponseWithdrawn,
}


async def settle_report(request: Request) -> Response:
    """Switch one answer on or off, settle its reports without that, or delete the comment on a vote."""
    form, arena = await posted(request), site_of(request).engine.arena
    name, to = form.get("answer", ""), choice_of(form, "to", "on", "off", "dismiss", "forget")
    if to == "forget":
        await asyncio.to_thread(delete_comment, arena.store, name)
    else:
        if to != "dismiss":
            await append(request, [ANSWER_EVENTS[to](response_id=name)])
        await asyncio.to_thread(settle_reports, arena.store, name, arena.now())
    return redirect(f"{HOME}/reports", f"answer_{to}")


async def _switch(request: Request, tab: str, body: e.AnyBody, done: str) -> Response:
    await append(request, [body])
    await followed(request)
    return redirect(f"{HOME}/{tab}", done)


# --- Screening -------------------------------------------------------------------------------------------------------


async def screening(request: Request) -> Response:
    """Sessions and answers that look odd, and what was excluded."""
    result = await asyncio.to_thread(_desk(request).cases.findings)
    withheld = await site_of(request).engine.read(admin_views.withheld_answers)
    return admin_page(request, "screening", {"found": result, "withheld": withheld, "listed": LISTED})


async def write_flags(request: Request) -> Response:
    """Write what was found to the log. It excludes nothing."""
    await posted(request)
    result = await asyncio.to_thread(_desk(request).cases.findings)
    for part in in_parts(list(result.new_flags)):
        await append(request, part)
    await followed(request)
    return redirect(f"{HOME}/screening", "flags" if result.new_flags else "nothing")


async def switch_answer(request: Request) -> Response:
    """Serve an answer again (a false alarm), stop serving it, or take it back for good."""
    form = await posted(request)
    name, to = form.get("name", ""), choice_of(form, "to", *ANSWER_EVENTS)
    return await _switch(request, "screening", ANSWER_EVENTS[to](response_id=name), f"answer_{to}")


async def answer_page(request: Request) -> Response:
    """One answer as voters see it, with its author, for whoever decides whether it is served."""
    site, name = site_of(request), request.query_params.get("id", "")
    line, shown = await asyncio.to_thread(admin_views.one_answer, site.engine.arena.store, site.answer_links, name)
    withheld = await site.engine.read(admin_views.withheld_answers)
    gone = await site.engine.read(lambda state: name in state.catalog.withdrawn)
    prompt = site.observatory.texts([("prompt", line.prompt_id)])[("prompt", line.prompt_id)]
    context = {"line": line, "shown": shown, "prompt": prompt, "is_off": name in withheld, "gone": gone}
    return admin_page(request, "screening", context, template="admin_answer.html")


async def case_page(request: Request) -> Response:
    """One case, and what excluding or restoring its votes would do to the board."""
    kind = request.path_params["kind"]
    name = request.path_params["name"]
    cases = _desk(request).cases
    case = await asyncio.to_thread(cases.case, _kind(kind), name)
    changes = [(verb, body) for verb in ("exclude", "restore") if (body := _change(case, verb, "?")) is not None]
    effects = {verb: await asyncio.to_thread(cases.effects, body) for verb, body in changes}
    return admin_page(request, "screening", {"case": case, "effects": effects}, template="admin_case.html")


async def decide(request: Request) -> Response:
    """Exclude or restore the votes that the case had when it was shown."""
    kind = request.path_params["kind"]
    name = request.path_params["name"]
    form = await posted(request)
    verb, until = form.get("do", ""), form.get("until", "")
    reason = " ".join(form.get("reason", "").split())[:REASON_CHARACTERS]
    if verb not in ("exclude", "restore") or not (until.isascii() and until.isdigit() and len(until) < 19):
        raise OptionError("the form is not one of these pages'. Reload the case and decide again.")
    if not reason:
        raise OptionError("a decision needs a reason, for those who read the log. Write one.")
    case = await asyncio.to_thread(_desk(request).cases.case, _kind(kind), name, int(until))
    body = _change(case, verb, reason)
    if body is None:
        return redirect(f"{HOME}/screening", "nothing")
    return await _switch(request, "screening", body, "excluded" if verb == "exclude" else "restored")


def _kind(kind: str) -> CaseKind:
    if kind not in ("session", "answers", "exclusion"):
        raise HTTPException(404)
    return cast("CaseKind", kind)


def _change(case: ReviewItem, verb: str, reason: str) -> e.Excluded | e.Restored | None:
    """The event that a decision writes; None if there is nothing to change."""
    if verb == "exclude":
        return e.Excluded(matchup_ids=case.counted, reason=reason) if case.counted else None
    return e.Restored(matchup_ids=case.excluded, reason=reason) if case.excluded else None


ROUTES = [
    Route(LOGIN, login_page),
    Route(LOGIN, login, methods=["POST"]),
    *desk("/logout", "overview", change=logout),
    *desk("", "overview", overview),
    *desk("/models", "models", models, switch_model),
    *desk("/prompts", "prompts", prompts, switch_prompt),
    *desk("/reports", "reports", reports, settle_report),
    *desk("/screening", "screening", screening, write_flags),
    *desk("/answers", "screening", change=switch_answer),
    *desk("/answer", "screening", answer_page),
    *desk("/screening/{kind}/{name}", "screening", case_page, decide),
]
