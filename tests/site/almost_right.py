"""Requests that are almost right: real cookies, tokens, matchups and invitations, then one thing wrong."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace as changed
from starlette.testclient import TestClient

from tests.records import replace
from tests.site.sites import ADMIN_SECRET, MODELS, SmallSite
from tests.site.test_hostile import HOSTILE, check_harmless, escaped
from tiltyard.arena import PHASES, EntryRules, Limits, Policy, clock
from tiltyard.arena import events as e
from tiltyard.arena.store import make_invitations
from tiltyard.site.admin_gate import Gate
from tiltyard.site.admin_views import LIMIT_MOST

ROOMY = dict.fromkeys(Limits.__struct_fields__, "1000000") | {"network_growth": "4"}
NO_LIMITS = changed(Limits(), **{name: LIMIT_MOST for name in Limits.__struct_fields__ if name != "network_growth"})
ENTRIES = (
    EntryRules(),
    EntryRules(invitation_only=True),
)
GOES_ON = 60
"""Requests after which the operator sets everything right again, and the board follows."""

JSON_VALUES = (
    *("null", "1", "-0.0", "1e999", "[]", "{}", '"A "', '"\\ud800"', '"\\u0000"', "true", '["A"]', "9" * 5000),
    *('"' + "é" * 3000 + '"', "NaN", '{"choice":"A"}', "[" * 3000),
)
BODIES = (
    b"",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"[" * 9_000,
    b"\x00" * 50,
    b'{"choice":"A","choice":"B"}',
    b"a" * 20_000,
)
HEADERS = (
    *("origin: https://elsewhere.example", "origin: null", "origin: http://[", "sec-fetch-site: cross-site"),
    *("x-forwarded-for: 1.2.3.4, ::1, x", "if-none-match: W/", "if-none-match: *", "accept: \u00e9", "host: a b"),
    *("content-type: application/json; charset=x", "content-type: multipart/form-data"),
    *(
        "x-invitation: \u00ff",
        "range: bytes=0-1",
        "expect: 100-continue",
        "content-encoding: gzip",
    ),
    *("transfer-encoding: gzip", "cookie: tiltyard=; tiltyard=x"),
)


@dataclass(frozen=True)
class Sent:
    """A request."""

    client: TestClient
    method: str
    path: str
    form: dict[str, str] | None = None
    body: dict[str, Any] | None = None
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.form or self.body or self.raw} {self.headers}"[:3000]


@dataclass
class Person:
    """Somebody with a session, and what they were served."""

    client: TestClient
    served: list[str] = field(default_factory=list)


class AlmostRight:
    """A site full of people, an operator among them, each of whom sends something that is nearly what it should be."""

    def __init__(self, site: SmallSite, seed: int) -> None:
        self.site, self.rng, self.numbers = site, random.Random(seed), count()
        self.people = [Person(site.client(f"203.0.{n}.9")) for n in range(4)]
        self.desk = Person(site.client("198.51.100.1"))
        self.cookie, self.admin_cookie = site.cookies.name, Gate(site.settings, site.arena.store).cookie
        self.invitations = make_invitations(site.arena.store, 40, now=clock(), most=0)
        self.past: deque[Sent] = deque(maxlen=200)
        self.statuses: dict[int, int] = {}
        self.pool = ThreadPoolExecutor(4)

    def run(self, requests: int) -> None:
        """Send this many."""
        sent = due = 0
        while sent < requests:
            if sent >= due:
                self._set_right()
                due += GOES_ON
            sent += self._step(f"{sent}")
        self.pool.shutdown()

    def _set_right(self) -> None:
        """The operator's own hand: everything is switched on again, under one rule of entry or the next."""
        rules = self.rng.choice(ENTRIES)
        bodies: list[e.AnyBody] = [e.SettingsChanged(policy=changed(Policy(), entry=rules, limits=NO_LIMITS))]
        bodies += (e.ModelEnabled(model=name) for name in MODELS)
        bodies += (e.PromptEnabled(prompt_id=f"p{j}") for j in range(3))
        self.site.arena.append(bodies)
        self.site.observatory.refresh()
        page = self.desk.client.get("/admin/login")
        if page.status_code == 200:
            login = {"token": self._token(self.desk, "/admin/login"), "secret": ADMIN_SECRET}
            self.desk.client.post("/admin/login", data=login)
        for person in self.people:
            self._serve(person)

    def _serve(self, person: Person) -> None:
        headers = {"x-invitation": self.rng.choice(self.invitations)}
        answer = person.client.post("/api/v1/matchups", headers=headers)
        if answer.status_code == 201:
            person.served = [*person.served[-5:], answer.json()["matchup_id"]]

    def _step(self, where: str) -> int:
        right = self.rng.choice((self._page, self._api, self._api, self._form, self._form, self._administer))()
        sent = right if self.rng.random() < 0.15 else self.rng.choice(self._wrongs())(right)
        if self.past and self.rng.random() < 0.1:
            sent = self.rng.choice(self.past)  # once more, as it was
        self.past.append(sent)
        times = self.rng.choice((2, 3, 4)) if self.rng.random() < 0.08 else 1
        answers = list(self.pool.map(send, [sent] * times)) if times > 1 else [send(sent)]
        for answer in answers:
            self.statuses[answer.status_code] = self.statuses.get(answer.status_code, 0) + 1
            try:
                check(answer)
            except AssertionError as error:
                raise AssertionError(f"request {where}: {sent}: {error}") from None
            if answer.status_code == 201:
                for person in self.people:
                    if person.client is sent.client:
                        person.served.append(answer.json()["matchup_id"])
        return times

    # --- What is right -----------------------------------------------------------------------------------------------

    def _token(self, person: Person, purpose: str) -> str:
        cookie = person.client.cookies.get(self.cookie) or ""
        asked: Any = SimpleNamespace(state=SimpleNamespace(cookie=cookie, address=person.client._transport.client[0]))
        return self.site.app.state.site.visitors.token(asked, purpose)  # type: ignore[no-any-return]

    def _matchup(self, person: Person) -> str:
        return self.rng.choice(person.served[-3:] or ["none"])

    def _page(self) -> Sent:
        person, model = self.rng.choice(self.people), self.rng.choice(MODELS)
        pages = (
            *("/", "/me?page=0", "/bank", "/heads", "/validity", "/validity/weeks", "/validity/weeks/2026-W40"),
            *("/methods", "/data", "/privacy", "/robots.txt", "/healthz", "/metrics", "/static/site.css"),
            *(f"/models/{model}?prompt=p1", f"/compare?a={model}&b={MODELS[0]}&prompt=p0", "/leaderboard?sort=rating"),
            *("/leaderboard.csv?category=sums", "/leaderboard.json?direction=desc", "/leaderboard?q=o&category=sums"),
            *(f"/votes/{self._matchup(person)}", f"/invited/{self.rng.choice(self.invitations)}"),
        )
        return Sent(person.client, "GET", self.rng.choice(pages))

    def _api(self) -> Sent:
        person = self.rng.choice(self.people)
        name, model = self._matchup(person), self.rng.choice(MODELS)
        api = "/api/v1"
        match self.rng.randrange(12):
            case 0 | 1 | 2:
                said = {"choice": self.rng.choice(tuple(e.Choice)).value, "reveal": self.rng.random() < 0.5}
                return Sent(person.client, "POST", f"{api}/matchups/{name}/vote", body=said)
            case 3 | 4 | 5:
                act = self.rng.choice(("reveal", "skip", "undo"))
                return Sent(person.client, "POST", f"{api}/matchups/{name}/{act}", body={})
            case 6 | 7:
                headers = {"x-invitation": self.rng.choice(self.invitations)} if self.rng.random() < 0.5 else {}
                return Sent(person.client, "POST", f"{api}/matchups", body={}, headers=headers)
            case 8:
                return Sent(person.client, "GET", f"{api}/matchups/{name}")
        pages = (
            *("/leaderboard", f"/models/{model}", "/validity", "/bank", "/validity/weeks", "/validity/weeks/2026-W40"),
            *("/battles.jsonl", "/heads", "/witness.jsonl", "/openapi.json"),
        )
        return Sent(person.client, "GET", api + self.rng.choice(pages))

    def _form(self) -> Sent:
        person = self.rng.choice(self.people)
        form = {"matchup_id": self._matchup(person), "token": self._token(person, "vote")}
        match self.rng.choice(("vote", "vote", "reveal", "skip", "undo", "report", "start", "forget")):
            case "vote":
                form["choice"] = self.rng.choice(tuple(e.Choice)).value
                return Sent(person.client, "POST", "/vote", form)
            case "report":
                form |= {"side": self.rng.choice("AB"), "reason": self.rng.choice(HOSTILE[:7])}
                return Sent(person.client, "POST", "/report", form)
            case "start":
                said = {"token": self._token(person, "start"), "invitation": self.rng.choice(self.invitations)}
                return Sent(person.client, "POST", "/start", said)
            case "forget":
                if self.rng.random() < 0.2:
                    return Sent(person.client, "POST", "/me/forget", {"token": self._token(person, "forget")})
        return Sent(person.client, "POST", self.rng.choice(("/reveal", "/skip", "/undo")), form)

    def _administer(self) -> Sent:
        session = (self.desk.client.cookies.get(self.admin_cookie) or "..").split(".")[1]
        to = self.rng.choice(("on", "on", "off"))
        decision = {"do": self.rng.choice(("exclude", "restore")), "until": "99999999", "reason": "a test"}
        person = self.rng.choice(self.people)
        voter = self.site.arena.store.known_voter("x") or person.client.cookies.get(self.cookie, "v")
        path, form = self.rng.choice(
            (
                ("/models", {"name": self.rng.choice(MODELS), "to": to}),
                ("/prompts", {"name": "p1", "to": to}),
                ("/reports", {"answer": f"{MODELS[1]}/p0", "to": self.rng.choice(("on", "dismiss"))}),
                ("/answers", {"name": f"{MODELS[1]}/p0", "to": "on"}),
                ("/screening", {}),
                (f"/screening/session/{quote(voter)}", decision),
                ("/screening/answers/all", decision),
                ("/screening/exclusion/3", decision),
                ("/settings/phase", {"phase": str(self.rng.choice(PHASES))}),
                ("/settings/limits", dict(ROOMY)),
                ("/settings/texts", {"texts_public": self.rng.choice(("always", "after_retirement"))}),
            )
        )
        if self.rng.random() < 0.2:
            shown = path if path.count("/") == 1 and path != "/answers" else "/settings"
            return Sent(self.desk.client, "GET", f"/admin{self.rng.choice(('', shown, path))}?said=model_on")
        form["token"] = self._token(self.desk, f"admin\n{session}")
        return Sent(self.desk.client, "POST", f"/admin{path}", form)

    # --- What is wrong -----------------------------------------------------------------------------------------------

    def _wrongs(self) -> tuple[Callable[[Sent], Sent], ...]:
        return (self._field, self._field, self._field, self._field, self._path, self._header, self._cookie, self._raw)

    def _word(self) -> str:
        other = self.rng.choice(self.people)
        others = (self._matchup(other), self._token(other, "vote"), self._token(self.desk, "start"), MODELS[0])
        made = "".join(
            chr(self.rng.choice((self.rng.randrange(32, 127), self.rng.randrange(1, 0x2FFF)))) for _ in "1234"
        )
        return self.rng.choice((*HOSTILE, *others, *others, made, "9" * 400, "\u0660", "1_0", "+1", "0x1"))

    def _field(self, sent: Sent) -> Sent:
        """Another value, none, or one more; inside a JSON text, too."""
        if sent.body is not None:
            names = [*sent.body, "choice", "reveal", "extra"]
            values = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in sent.body.items()]
            values.append(f'"{self.rng.choice(names)}":{self.rng.choice(JSON_VALUES)}')
            return replace(sent, body=None, raw=("{" + ",".join(values) + "}").encode())
        if not sent.form:
            return self._query(sent)
        form, name = dict(sent.form), self.rng.choice(tuple(sent.form))
        match self.rng.randrange(5):
            case 0:
                del form[name]
            case 1:
                form[name] = form[name][:-1] + self.rng.choice(("", "0", "A", "\x00", "é"))
            case 2 if form[name].startswith(("{", "[")):
                inner = form[name]
                place = self.rng.randrange(len(inner))
                form[name] = inner[:place] + self._word()[:200] + inner[place + self.rng.randrange(4) :]
            case _:
                form[name] = self._word()
        return replace(sent, form=form)

    def _query(self, sent: Sent) -> Sent:
        name = self.rng.choice(("page", "sort", "q", "category", "prompt", "a", "b", "said", "direction", "provider"))
        mark = "&" if "?" in sent.path else "?"
        return replace(sent, path=f"{sent.path}{mark}{name}={escaped(self._word())}")

    def _path(self, sent: Sent) -> Sent:
        parts = sent.path.split("/")
        place = self.rng.randrange(1, len(parts))
        match self.rng.randrange(4):
            case 0:
                parts[place] += self.rng.choice(("%00", "%0d%0a", "/", "%2f..", "%ff", ";x", "%F0%9F%98%80"))
            case 1:
                return replace(
                    sent, method=self.rng.choice(("PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "GET", "POST"))
                )
            case _:
                parts[place] = escaped(self._word())
        return replace(sent, path="/".join(parts))

    def _header(self, sent: Sent) -> Sent:
        name, _, value = self.rng.choice(HEADERS).partition(": ")
        return replace(sent, headers={**sent.headers, name: value})

    def _cookie(self, sent: Sent) -> Sent:
        """Somebody else's cookie, or most of one's own."""
        other = self.rng.choice((*self.people, self.desk)).client.cookies
        own = sent.client.cookies.get(self.cookie) or ""
        said = self.rng.choice(
            (other.get(self.cookie) or "", own[:-1], own.upper(), own + "A", own[:40], "é", "=" * 50)
        )
        return replace(sent, headers={**sent.headers, "cookie": f"{self.cookie}={said}; {self.admin_cookie}={said}"})

    def _raw(self, sent: Sent) -> Sent:
        return replace(sent, form=None, body=None, raw=self.rng.choice(BODIES))


def send(sent: Sent) -> Any:
    """The answer."""
    headers: dict[str, Any] = {name: value.encode("latin-1") for name, value in sent.headers.items()}
    content = sent.raw
    if sent.form is not None:
        headers.setdefault("content-type", "application/x-www-form-urlencoded")
        content = "&".join(f"{escaped(name)}={escaped(value)}" for name, value in sent.form.items()).encode()
    elif sent.body is not None or (sent.raw is not None and sent.path.startswith("/api")):
        headers.setdefault("content-type", "application/json")
        content = json.dumps(sent.body).encode() if sent.body is not None else sent.raw
    return sent.client.request(sent.method, sent.path, content=content, headers=headers)


def check(answer: Any) -> None:
    """Harmless, and no failure of the site: it may only say that there is nothing to serve, or that it is busy."""
    if answer.status_code == 503:
        assert int(answer.headers["retry-after"]) in (*range(2, 21), 60), answer.text[:300]
        return
    check_harmless(answer)
