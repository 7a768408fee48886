"""A model's page: every figure from the arena's own functions, the answers safe, unknown models a clear 404."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.records import replace
from tests.site.board_fixtures import MODELS, NEWCOMER, BoardSite, board_site, retire, week_of_votes
from tiltyard.arena import Record, results_by_prompt_and_opponent
from tiltyard.arena import events as e
from tiltyard.arena.study.model_detail import model_detail
from tiltyard.site import charts, model
from tiltyard.site.model import ModelPage, chosen_prompt, extremes, model_page, model_values, prompt_grid


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardSite]:
    with board_site(week_of_votes(400), tmp_path_factory.mktemp("model")) as made:
        yield made


def page_of(site: BoardSite, name: str) -> ModelPage:
    snapshot = site.world.snapshot
    return site.world.observatory.look(lambda state, votes: model_page(snapshot, state, votes, name))


def test_the_page_has_every_section_of_the_policy(site: BoardSite) -> None:
    page = site.client.get(f"/models/{MODELS[0]}").text
    sections = [
        "neighbours",
        "standing",
        "leanings",
        "prompts",
        "opponents",
        "coverage",
        "answer",
        "votes",
        "quality",
        "calibration",
    ]
    assert re.findall(r'<section id="(\w+)"', page) == sections
    assert page.count('<svg class="plot') == 3
    assert " style=" not in page


def test_its_figures_are_those_of_the_board(site: BoardSite) -> None:
    page, row = page_of(site, MODELS[0]), site.world.snapshot.board[MODELS[0]]
    assert page.detail.row == row
    assert page.win_rate == row.wins / (row.wins + row.losses)
    assert sum(record.wins for record in page.detail.opponents) == row.wins
    assert sum(record.wins for record in page.detail.prompts) == row.wins
    again = site.world.observatory.look(lambda state, _: model_detail(state, MODELS[0], site.world.snapshot.board))
    assert page.detail == again


def test_recent_form_and_latest_votes_tell_the_same(site: BoardSite) -> None:
    page = page_of(site, MODELS[0])
    assert len(page.form.letters) == 20
    assert [vote.result for vote in page.latest] == list(page.form.letters[::-1][: len(page.latest)])
    assert all(vote.at % 3_600_000_000 == 0 for vote in page.latest)


def test_both_bad_votes_of_the_stretches_add_up(site: BoardSite) -> None:
    page = page_of(site, MODELS[2])
    assert sum(piece.votes for piece in page.trend) == page.detail.row.votes
    assert sum(piece.both_bad for piece in page.trend) == page.detail.row.both_bad


def test_neighbours_of_bradley_terry_say_how_few_votes_would_swap_them(site: BoardSite) -> None:
    offline = site.world.snapshot.study.offline
    assert offline is not None
    above, middle, below = offline.rows[1:4]
    around = page_of(site, middle.model).around
    assert around is not None
    assert (around.above, around.below) == (above.model, below.model)
    assert (around.votes_to_rise, around.votes_to_fall) == (above.votes_to_swap, middle.votes_to_swap)
    assert page_of(site, offline.rows[0].model).around.above is None


def test_the_answer_to_a_retired_prompt_is_shown_and_harmless(tmp_path: Path) -> None:
    with board_site(retire(week_of_votes(60), "p1", "p3"), tmp_path) as site:
        page = site.client.get(f"/models/{MODELS[0]}", params={"prompt": "p3"}).text
        answer = page.split('<section id="answer">', 1)[1].split("</section>", 1)[0]
        assert "Question 3?" in answer
        assert "<strong>9</strong>" in answer
        assert "<script>alert" not in page
        made = page_of(site, MODELS[0])
        assert {prompt for prompt, shown in made.answers.items() if shown} == {"p1", "p3"}
        assert [record.name for record in made.detail.retired_prompts] == ["p1", "p3"]
        assert chosen_prompt(made, "p3") == "p3"
        assert chosen_prompt(made, "p2") == "p2"  # which the page then says is hidden
        most = max(made.detail.retired_prompts, key=lambda record: record.votes)
        assert chosen_prompt(made, "no such prompt") == most.name


def test_a_prompt_that_is_kept_for_later_is_on_no_page(tmp_path: Path) -> None:
    log = week_of_votes(60)
    log.say(e.PromptAdded(prompt_id="later", text="A secret question?"))
    for name in MODELS[:2]:
        log.say(e.ResponseAdded(response_id=f"{name}/later", model=name, prompt_id="later", text="A secret answer."))
    log.say(e.PromptReserved(prompt_id="later"))
    with board_site(log, tmp_path) as site:
        for address in (f"/models/{MODELS[0]}?prompt=later", f"/compare?a={MODELS[0]}&b={MODELS[1]}&prompt=later"):
            page = site.client.get(address).text
            assert "secret" not in page
            assert "answers to 6 prompts in use are hidden" in page


def test_results_against_each_opponent_add_up_to_its_records(site: BoardSite) -> None:
    page, snapshot = page_of(site, MODELS[2]), site.world.snapshot
    results = results_by_prompt_and_opponent(snapshot.study.votes, page.facts.number)
    for place, counts in ((0, "wins"), (1, "losses"), (2, "ties"), (3, "both_bad")):
        assert [results[prompt, :, place].sum() for prompt in range(6)] == [
            getattr(record, counts) for record in page.detail.prompts
        ]
    met = {record.name: (record.wins, record.losses) for record in page.detail.opponents}
    names = [facts.model for facts in snapshot.models]
    assert {name: tuple(results[:, names.index(name), :2].sum(axis=0)) for name in met} == met


def section(page: str, name: str) -> str:
    return page.split(f'<section id="{name}">', 1)[1].split("</section>", 1)[0]


def rows_of(part: str) -> dict[str, str]:
    """The rows of a grid by the prompt's id, which stands below its text."""
    found = re.findall(r"<tr><th scope=\"row\">.*?</tr>", part)
    return {re.search(r"<small>(\w+)", row)[1]: row for row in found}  # type: ignore[index]


def test_prompts_are_shown_by_their_texts_and_only_retired_ones_lead_to_answers(tmp_path: Path) -> None:
    log = week_of_votes(80)
    log.say(e.PromptAdded(prompt_id="odd", text="</th><script>alert('prompt')</script>" + "long " * 60))
    with board_site(retire(log, "p1", "p3"), tmp_path) as site:
        page = site.client.get(f"/models/{MODELS[2]}").text
        made = page_of(site, MODELS[2])
    rows = rows_of(section(page, "prompts"))
    assert rows.keys() == {"p0", "p1", "p2", "p3", "p4", "p5", "odd"}
    for name, row in rows.items():
        retired = name in ("p1", "p3")
        assert ("href" in row) is retired
        assert ("answer hidden while it is being voted on" in row) is (name in ("p0", "p2", "p4", "p5"))
        assert (" · retired" in row) is retired
        if name != "odd":
            assert f"Question {name[1:]}?" in row
    assert "&lt;script&gt;alert(&#39;prompt&#39;)" in rows["odd"]
    assert "<script>alert" not in page
    assert f'href="/models/{MODELS[2]}?prompt=p3#answer"' in rows["p3"]
    rival = made.detail.neighbours[0].record.name
    assert f'href="/compare?a={MODELS[2]}&amp;b={rival}&amp;prompt=p3#answers"' in rows["p3"]
    for record in (*made.detail.prompts, *made.detail.retired_prompts):
        counts = f"{record.wins}–{record.losses}–{record.ties}"
        assert (counts if record.votes else ">–</td>") in rows[record.name]
    beside = re.findall(r"<tr><th[^>]*><bdi>(Question \d\?)</bdi></th>(.*?)</tr>", section(page, "coverage"))
    assert {name for name, cells in beside if "href" in cells} == {"Question 1?", "Question 3?"}
    for part in ("votes", "coverage"):
        assert "Question " in section(page, part)
        assert not re.search(r">p\d<", section(page, part))


def test_the_grid_shows_the_models_next_in_rank_with_their_own_records(site: BoardSite) -> None:
    made = page_of(site, MODELS[2])
    assert list(made.beside) == [near.record.name for near in made.detail.neighbours]
    for name, records in made.beside.items():
        theirs = page_of(site, name)
        assert [records[record.name] for record in theirs.detail.prompts] == list(theirs.detail.prompts)
    heads = re.findall(
        r'<th scope="col" class="res">(.*?)</th>', section(site.client.get(f"/models/{MODELS[2]}").text, "prompts")
    )
    assert len(heads) == 3
    assert heads[0] == "Otter 7B"


def test_of_many_prompts_those_with_most_votes_are_shown(site: BoardSite, monkeypatch: pytest.MonkeyPatch) -> None:
    made = page_of(site, MODELS[2])
    monkeypatch.setattr(model, "MOST_PROMPTS", 4)
    names = {name: name for name in MODELS}
    shown = prompt_grid(made, {}, names, {}, blind=True)
    most = sorted(made.detail.prompts, key=lambda record: -record.votes)
    assert shown["left_out"] == "2 prompts with the fewest votes are left out."
    assert {record.name for record in most[:4] if record.votes > most[4].votes} <= {row.prompt for row in shown["rows"]}
    assert len(shown["rows"]) == 4


def test_without_a_retired_prompt_no_answer_is_chosen(site: BoardSite) -> None:
    made = page_of(site, MODELS[0])
    assert not any(made.answers.values())
    assert chosen_prompt(made, None) is None
    assert "The answers to 6 prompts in use are hidden" in site.client.get(f"/models/{MODELS[0]}").text


def test_of_a_retired_prompt_no_answer_is_shown_that_was_replaced_withheld_or_withdrawn(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    log = week_of_votes(60)
    log.say(e.ResponseAdded(response_id="new", model=MODELS[0], prompt_id="p3", text="the *second* answer"))
    log.say(e.ResponseWithdrawn(response_id=f"{MODELS[0]}/p1"))
    log.say(e.ResponseDisabled(response_id=f"{MODELS[0]}/p2"))
    with board_site(retire(log, "p1", "p2", "p3"), tmp_path_factory.mktemp("history")) as site:
        pages = {name: site.client.get(f"/models/{MODELS[0]}", params={"prompt": name}).text for name in ("p1", "p2")}
        page = site.client.get(f"/models/{MODELS[0]}", params={"prompt": "p3"}).text
        asked = {"a": MODELS[0], "b": MODELS[1], "prompt": "p1"}
        both = site.client.get("/compare", params=asked).text
    assert "the <em>second</em> answer" in page
    assert "to 3." not in page, "the replaced one"
    assert not [name for name, text in pages.items() if f"to {name[1]}." in text]
    assert "to 1." not in both


def test_a_newcomer_is_marked_provisional(site: BoardSite) -> None:
    page = site.client.get(f"/models/{NEWCOMER}").text
    assert "too few votes to make claims about its rank" in page


@pytest.mark.parametrize("name", ["nobody", "../etc/passwd", "%00", "a" * 3000])
def test_an_unknown_model_is_a_clear_404(site: BoardSite, name: str) -> None:
    answer = site.client.get(f"/models/{name}")
    assert answer.status_code == 404
    assert "Traceback" not in answer.text


def test_values_for_programs_are_plain(site: BoardSite) -> None:
    values = msgspec.to_builtins(model_values(page_of(site, MODELS[0]), seq=7))
    assert values["model"] == MODELS[0]
    assert len(values["history"]["rating"]) == len(values["history"]["at"])
    assert values["row"]["badge"] in ("Provisional", "Established", "Stable")


def test_a_model_without_votes_and_one_that_is_disabled(tmp_path_factory: pytest.TempPathFactory) -> None:
    log = week_of_votes(60, newcomer_votes=0)
    log.say(e.ModelDisabled(model=MODELS[1]))
    with board_site(log, tmp_path_factory.mktemp("quiet")) as quiet:
        page = quiet.client.get(f"/models/{NEWCOMER}")
        assert page.status_code == 200
        assert "No votes yet" in page.text
        assert quiet.client.get(f"/models/{MODELS[1]}").status_code == 404
        assert quiet.client.get("/compare", params={"a": MODELS[0], "b": MODELS[1]}).status_code == 200


@pytest.mark.parametrize("phase", [1, 2, 3, 4])
def test_a_page_shows_no_rank_or_rating_that_a_young_board_withholds(tmp_path: Path, phase: int) -> None:
    with board_site(week_of_votes(12, phase=phase, newcomer_votes=2), tmp_path) as young:
        rows = young.world.snapshot.board.rows
        assert "The first votes are still coming in" in young.client.get("/leaderboard").text
        for row in rows[:3]:
            page = young.client.get(f"/models/{row.model}").text
            assert f"ank {row.rank} of" not in page
            assert f"{row.rating_shown:.0f}" not in page
            assert "Too few votes on this board to rank or rate any model yet." in page
            rated = row.votes - row.both_bad
            assert rated >= 10 or "missing." in page
            assert rated >= 10 or '<svg class="plot' not in page
            assert not {"standing", "neighbours"} & set(re.findall(r'<section id="(\w+)"', page))
        compared = young.client.get(f"/compare?a={rows[0].model}&b={rows[1].model}").text
        assert "Rank (rating)" not in compared
        assert "going by the current ratings" not in compared
        assert "is better than" not in compared


def test_while_new_votes_come_in_all_pages_show_one_snapshot(site: BoardSite) -> None:
    """The board of the snapshot decides rank and rating of a model's page, also if the log is further on by then."""
    snapshot = site.world.snapshot
    rows = snapshot.board.rows
    swapped = [replace(row, rank=len(rows) + 1 - row.rank) for row in rows]
    earlier = replace(snapshot, board=replace(snapshot.board, rows=tuple(reversed(swapped))), seq=snapshot.seq - 1)
    for row in earlier.board.rows:
        page = site.world.observatory.look(lambda state, votes, row=row: model_page(earlier, state, votes, row.model))
        assert page.detail.row == row
        ranks = {one.model: one.rank for one in earlier.board.rows}
        assert [near.rank for near in page.detail.neighbours] == [
            ranks[near.record.name] for near in page.detail.neighbours
        ]


def test_of_many_prompts_the_worst_and_the_best_are_seen_first(site: BoardSite) -> None:
    page = page_of(site, MODELS[2])
    records = tuple(Record(f"p{j}", wins=j, losses=12 - j, ties=0, both_bad=0, expected_wins=0.0) for j in range(12))
    assert extremes(replace(page, detail=replace(page.detail, prompts=records[:10], retired_prompts=()))) is None
    made = extremes(replace(page, detail=replace(page.detail, prompts=records, retired_prompts=())))
    assert made is not None
    assert [[one.name for one in part] for part in made] == [
        ["p0", "p1", "p2", "p3", "p4"],
        ["p11", "p10", "p9", "p8", "p7"],
    ]


def test_the_grid_shows_what_is_missing_and_won_and_lost_behind_it(site: BoardSite) -> None:
    page, snapshot = page_of(site, MODELS[0]), site.world.snapshot
    heatmap = page.detail.heatmap
    grid, _ = charts.rival_grid(page.facts, page.detail, (), snapshot, {})
    by_prompt = dict(grid.rows)
    seen = set()
    for prompt, counts in zip(heatmap.prompts, heatmap.decisive, strict=True):
        for cell, count in zip(by_prompt.get(prompt, ()), counts, strict=False):
            lacks = math.ceil(max(0.0, heatmap.target - count))
            assert cell.text == str(lacks)
            assert re.search(r"(\d+) won, (\d+) lost", cell.words)
            seen.add((lacks, cell.class_))
    assert len({lacks for lacks, _ in seen}) > 1
    assert (0, "heat h0") in seen
