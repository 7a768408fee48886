"""A vote whose names are held back changes nothing public: whoever may undo it cannot read the names elsewhere."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.arena.engines import Clock, play
from tests.site.sites import IDENTIFYING, MODELS, NAMES, QUICK, SmallSite, form_in, vote_once, vote_page
from tests.site.test_vote_page import site_with_a_clock
from tiltyard.arena import Arena
from tiltyard.arena import events as e
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.study import Observatory

PUBLIC = (
    *("/leaderboard", "/validity", "/data", "/methods", f"/compare?a={MODELS[0]}&b={MODELS[1]}", "/leaderboard.csv"),
    *("/api/v1/leaderboard", "/api/v1/validity", "/api/v1/battles.jsonl"),
    *(f"/api/v1/models/{model}" for model in MODELS),
    f"/models/{MODELS[0]}",
)
OF_A_BOARD = ("/leaderboard", "/api/v1/leaderboard", "/api/v1/battles.jsonl")


@pytest.fixture(scope="module")
def played(filled_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An arena with twelve votes."""
    path = Path(shutil.copy(filled_template, tmp_path_factory.mktemp("played") / "arena.db"))
    with Arena.open(f"sqlite:///{path}") as arena:
        play(arena, 12)
    return path


@pytest.fixture
def clocked(played: Path, tmp_path: Path) -> Iterator[tuple[SmallSite, Clock]]:
    """A site over a copy of it, whose time stands until it is turned."""
    with site_with_a_clock(f"sqlite:///{shutil.copy(played, tmp_path / 'arena.db')}") as made:
        yield made


def served(client: TestClient) -> str:
    """The address of a new matchup in the JSON interface."""
    return f"/api/v1/matchups/{client.post('/api/v1/matchups').json()['matchup_id']}"


def vote(client: TestClient, choice: str, address: str = "", **options: bool) -> tuple[str, dict[str, object]]:
    """The address of a matchup and the answer to a vote on it."""
    address = address or served(client)
    answer = client.post(f"{address}/vote", json={"choice": choice, **options})
    assert answer.status_code == 200, answer.text
    return address, answer.json()


def public(site: SmallSite, addresses: tuple[str, ...] = PUBLIC) -> dict[str, bytes]:
    site.observatory.refresh()
    reader = site.client()
    pages = {address: reader.get(address) for address in addresses}
    assert all(page.status_code == 200 for page in pages.values())
    return {address: page.content for address, page in pages.items()}


def test_nothing_public_moves_while_a_vote_can_be_undone(clocked: tuple[SmallSite, Clock]) -> None:
    site, clock = clocked
    client = site.client()
    address = served(client)
    before = public(site)
    _, answer = vote(client, "A", address, reveal=False)
    assert set(answer) == {"matchup_id", "choice", "final", "undo_until"}
    assert answer["final"] is False
    assert not any(name in client.get(address).text for name in IDENTIFYING)
    clock.turn(4)
    assert public(site) == before
    assert not any(name in _main(client.get("/me").text) for name in NAMES)
    clock.turn(4)
    after = public(site, OF_A_BOARD)
    assert after["/api/v1/leaderboard"] != before["/api/v1/leaderboard"]
    assert len(after["/api/v1/battles.jsonl"].splitlines()) == len(before["/api/v1/battles.jsonl"].splitlines()) + 1


def _main(page: str) -> str:
    return page.partition("<main")[2].partition("</main>")[0]


def test_somebody_elses_result_tells_nothing_of_it(clocked: tuple[SmallSite, Clock]) -> None:
    """The ratings beside a result are those from before six votes that are held back, which moved all models."""
    site, _ = clocked
    site.arena.append([e.PhaseChanged(phase=4)])
    board = site.observatory.refresh().board
    ratings = {row.display_name: row.rating_shown for row in board.rows}
    hiding, looking = site.client(), site.client()
    for choice in ("A", "B", "A", "B", "A", "B"):
        vote(hiding, choice, reveal=False)
    site.observatory.refresh()
    for _ in range(4):
        page = looking.get(vote_once(looking, "BOTH_BAD")).text
        names = re.findall(r'<h2 id="name-[ab]">(?:<span class="letter"[^>]*>.</span> )?([^<]+?)(?: <span|</h2>)', page)
        shown = re.findall(r'<span class="rating">(\d+)', page)  # both bad moves nobody
        assert [int(figure) for figure in shown] == [round(ratings[name]) for name in names]


def test_an_export_ends_before_the_first_vote_that_is_not_final(clocked: tuple[SmallSite, Clock]) -> None:
    site, clock = clocked
    hiding, other = site.client(), site.client()

    def exported() -> int:
        site.observatory.refresh()
        return len([json.loads(line) for line in other.get("/api/v1/battles.jsonl").text.splitlines()])

    before = exported()
    address, _ = vote(hiding, "A", reveal=False)
    vote(other, "B")
    vote(other, "B", reveal=False)
    assert exported() == before
    clock.turn(3)
    assert hiding.post(f"{address}/undo").status_code == 200
    clock.turn(5)
    assert exported() == before + 2
    assert verify(site.url).clean


def test_revealing_publishes_at_once_and_repeats_are_the_same(clocked: tuple[SmallSite, Clock]) -> None:
    site, _ = clocked
    client = site.client()
    before = site.observatory.refresh().board.votes
    address, held = vote(client, "A", reveal=False)
    again = client.post(f"{address}/vote", json={"choice": "A", "reveal": False})
    assert again.json() == held
    assert client.post(f"{address}/vote", json={"choice": "B", "reveal": False}).status_code == 409
    told = client.post(f"{address}/reveal")
    assert told.status_code == 200
    assert {told.json()["model_a"], told.json()["model_b"]} <= set(MODELS)
    for body in ({"choice": "A"}, {"choice": "A", "reveal": False}):
        assert client.post(f"{address}/vote", json=body).content == told.content
    assert client.post(f"{address}/reveal").content == told.content
    refused = client.post(f"{address}/undo")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "too_late")
    assert site.observatory.refresh().board.votes == before + 1
    assert verify(site.url).clean


def test_reveal_is_for_the_voter_of_a_vote(clocked: tuple[SmallSite, Clock]) -> None:
    site, _ = clocked
    ann, bob = site.client(), site.client()
    address = served(ann)
    bob.post("/api/v1/matchups")
    refused = ann.post(f"{address}/reveal")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_vote")
    ann.post(f"{address}/vote", json={"choice": "A", "reveal": False})
    assert bob.post(f"{address}/reveal").status_code == 404
    assert ann.post(f"{address}/reveal", headers={"origin": "https://elsewhere.example"}).status_code == 403
    ann.post(f"{address}/undo")
    for _ in range(2):
        gone = ann.post(f"{address}/reveal")
        assert gone.status_code == 410
        assert not any(name in gone.text for name in IDENTIFYING)


def test_a_site_that_starts_while_a_vote_is_held_back_publishes_nothing_of_it(clocked: tuple[SmallSite, Clock]) -> None:
    """The checkpoint from which it would start may lie behind that vote."""
    site, clock = clocked
    hiding = site.client()
    address = served(hiding)
    before = site.observatory.refresh()
    vote(hiding, "A", address, reveal=False)
    vote(site.client(), "B")
    with Arena.open(site.url) as second:
        assert second.read(lambda state: state.seq) == before.seq + 3
        fresh = Observatory(site.url, now=clock, pace=QUICK)
        assert fresh.refresh().board == before.board
        assert len(fresh.look(lambda _, votes: list(votes))) == before.board.votes
        clock.turn(8)
        assert fresh.refresh().board.votes == before.board.votes + 2
        fresh.close()


def test_a_stream_of_held_back_votes_delays_the_board_by_seconds_not_for_ever(clocked: tuple[SmallSite, Clock]) -> None:
    site, clock = clocked
    client = site.client()
    before = site.observatory.refresh().board.votes
    addresses = []
    for number in range(8):
        addresses.append(vote(client, "A", reveal=False)[0])
        clock.turn(2.4)
        if number % 2:
            client.post(f"{addresses[-2]}/undo")
        if number % 4 == 1:
            assert site.observatory.refresh().board.votes >= before
    published = site.observatory.refresh().board.votes
    assert published > before
    clock.turn(8)
    assert site.observatory.refresh().board.votes == before + 4


def test_a_page_vote_is_held_back_too(clocked: tuple[SmallSite, Clock]) -> None:
    site, _ = clocked
    client = site.client()
    vote_page(client)
    before = public(site, OF_A_BOARD)
    where = vote_once(client, reveal=False)
    assert public(site, OF_A_BOARD) == before
    assert client.post("/undo", data=form_in(client.get(where).text)).status_code == 303
    assert site.observatory.refresh().board.votes == 12
