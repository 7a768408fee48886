"""The administrator's pages: who gets in, and that every change is an event."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.arena.databases import rule_above_the_store
from tests.arena.engines import Clock, sql
from tests.site.administrators import Desk, at_the_desk, log_of, staffed_site, vote_often
from tests.site.attackers import blind_site
from tests.site.sites import ADMIN_SECRET, MODELS, SECRET, SmallSite, form_in, vote_page
from tests.sizes import size
from tests.within import run
from tiltyard.arena import Arena, Limits, Load, TooMany, clock
from tiltyard.arena import events as e
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.store import erase
from tiltyard.arena.store.checkpoints import encode_state
from tiltyard.site.admin_gate import GUESSES, SESSION_SECONDS, Gate, Login
from tiltyard.site.app import create_app
from tiltyard.site.engine import TrialWrite
from tiltyard.site.health import Health
from tiltyard.site.rendering import SiteFacts, render
from tiltyard.site.settings import SiteSettings

PAGES = ("", "/models", "/prompts", "/screening", "/settings")
FORMS = (
    *(
        "/models",
        "/prompts",
        "/screening",
        "/settings/phase",
        "/settings/limits",
        "/settings/texts",
        "/logout",
    ),
    *("/screening/session/somebody", "/screening/answers/all", "/screening/exclusion/1"),
)


@pytest.fixture
def staffed(filled_url: str) -> Iterator[SmallSite]:
    with staffed_site(filled_url) as site:
        yield site


@pytest.fixture(scope="module")
def unchanged(filled_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSite]:
    """One for all tests whose forms are refused."""
    path = shutil.copy(filled_template, tmp_path_factory.mktemp("unchanged") / "arena.db")
    with staffed_site(f"sqlite:///{path}") as site:
        yield site


@pytest.fixture
def staffed_anywhere(arena_url: str) -> Iterator[SmallSite]:
    with staffed_site(arena_url) as site:
        yield site


# --- Who gets in -----------------------------------------------------------------------------------------------------


def test_without_a_secret_there_is_no_desk(sqlite_url: str) -> None:
    with staffed_site(sqlite_url, admin_secret=None) as site:
        client = site.client()
        for page in (*PAGES, "/login", "/screening/session/x"):
            assert client.get(f"/admin{page}").status_code == 404
        for form in (*FORMS, "/login"):
            assert client.post(f"/admin{form}", data={"secret": "", "token": ""}).status_code == 404


def test_strangers_are_led_to_the_login_and_change_nothing(unchanged: SmallSite) -> None:
    client = unchanged.client()
    before = log_of(unchanged)
    for page in (*PAGES, "/screening/session/x"):
        answer = client.get(f"/admin{page}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/admin/login")
    for form in FORMS:
        answer = client.post(f"/admin{form}", data={"name": MODELS[0], "to": "off", "phase": "4"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/admin/login")
    assert log_of(unchanged) == before


def test_the_right_secret_opens_every_page(unchanged: SmallSite) -> None:
    desk = at_the_desk(unchanged)
    for page in PAGES:
        assert "<h1>" in desk.page(f"/admin{page}")


def session_cookie(site: SmallSite) -> str:
    return Gate(site.settings, site.arena.store).cookie


def test_the_session_cookie_is_strict_and_hidden_from_scripts(unchanged: SmallSite) -> None:
    desk = Desk(unchanged.client())
    token = desk.token("/admin/login")
    answer = desk.client.post("/admin/login", data={"token": token, "secret": ADMIN_SECRET})
    (cookie,) = [said for said in answer.headers.get_list("set-cookie") if said.startswith("tiltyard-admin-")]
    for part in ("HttpOnly", "SameSite=strict", "Path=/admin", f"Max-Age={SESSION_SECONDS}"):
        assert part.lower() in cookie.lower()
    assert "secure" not in cookie.lower()  # the visitor came by plain http
    assert ADMIN_SECRET not in answer.text


def test_by_https_the_session_cookie_is_secure(sqlite_url: str) -> None:
    with staffed_site(sqlite_url) as site:
        client = site.client()
        client.base_url = "https://testserver"
        desk = Desk(client)
        answer = client.post("/admin/login", data={"token": desk.token("/admin/login"), "secret": ADMIN_SECRET})
        (cookie,) = [said for said in answer.headers.get_list("set-cookie") if said.startswith("tiltyard-admin-")]
        assert "; secure" in cookie.lower()


def test_a_wrong_secret_is_refused_and_five_guesses_are_allowed(staffed: SmallSite) -> None:
    desk = Desk(staffed.client())
    for _ in range(5):
        status, text = desk.post("/admin/login", {"secret": "not the secret at all"})
        assert status == 403
        assert "not the secret at all" not in text
    answer = desk.client.post("/admin/login", data={"token": desk.token("/admin/login"), "secret": ADMIN_SECRET})
    assert answer.status_code == 429  # even the right one, now
    assert int(answer.headers["retry-after"]) > 0


def test_a_right_guess_does_not_count_as_a_wrong_one(staffed: SmallSite) -> None:
    desks = [at_the_desk(staffed) for _ in range(GUESSES + 2)]
    assert all(desk.client.get("/admin").status_code == 200 for desk in desks)


def test_a_login_form_of_another_network_is_refused(unchanged: SmallSite) -> None:
    ann, bob = Desk(unchanged.client("192.0.2.7")), Desk(unchanged.client("198.51.100.7"))
    token = ann.token("/admin/login")
    bob.token("/admin/login")
    answer = bob.client.post("/admin/login", data={"token": token, "secret": ADMIN_SECRET})
    assert answer.status_code == 403
    assert not [name for name in bob.client.cookies if "admin" in name]


def test_every_form_of_the_desk_needs_its_token(unchanged: SmallSite) -> None:
    desk = at_the_desk(unchanged)
    other = at_the_desk(unchanged).token("/admin/settings")
    before = log_of(unchanged)
    for form in FORMS:
        for token in ("", "0" * 64, other):
            answer = desk.client.post(f"/admin{form}", data={"token": token, "name": MODELS[0], "to": "off"})
            assert answer.status_code == 403, form
    assert log_of(unchanged) == before


def test_the_token_of_one_form_opens_no_other_form_of_the_same_visitor(staffed: SmallSite) -> None:
    """Five purposes, 20 pairs of another's token: all refused. The admin's token of an earlier session is the 21st."""
    desk = Desk(staffed.client())
    tokens = {"/start": desk.token("/"), "/admin/login": desk.token("/admin/login")}
    form = form_in(vote_page(desk.client).text)
    tokens |= {"/vote": form["token"], "/me/forget": desk.token("/me")}
    login = {"token": tokens["/admin/login"], "secret": ADMIN_SECRET}
    assert desk.client.post("/admin/login", data=login).status_code == 303
    tokens["/admin/settings/phase"] = desk.token("/admin/settings")
    fields = {"matchup_id": form["matchup_id"], "choice": "A", "secret": ADMIN_SECRET, "phase": "4"}
    before = log_of(staffed)
    for address in tokens:
        for made_for, token in tokens.items():
            if made_for != address:
                answer = desk.client.post(address, data={**fields, "token": token})
                assert answer.status_code == 403, (address, made_for)
    assert desk.client.post("/admin/login", data=login).status_code == 303  # another session of the same visitor
    earlier = {**fields, "token": tokens["/admin/settings/phase"]}
    assert desk.client.post("/admin/settings/phase", data=earlier).status_code == 403
    assert log_of(staffed) == before
    assert desk.client.post("/vote", data={**fields, "token": tokens["/vote"]}).status_code == 303


def test_a_form_from_another_site_is_refused(unchanged: SmallSite) -> None:
    desk = at_the_desk(unchanged)
    fields = {"token": desk.token("/admin/settings"), "phase": "4"}
    answer = desk.client.post("/admin/settings/phase", data=fields, headers={"origin": "https://elsewhere.example"})
    assert answer.status_code == 403


def test_who_logs_out_is_out_even_with_the_old_cookie(unchanged: SmallSite) -> None:
    desk = at_the_desk(unchanged)
    cookie = session_cookie(unchanged)
    kept = desk.client.cookies[cookie]
    status, where = desk.post("/admin/logout", {}, shown_at="/admin")
    assert (status, where) == (303, "/admin/login")
    assert desk.client.get("/admin").status_code == 303
    assert desk.client.get("/admin", headers={"cookie": f"{cookie}={kept}"}).status_code == 303


@rule_above_the_store
def test_who_logs_out_at_one_host_is_out_at_the_others(arena_url: str) -> None:
    with staffed_site(arena_url) as site, Arena.open(arena_url) as arena:
        app = create_app(site.settings, arena, site.observatory)
        with TestClient(app, follow_redirects=False) as elsewhere:
            desk = at_the_desk(site)
            cookie = session_cookie(site)
            session = {"cookie": f"{cookie}={desk.client.cookies[cookie]}"}
            assert elsewhere.get("/admin", headers=session).status_code == 200
            desk.post("/admin/logout", {}, shown_at="/admin")
            assert elsewhere.get("/admin", headers=session).status_code == 303
        assert verify(site.url).clean  # it lies outside the chain


def test_ended_sessions_are_forgotten_when_their_time_is_over(sqlite_site: SmallSite) -> None:
    now = Clock(step=0)
    gate = Gate(sqlite_site.settings, sqlite_site.arena.store, now)
    first, second = gate.enter("192.0.2.1", ADMIN_SECRET), gate.enter("192.0.2.1", ADMIN_SECRET)
    assert first is not None
    assert second is not None
    gate.leave(first)
    gate.leave(first)  # a second time does no harm
    assert (gate.left(first), gate.left(second)) == (True, False)
    now.turn(SESSION_SECONDS)
    gate.leave(second)
    assert sql(sqlite_site.url, "SELECT count(*) FROM ended_sessions") == [(0,)]


def test_a_session_ends_after_twelve_hours(sqlite_site: SmallSite) -> None:
    now = Clock(step=0)
    gate = Gate(sqlite_site.settings, sqlite_site.arena.store, now)
    session = gate.enter("192.0.2.1", ADMIN_SECRET)
    assert session is not None
    cookie = gate.written(session)
    now.turn(12 * 3600 - 1)
    assert gate.session(cookie) == session
    now.turn(1)
    assert gate.session(cookie) is None


def test_wrong_guesses_are_forgiven_after_a_while_and_others_are_not_punished(sqlite_site: SmallSite) -> None:
    now = Clock(step=0)
    gate = Gate(sqlite_site.settings, sqlite_site.arena.store, now)
    for _ in range(GUESSES):
        assert gate.enter("192.0.2.1", "wrong") is None
    with pytest.raises(TooMany):
        gate.enter("192.0.2.1", ADMIN_SECRET)
    assert gate.enter("192.0.2.2", ADMIN_SECRET) is not None
    now.turn(1000)
    assert gate.enter("192.0.2.1", ADMIN_SECRET) is not None


@settings(
    max_examples=size(40, soak=200), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(text=st.text(max_size=150) | st.from_regex(r"\A[0-9]{1,12}\.[A-Za-z0-9_-]{22}\.[0-9a-f]{64}\Z"))
def test_no_cookie_but_our_own_is_a_session(sqlite_site: SmallSite, text: str) -> None:
    assert Gate(sqlite_site.settings, sqlite_site.arena.store).session(text) is None


def test_a_changed_or_foreign_cookie_is_no_session(sqlite_site: SmallSite) -> None:
    store = sqlite_site.arena.store
    gate = Gate(sqlite_site.settings, store)
    session = Login(clock() // 1_000_000 + 60, "a" * 22)
    assert gate.session(gate.written(session)) == session
    later = gate.written(session).replace(str(session.expires), str(session.expires + 1))
    assert gate.session(later) is None
    renamed = gate.written(session).replace(session.name, "b" * 22)  # the name says which session was logged out
    assert gate.session(renamed) is None
    for own, admins in (("another secret of the site", ADMIN_SECRET), (SECRET, "another secret of the desk")):
        other = Gate(SiteSettings(db=sqlite_site.url, secret=own, admin_secret=admins), store)
        assert gate.session(other.written(session)) is None


def test_two_arenas_on_one_host_share_no_session_whatever_their_secrets(tmp_path: Path, filled_url: str) -> None:
    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert run(tmp_path, "arena", "init", "--db", other).returncode == 0
    with staffed_site(filled_url) as ours, staffed_site(other) as theirs:
        gates = [Gate(site.settings, site.arena.store) for site in (ours, theirs)]
        assert gates[0].cookie != gates[1].cookie
        session = Login(clock() // 1_000_000 + 60, "a" * 22)
        assert gates[1].session(gates[0].written(session)) is None


# --- What is done there ----------------------------------------------------------------------------------------------


def test_a_model_is_switched_off_and_on_by_events(staffed: SmallSite) -> None:
    site, desk = staffed, at_the_desk(staffed)
    assert desk.post("/admin/models", {"name": MODELS[1], "to": "off"}) == (303, "/admin/models?said=model_off")
    assert log_of(site)[-1] == e.ModelDisabled(model=MODELS[1])
    assert MODELS[1] not in [row.model for row in site.observatory.snapshot.board.rows]
    assert "The model is no longer served" in desk.page("/admin/models?said=model_off")
    desk.post("/admin/models", {"name": MODELS[1], "to": "on"})
    assert log_of(site)[-1] == e.ModelEnabled(model=MODELS[1])
    assert verify(site.url).clean


def test_a_prompt_is_switched_off_and_on_by_events(staffed: SmallSite) -> None:
    desk = at_the_desk(staffed)
    desk.post("/admin/prompts", {"name": "p1", "to": "off"})
    assert log_of(staffed)[-1] == e.PromptDisabled(prompt_id="p1")
    desk.post("/admin/prompts", {"name": "p1", "to": "on"})
    assert log_of(staffed)[-1] == e.PromptEnabled(prompt_id="p1")


def test_what_does_not_exist_cannot_be_switched(unchanged: SmallSite) -> None:
    desk, before = at_the_desk(unchanged), log_of(unchanged)
    for address in ("/admin/models", "/admin/prompts"):
        status, text = desk.post(address, {"name": "<script>nobody</script>", "to": "off"})
        assert status == 400
        assert "<script>" not in text
        assert "Nothing was written" in text
    assert log_of(unchanged) == before


def test_the_phase_and_the_limits_are_changed_by_events(staffed: SmallSite) -> None:
    desk = at_the_desk(staffed)
    assert desk.post("/admin/settings/phase", {"phase": "3"}, "/admin/settings")[1] == "/admin/settings?said=phase"
    assert log_of(staffed)[-1] == e.PhaseChanged(phase=3)
    before = staffed.arena.read(lambda state: state.policy)
    fields = dict.fromkeys(Limits.__struct_fields__, "7")
    assert desk.post("/admin/settings/limits", fields, "/admin/settings")[0] == 303
    after = staffed.arena.read(lambda state: state.policy)
    assert after.limits == Limits(**dict.fromkeys(Limits.__struct_fields__, 7))
    assert after.lanes == before.lanes
    assert after.rating == before.rating


@pytest.mark.parametrize("phase", ["0", "5", "", "two", "3" * 5000])
def test_there_are_four_phases(unchanged: SmallSite, phase: str) -> None:
    desk = at_the_desk(unchanged)
    assert desk.post("/admin/settings/phase", {"phase": phase}, "/admin/settings")[0] == 400
    assert unchanged.arena.read(lambda state: state.phase) == 1


@pytest.mark.parametrize("limit", ["0", "-1", "", "ten", "1e9", "٣", "99999999"])
def test_a_limit_is_a_whole_number_from_one_on(unchanged: SmallSite, limit: str) -> None:
    desk, before = at_the_desk(unchanged), log_of(unchanged)
    fields = dict.fromkeys(Limits.__struct_fields__, "7") | {"address_votes_per_minute": limit}
    status, text = desk.post("/admin/settings/limits", fields, "/admin/settings")
    assert status == 400
    assert "address_votes_per_minute" in text
    assert log_of(unchanged) == before


def test_a_prompt_whose_answers_were_public_is_switched_on_with_a_warning(sqlite_url: str) -> None:
    with blind_site(sqlite_url, models=2, prompts=2) as site:
        site.observatory.start()  # a form waits a while for what it changed
        desk = at_the_desk(site)  # type: ignore[arg-type]

        def switch(to: str) -> str:
            _, where = desk.post("/admin/prompts", {"name": "q00", "to": to})
            return where

        assert switch("off").endswith("said=prompt_off")
        assert "Its answers are still hidden" in desk.page("/admin/prompts")
        assert switch("on").endswith("said=prompt_on")  # they never were public
        switch("off")
        site.later(8 * 86_400)
        assert "switched on again, it would no longer be blind" in desk.page("/admin/prompts")
        where = switch("on")
        assert "it is no longer blind" in desk.page(where)
        assert 'aria-label="Switch off: q00"' in desk.page("/admin/prompts")
        erase(site.arena.store, [("prompt", "q00")], site.arena.now())
        erased = desk.page("/admin/prompts")
        assert "Erased: it cannot be served again." in erased
        assert ": q00" not in erased
        assert ": q01" in erased


def test_when_answers_are_public_is_an_event_like_any_setting(staffed: SmallSite) -> None:
    desk = at_the_desk(staffed)
    assert "The arena is blind" in desk.page("/admin/settings")
    assert desk.post("/admin/settings/texts", {"texts_public": "always"}, "/admin/settings") == (
        303,
        "/admin/settings?said=texts",
    )
    changed = log_of(staffed)[-1]
    assert isinstance(changed, e.SettingsChanged)
    assert changed.policy.texts_public == "always"
    assert "This arena is not blind" in desk.page("/admin/settings")
    assert desk.post("/admin/settings/texts", {"texts_public": "sometimes"}, "/admin/settings")[0] == 400
    assert log_of(staffed)[-1] == changed


def test_an_imported_answer_that_names_its_model_is_flagged(staffed: SmallSite, tmp_path: Path) -> None:
    desk = at_the_desk(staffed)
    row = {"entrant_id": MODELS[0], "prompt_id": "p0", "response_text": "I am Zyxwolf One, made by Zyxcorp."}
    (tmp_path / "responses").mkdir()
    (tmp_path / "responses" / f"responses_{MODELS[0]}.jsonl").write_text(json.dumps(row), encoding="utf-8")
    done = run(tmp_path, "arena", "import", "--responses", "responses", "--db", staffed.url)
    assert "held 1 of 1 answers (100.0 %): they contain their author's name" in done.stdout + done.stderr
    flag, added = log_of(staffed)[-2:]
    assert isinstance(flag, e.Flagged)
    assert isinstance(added, e.ResponseAdded)
    assert (flag.subject, flag.flag) == ("response", "self-identifying")
    assert flag.subject_id == added.response_id, "it comes before the answer, which is never served"
    assert "Do not serve it" not in desk.page("/admin/screening")
    looked_at = f"/admin/answer?id={added.response_id}"
    assert looked_at in desk.page("/admin/screening")
    assert "It is not served." in desk.page(looked_at)
    assert added.text[:20] in desk.page(looked_at)
    assert desk.client.get("/admin/answer?id=nothing").status_code == 400
    assert desk.post("/admin/answers", {"name": added.response_id, "to": "on"}, "/admin/screening")[0] == 303
    assert log_of(staffed)[-1] == e.ResponseEnabled(response_id=added.response_id)
    assert "Do not serve it" in desk.page("/admin/screening")


# --- Screening -------------------------------------------------------------------------------------------------------


@rule_above_the_store
def test_a_session_that_only_says_a_is_found_excluded_and_restored(staffed_anywhere: SmallSite) -> None:
    site, desk = staffed_anywhere, at_the_desk(staffed_anywhere)
    vote_often(site, "honest", "ABTXABBA")
    made = vote_often(site, "odd", "A" * 25)
    without = site.arena.read(lambda state: int(state.tallies.wins.view.sum()))
    assert "/admin/screening/session/odd" in desk.page("/admin/screening")
    address = "/admin/screening/session/odd"
    page = desk.page(address)
    assert "If these 25 votes did not count" in page
    (until,) = re.findall(r'name="until" value="(\d+)"', page)
    decided = {"do": "exclude", "until": until, "reason": "votes faster than it reads"}
    assert desk.post(address, decided) == (303, "/admin/screening?said=excluded")
    excluded = log_of(site)[-1]
    assert isinstance(excluded, e.Excluded)
    assert sorted(excluded.matchup_ids) == sorted(made)
    assert excluded.reason == "votes faster than it reads"
    assert site.arena.read(lambda state: int(state.tallies.wins.view.sum())) == without - 25
    page = desk.page(address)
    assert "If these 25 votes counted again" in page
    assert "did not count" not in page
    (until,) = re.findall(r'name="until" value="(\d+)"', page)
    assert desk.post(address, {"do": "restore", "until": until, "reason": "it was the owner's cat"})[0] == 303
    assert isinstance(log_of(site)[-1], e.Restored)
    assert site.arena.read(lambda state: int(state.tallies.wins.view.sum())) == without
    assert verify(site.url).clean


def test_the_preview_is_what_then_happens(staffed: SmallSite) -> None:
    desk = at_the_desk(staffed)
    vote_often(staffed, "honest", "ABTXABBAABAB")
    vote_often(staffed, "odd", "B" * 22)
    shown = _after_in(desk.page("/admin/screening/session/odd"))
    _decide(desk, "/admin/screening/session/odd", "exclude")
    board = staffed.observatory.snapshot.board
    assert shown == {row.display_name: (row.rank, f"{row.rating:.0f}") for row in board.rows}


def test_looking_at_a_case_changes_nothing(staffed: SmallSite) -> None:
    desk = at_the_desk(staffed)
    vote_often(staffed, "odd", "B" * 22)
    before, board = staffed.arena.read(encode_state), staffed.observatory.refresh().board
    desk.page("/admin/screening/session/odd")
    assert staffed.arena.read(encode_state) == before
    assert staffed.observatory.refresh().board == board


def test_votes_cast_after_the_look_are_not_excluded_with_it(staffed: SmallSite) -> None:
    desk = at_the_desk(staffed)
    made = vote_often(staffed, "odd", "A" * 21)
    (until,) = re.findall(r'name="until" value="(\d+)"', desk.page("/admin/screening/session/odd"))
    vote_often(staffed, "odd", "AAA")
    desk.post("/admin/screening/session/odd", {"do": "exclude", "until": until, "reason": "odd"})
    excluded = log_of(staffed)[-1]
    assert isinstance(excluded, e.Excluded)
    assert sorted(excluded.matchup_ids) == sorted(made)


def test_an_exclusion_can_be_restored_from_the_list(staffed: SmallSite) -> None:
    desk = at_the_desk(staffed)
    made = vote_often(staffed, "odd", "A" * 5)
    staffed.arena.append([e.Excluded(matchup_ids=tuple(made[:3]), reason="by the command line")])
    staffed.observatory.refresh()
    (address,) = re.findall(r'"(/admin/screening/exclusion/\d+)"', desk.page("/admin/screening"))
    _decide(desk, address, "restore")
    restored = log_of(staffed)[-1]
    assert isinstance(restored, e.Restored)
    assert sorted(restored.matchup_ids) == sorted(made[:3])


def test_votes_on_answers_that_name_their_model_are_one_case(staffed: SmallSite) -> None:
    desk = at_the_desk(staffed)
    said = "I am Qvartz 7B, made by Qvartz Labs."
    staffed.arena.append(
        [e.ResponseAdded(response_id=f"t{j}", model=MODELS[1], prompt_id=f"p{j}", text=said) for j in range(3)]
    )
    vote_often(staffed, "honest", "ABTX" * 6)
    page = desk.page("/admin/screening")
    assert "Answers that name their authors" in page
    assert "/admin/screening/answers/all" in page
    _decide(desk, "/admin/screening/answers/all", "exclude")
    assert isinstance(log_of(staffed)[-1], e.Excluded)
    assert staffed.observatory.snapshot.board[MODELS[1]].votes == 0


def test_what_was_found_is_written_to_the_log_once(staffed: SmallSite) -> None:
    desk = at_the_desk(staffed)
    vote_often(staffed, "odd", "A" * 25)
    assert desk.post("/admin/screening", {})[1] == "/admin/screening?said=flags"
    flags = [body for body in log_of(staffed) if isinstance(body, e.Flagged)]
    assert {flag.subject_id for flag in flags} == {"odd"}
    assert desk.post("/admin/screening", {})[1] == "/admin/screening?said=nothing"
    assert [body for body in log_of(staffed) if isinstance(body, e.Flagged)] == flags


def test_a_decision_needs_a_reason_and_votes(staffed: SmallSite) -> None:
    desk = at_the_desk(staffed)
    vote_often(staffed, "odd", "A" * 3)
    before = log_of(staffed)
    address = "/admin/screening/session/odd"
    for fields in (
        {"do": "exclude", "until": "1000", "reason": "  "},
        {"do": "explode", "until": "1000", "reason": "x"},
        {"do": "exclude", "until": "-1", "reason": "x"},
        {"do": "exclude", "until": "9" * 4000, "reason": "x"},
    ):
        assert desk.post(address, fields)[0] == 400
    assert desk.post(address, {"do": "restore", "until": "1000", "reason": "x"})[1].endswith("said=nothing")
    assert desk.client.get("/admin/screening/session/nobody").status_code == 400
    assert desk.client.get("/admin/screening/exclusion/77").status_code == 400
    assert desk.client.get("/admin/screening/elsewhere/77").status_code == 404
    assert log_of(staffed) == before


def test_the_overview_says_how_things_stand(staffed: SmallSite) -> None:
    desk = at_the_desk(staffed)
    vote_often(staffed, "honest", "AB")
    staffed.arena.serve("waiting")
    staffed.arena.append([e.ModelDisabled(model=MODELS[2])])
    page = unescape(desk.page("/admin"))
    assert "The site is taking votes." in page
    assert f"Model switched off: <bdi>{MODELS[2]}</bdi>" in page
    assert "<dt>Matchups waiting for a vote</dt><dd>1</dd>" in page


def test_what_a_session_is_called_cannot_break_a_page(staffed: SmallSite) -> None:
    desk = at_the_desk(staffed)
    staffed.arena.append([e.ModelAdded(model="<b>x</b>", display_name='"><script>alert(1)</script>')])
    for page in (
        "/admin",
        "/admin/models",
        "/admin/screening",
        "/admin/models?said=<script>",
        "/admin?said=model_on%00",
    ):
        assert "<script>alert" not in desk.page(page)
        assert "<b>x" not in desk.page(page)


def _decide(desk: Desk, address: str, verb: str) -> None:
    (until,) = set(re.findall(r'name="until" value="(\d+)"', desk.page(address)))
    status, where = desk.post(address, {"do": verb, "until": until, "reason": "a test decides"})
    assert (status, where) == (303, f"/admin/screening?said={verb}d")


def _after_in(page: str) -> dict[str, tuple[int, str]]:
    """Place and rating of each model that the preview promises."""
    found = {}
    for row in re.findall(r'<tr><th scope="row"><bdi>(.*?)</tr>', page, re.DOTALL):
        name = row.partition("</bdi>")[0]
        cells = re.findall(r"<td[^>]*>([^<]*)</td>", row)
        found[name] = (int(cells[1]), cells[4])
    return found


def test_the_overview_says_that_the_writer_is_slow_or_broken() -> None:
    idle = Load(waiting=0, group_seconds=0.0)
    writers = {
        "busy": TrialWrite(idle),
        "not working": TrialWrite(idle, trouble="disk full"),
        "OK, 2.0 ms": TrialWrite(idle, 0.002),
    }
    for said, writer in writers.items():
        health = Health(None, writer, None, None, ())
        context = {"health": health, "totals": None, "actions": [], "board": None}
        page = render("admin.html", SiteFacts("Arena"), {"tab": "overview", "token": "", "said": "", **context})
        assert f">{said}</dd>" in page
        assert ">no response</dd>" in page, "the database did not answer either"
