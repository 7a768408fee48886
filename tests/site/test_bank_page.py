"""The page about the bank: what it counts, and that it tells nobody who wrote what."""

from __future__ import annotations

from tests.site.sites import MODELS, small_site
from tiltyard.arena import Choice
from tiltyard.arena import events as e


def test_the_page_counts_prompts_and_showings_names_nothing_and_is_the_same_for_everyone(sqlite_url: str) -> None:
    with small_site(sqlite_url) as site:
        for number in range(15):
            served = site.arena.serve(f"voter-{number % 5}")
            site.arena.vote(served.matchup_id, f"voter-{number % 5}", Choice.A)
        name = site.arena.read(lambda state: state.catalog.response_ids[0, 1])
        site.arena.append([e.PromptReserved(prompt_id="p0"), e.ResponseDisabled(response_id=name)])
        site.observatory.refresh()
        one, other = site.client(), site.client("203.0.113.7")
        other.get("/")
        page = one.get("/bank")
        assert page.status_code == 200
        assert page.text == other.get("/bank").text
        found = one.get("/api/v1/bank").json()
        shown = site.arena.read(
            lambda state: (state.tallies.rated_on.view + state.tallies.both_bad_on.view)[:, 1:].tolist()
        )
        texts = site.arena.read(lambda state: [prompt.prompt_id for prompt in state.catalog.prompts])
        for word in (*MODELS, *texts, name, "Zyx"):
            assert f">{word}" not in page.text
            assert word not in str(found["prompts"]) + str(found["answers"])
    flat = [n for row in shown for n in row]
    assert found["votes"] == 15
    assert found["prompts"]["reserved"] == 1
    assert found["prompts"]["on"] == len(texts) - 1
    assert found["answers"]["withheld"] == 1
    assert found["answers"]["most_named"] == max(flat)
    assert found["answers"]["on"] == len(flat) == sum(group["answers"] for group in found["answers"]["named"])
    assert f"takes about {found['learning'][0]['votes']}," in page.text
    assert f"about {found['learning'][0]['votes_from_50_blocks']}," in page.text
    assert all(line["votes_from_50_blocks"] <= line["votes"] for line in found["learning"])
    assert "1</dd>" in page.text.replace(" ", "")
