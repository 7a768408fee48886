"""Who wrote an answer that is being voted on cannot be found out from anything public."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.site.attackers import (
    MODELS,
    Attacker,
    address_of,
    answer,
    blind_site,
    crawl,
    name_sides,
    public_addresses,
    words,
)
from tests.site.sites import form_in, vote_page
from tests.sizes import size
from tiltyard.arena import NOT_BLIND, Choice, Policy, TextsPublic, clock, read_policy
from tiltyard.arena import events as e
from tiltyard.arena.rules.blindness import SETTLED, hidden_for
from tiltyard.arena.rules.policy import LONGEST_WAIT
from tiltyard.arena.store import Store, log
from tiltyard.errors import OptionError

HIDDEN = "Hidden while it is being voted on."
SOAK = pytest.mark.soak
A_WEEK = hidden_for(Policy()) // 1_000_000 + 1
"""Seconds after which the answers to a prompt that was switched off are public."""


@pytest.mark.parametrize(
    ("texts_public", "models", "prompts", "matchups", "low", "high"),
    [
        ("after_retirement", 3, 3, 12, 0.0, 0.52),
        ("always", 3, 3, 12, 0.99, 1.0),
        pytest.param("after_retirement", 12, 20, 1_000, 0.0, 0.52, marks=SOAK),
        pytest.param("always", 12, 20, 1_000, 0.99, 1.0, marks=SOAK),
    ],
)
def test_whoever_reads_everything_public_names_sides_no_better_than_chance(
    sqlite_url: str, texts_public: TextsPublic, models: int, prompts: int, matchups: int, low: float, high: float
) -> None:
    """Where nothing is hidden, the pages of the models are enough: so whoever reads them would have found something."""
    with blind_site(sqlite_url, models=models, prompts=prompts, texts_public=texts_public) as site:
        client, attacker, seen = site.client(), Attacker(), set[str]()
        site.arena.append([e.PromptDisabled(prompt_id="q00")])
        site.later(A_WEEK)
        for number in range(size(4, soak=8)):
            shown = client.post("/api/v1/matchups").json()
            address = f"/api/v1/matchups/{shown['matchup_id']}"
            if number % 2:
                assert client.post(f"{address}/skip").status_code == 200
            else:
                assert client.post(f"{address}/vote", json={"choice": "A"}).status_code == 200
                seen |= {shown["response_a"], shown["response_b"]}
        site.observatory.refresh()
        asked = [f"q{j:02d}" for j in range(prompts)]
        if texts_public == "always" and not size(0, soak=1):
            of_models = [address_of(name, prompt) for name in MODELS[:models] for prompt in asked]
            attacker.read({address: client.get(address).text for address in of_models})
        else:
            attacker.read(crawl(client, public_addresses(prompts, MODELS[:models])))
        bank = {(i, j): attacker.evidence(words(1, i, j), asked) for i in range(models) for j in range(prompts)}
        for i in range(models):  # what is retired it can read
            assert max(bank[i, 0], key=lambda name: bank[i, 0][name]) == MODELS[i]
        score = name_sides(site, attacker, matchups=matchups, seen=seen, prompts=asked)
        assert low <= score.rate <= high
        if texts_public == "after_retirement":  # and of no single answer in use does it know anything
            assert score.informed == 0
            assert [found for (_, j), found in bank.items() if j and found] == []


def two_copies(template: Path, folder: Path) -> list[str]:
    for name in ("one", "two"):
        shutil.copy(template, folder / f"{name}.db")
    return [f"sqlite:///{folder / name}.db" for name in ("one", "two")]


def test_nothing_public_depends_on_the_words_that_are_being_voted_on(sqlite_template: Path, tmp_path: Path) -> None:
    """Two arenas with the same history but for the answers give the same bytes, but for the hash of the log."""
    read: list[dict[str, str]] = []
    for url, seed in zip(two_copies(sqlite_template, tmp_path), (1, 2), strict=True):
        with blind_site(url, models=2, prompts=2, seed=seed) as site:
            for voter in ("v1", "v2", "v3"):
                shown = site.arena.serve(voter)
                site.arena.vote(shown.matchup_id, voter, Choice.A)
                site.arena.serve(voter)
            site.arena.append([e.Flagged(subject="voter", subject_id="v1", flag="fast")])
            site.arena.append([answer(seed + 5, 0, 1)])  # another one takes the place of an answer
            site.observatory.refresh()
            pages = crawl(site.client(), public_addresses(2, MODELS[:2]))
            head = site.observatory.snapshot.log_hash
        read.append({name: _same_for_all(page, head) for name, page in pages.items() if "/metrics" not in name})
    assert read[0].keys() == read[1].keys()
    assert len(read[0]) > 40
    for address, page in read[0].items():
        assert page == read[1][address], address


def _same_for_all(page: str, head: str) -> str:
    for part in (head, head[:16], head[:12]):
        page = page.replace(part, "HEAD")
    return re.sub(r"set-cookie: .*|etag: .*", "", page)


def without_the_log(page: str) -> str:
    """A page but for how long the log is, when it was looked at, and how many matchups were served and passed."""
    if page.startswith("{\n"):
        values: dict[str, Any] = json.loads(page)
        for holder in (values, values.get("board") or {}):
            for name in ("seq", "head", "at", "since", "until", "events"):
                holder.pop(name, None)
        return json.dumps(values)
    for part in ("<footer.*?</footer>", '<section id="verify">.*?</section>', '<p class="lead">.*?</p>'):
        page = re.sub(part, "", page, flags=re.DOTALL)
    return re.sub(r"<div><dt>matchups served</dt>.*?</div>", "", page)


def test_a_matchup_that_is_open_or_skipped_or_expired_changes_nothing_public(sqlite_url: str) -> None:
    addresses = ["/leaderboard", "/validity", "/data", "/api/v1/validity", "/api/v1/leaderboard", "/compare"]
    addresses += ["/bank", "/api/v1/bank"]
    addresses += ["/api/v1/battles.jsonl", "/leaderboard.csv", *(f"/api/v1/models/{name}" for name in MODELS[:3])]
    with blind_site(sqlite_url, models=3) as site:
        client = site.client()
        for voter in ("v1", "v2", "v3", "v4"):
            site.arena.vote(site.arena.serve(voter).matchup_id, voter, Choice.A)

        def public() -> list[str]:
            site.observatory.refresh()
            return [without_the_log(client.get(address).text) for address in addresses]

        before = public()
        skipped, _ = (client.post("/api/v1/matchups").json() for _ in range(2))
        assert public() == before
        assert client.post(f"/api/v1/matchups/{skipped['matchup_id']}/skip").status_code == 200
        site.clock.at += 3 * 3_600 * 1_000_000
        assert site.arena.expire_due() == 1
        site.observatory.refresh()
        assert public() == before  # a second look counts no second time
        site.arena.vote(site.arena.serve("v9").matchup_id, "v9", Choice.A)
        assert public() != before  # a vote is there to be seen


def test_public_pages_are_the_same_bytes_for_everybody(sqlite_url: str) -> None:
    with blind_site(sqlite_url, models=2, prompts=1) as site:
        voter, stranger = site.client(), site.client()
        for _ in range(2):
            shown = voter.post("/api/v1/matchups").json()
            voter.post(f"/api/v1/matchups/{shown['matchup_id']}/vote", json={"choice": "B"})
        site.observatory.refresh()
        machines = ("/metrics", "/healthz")
        for address in public_addresses(1, MODELS[:2]):
            if address not in machines:
                stranger.cookies.clear()
                mine, theirs = voter.get(address), stranger.get(address)
                assert (mine.status_code, mine.content) == (theirs.status_code, theirs.content), address
                assert mine.headers.get("etag") == theirs.headers.get("etag")
                assert "cookie" not in mine.headers.get("vary", "").lower()


def test_a_models_page_hides_answers_in_use_and_shows_those_of_retired_prompts(sqlite_url: str) -> None:
    with blind_site(sqlite_url, models=4) as site:
        client = site.client()
        live, compared = address_of(MODELS[0], "q01"), f"/compare?a={MODELS[0]}&b={MODELS[1]}&prompt=q01"
        for address in (live, compared):
            page = client.get(address).text
            assert HIDDEN in page
            assert "Prompt number 1?" in page
            assert words(1, 0, 1) not in page
        site.arena.append([answer(9, 0, 1)])  # the first answer is replaced; it is no less hidden
        site.later(1)
        assert words(1, 0, 1) not in client.get(live).text
        site.arena.append([e.PromptDisabled(prompt_id="q01")])
        site.later(A_WEEK)
        page = client.get(live).text
        assert HIDDEN not in page
        assert words(9, 0, 1) in page
        assert words(1, 0, 1) not in page, "what was replaced stays hidden"
        assert words(1, 1, 1) in client.get(compared).text
        assert "The answers to 3 prompts in use are hidden" in page


def test_retiring_a_prompt_does_not_name_a_pair_that_waits_on_another(sqlite_url: str) -> None:
    """Who kept the two texts of a skipped pair must not read their authors while the same two wait for a vote."""
    with blind_site(sqlite_url, models=3, prompts=4) as site:
        client = site.client()
        skipped = client.post("/api/v1/matchups").json()
        prompt = next(f"q{j:02d}" for j in range(4) if skipped["prompt"] == f"Prompt number {j}?")
        assert client.post(f"/api/v1/matchups/{skipped['matchup_id']}/skip").status_code == 200
        waits = client.post("/api/v1/matchups").json()
        site.arena.append([e.PromptDisabled(prompt_id=prompt)])

        def is_public() -> bool:
            pages = "".join(client.get(address_of(name, prompt)).text for name in MODELS[:3])
            return skipped["response_a"] in pages or skipped["response_b"] in pages

        for seconds in (61, LONGEST_WAIT // 1_000_000):  # the pair has stopped to wait, and a matchup may be open yet
            site.later(seconds)
            assert not is_public()
        site.later(2 * 3600)
        vote = client.post(f"/api/v1/matchups/{waits['matchup_id']}/vote", json={"choice": "A"})
        assert vote.status_code == 410, "what was served until then has expired"
        assert is_public()


def test_retiring_a_prompt_shows_its_answers_only_when_nobody_can_vote_on_it_any_more(sqlite_url: str) -> None:
    with blind_site(sqlite_url, models=2, prompts=1, waits=False) as site:
        client, reader = site.client(), site.client()

        def is_hidden() -> bool:
            page = reader.get(address_of(MODELS[0], "q00")).text
            assert (words(1, 0, 0) in page) == (HIDDEN not in page)
            return HIDDEN in page

        shown = client.post("/api/v1/matchups").json()
        site.arena.append([e.PromptDisabled(prompt_id="q00")])
        site.later(0)
        assert is_hidden()  # another worker may be serving it at this moment, and has a minute for it
        assert SETTLED == 60 * 1_000_000
        site.later(3_600)
        assert is_hidden()  # the pair is open
        voted = client.post(f"/api/v1/matchups/{shown['matchup_id']}/vote", json={"choice": "A"})
        assert voted.status_code == 200
        site.observatory.refresh()
        assert not is_hidden()
        site.arena.append([e.PromptEnabled(prompt_id="q00")])
        site.later(0)
        assert is_hidden()
        site.arena.append([e.PromptDisabled(prompt_id="q00")])
        site.later(30)
        assert is_hidden()
        site.later(31)
        assert not is_hidden()


def test_a_skipped_pair_that_was_open_when_its_prompt_was_retired_keeps_it_hidden_until_then(sqlite_url: str) -> None:
    with blind_site(sqlite_url, models=2, prompts=1, waits=False) as site:
        client = site.client()
        shown = client.post("/api/v1/matchups").json()
        site.arena.append([e.PromptDisabled(prompt_id="q00")])
        site.later(600)
        assert words(1, 0, 0) not in client.get(address_of(MODELS[0], "q00")).text
        client.post(f"/api/v1/matchups/{shown['matchup_id']}/skip")
        site.observatory.refresh()
        assert words(1, 0, 0) in client.get(address_of(MODELS[0], "q00")).text


def test_an_arena_that_is_not_blind_says_so_on_every_page(sqlite_url: str) -> None:
    pages = ("/", "/leaderboard", "/validity", "/methods", "/data", "/me", "/compare", "/nowhere", "/admin/login")
    with blind_site(sqlite_url, models=4) as site:
        client = site.client()
        addresses = (*pages, address_of(MODELS[0]), f"/compare?a={MODELS[0]}&b={MODELS[1]}")
        assert not any(NOT_BLIND in client.get(address).text for address in addresses)
        site.arena.append([e.SettingsChanged(policy=Policy(texts_public="always"))])
        site.later(0)
        for address in addresses:
            assert NOT_BLIND in client.get(address).text, address
        assert client.get("/api/v1/validity").json()["blind"] is False
        assert words(1, 0, 2) in client.get(address_of(MODELS[0], "q02")).text


def test_ones_own_votes_are_on_ones_own_page_with_texts_and_names(sqlite_url: str) -> None:
    with blind_site(sqlite_url, models=4) as site:
        client = site.client()
        voted, skipped = (client.post("/api/v1/matchups").json() for _ in range(2))
        receipt = client.post(f"/api/v1/matchups/{voted['matchup_id']}/vote", json={"choice": "B"}).json()
        client.post(f"/api/v1/matchups/{skipped['matchup_id']}/skip")
        still_open = client.post("/api/v1/matchups").json()
        site.observatory.refresh()
        page = client.get("/me")
        assert page.headers["cache-control"] == "private, no-store"
        own = page.text.split('<section id="votes">', 1)[1].split("</section>", 1)[0]
        for said in (voted["prompt"], voted["response_a"], voted["response_b"]):
            assert said in own
        assert f"{receipt['display_b']} over {receipt['display_a']}" in own
        for shown in (skipped, still_open):
            assert shown["response_a"] not in own
        assert voted["response_a"] not in site.client().get("/me").text
        assert client.get("/me?page=1").status_code == client.get("/me?page=x%00").status_code == 200


def test_a_vote_that_can_still_be_undone_is_not_on_ones_own_page_until_its_names_are_shown(sqlite_url: str) -> None:
    with blind_site(sqlite_url, models=4) as site:
        site.clock.at = clock()  # the page goes by the real time
        client = site.client()
        shown = client.post("/api/v1/matchups").json()
        address = f"/api/v1/matchups/{shown['matchup_id']}"
        assert client.post(f"{address}/vote", json={"choice": "A", "reveal": False}).status_code == 200
        site.observatory.refresh()
        assert shown["response_a"] not in client.get("/me").text
        assert client.post(f"{address}/reveal").status_code == 200
        site.observatory.refresh()
        assert shown["response_a"] in client.get("/me").text


def test_the_hash_of_the_log_is_in_nothing_public(sqlite_url: str) -> None:
    """It could be guessed from who wrote what, so it stays in the database."""
    with blind_site(sqlite_url, models=4) as site:
        site.arena.append([answer(9, 2, 0)])
        site.observatory.refresh()
        _, digest = _head(site.arena.store)
        assert site.observatory.snapshot.log_hash == digest
        for address, page in crawl(site.client(), public_addresses(4, MODELS[:4])).items():
            assert digest[:12] not in page, address


def _head(store: Store) -> tuple[int, str]:
    with store.database.read() as connection:
        return log.head(connection)


def test_a_flag_on_an_answer_gives_neither_its_id_nor_its_words_away(sqlite_url: str) -> None:
    with blind_site(sqlite_url, models=4) as site:
        flagged = answer(1, 0, 0)
        flag = e.Flagged(
            subject="response", subject_id=flagged.response_id, flag="self-identifying", detail="I am Moda"
        )
        site.arena.append([e.PhaseChanged(phase=2), flag])
        site.observatory.refresh()
        for address in ("/validity", "/api/v1/validity"):
            page = site.client().get(address).text
            assert "an answer" in page
            assert flagged.response_id not in page
            assert "I am Moda" not in page


def test_a_vote_that_was_taken_back_is_listed_nowhere(sqlite_url: str) -> None:
    with blind_site(sqlite_url, models=4) as site:
        client = site.client()
        fields = form_in(vote_page(client).text)
        client.post("/vote", data={**fields, "choice": "A"})
        client.post("/undo", data=fields)
        site.observatory.refresh()
        for name in MODELS[:4]:
            assert client.get(f"/api/v1/models/{name}").json()["latest_votes"] == []


def test_a_policy_of_the_first_version_is_blind_and_another_word_is_refused() -> None:
    assert read_policy({}).texts_public == "after_retirement"
    assert read_policy({"texts_public": "always"}).texts_public == "always"
    with pytest.raises(OptionError, match="texts_public"):
        read_policy({"texts_public": "sometimes"})
