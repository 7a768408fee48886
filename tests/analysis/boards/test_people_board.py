"""`rate(judged, people=labels)`: the board, what it says, and what labels it refuses or warns of."""

from __future__ import annotations

import json
import random

import msgspec
import numpy as np
import pytest
from tests.records import replace
from tests.sizes import size

import tiltyard as ty
from oracles.labelled_worlds import LabelledWorld, battle_rows
from tiltyard.errors import BadRow, NoBattles, OptionError, RatingError

WORLD = LabelledWorld("style", prompts=60, labels=120, link=0.85, style=0.5)
JUDGED, PEOPLE = battle_rows(WORLD.draw(np.random.default_rng(5)))


def remarks(board: ty.Leaderboard) -> str:
    return "\n".join(board.remarks)


def key(row: dict) -> tuple[str, ...]:
    return (row["question_id"], *sorted((row["model_a"], row["model_b"])))


VERDICT = {key(row): row.get(row["winner"], "tie") for row in JUDGED}


@pytest.fixture(scope="module")
def board() -> ty.Leaderboard:
    return ty.rate(JUDGED, people=PEOPLE)


def test_the_board_says_what_came_from_whom(board):
    people = board.details.people
    assert people.method == "prediction-powered"
    assert 0.0 < people.lambda_ <= 1.0
    assert (people.labels, people.votes, people.judged_matchups) == (120, 120, 900)
    assert people.agreement > 0.75
    assert people.saves is True
    assert people.half_width < people.people_only_half_width
    assert people.information.people + people.information.judge == pytest.approx(1.0)
    assert f"(λ {people.lambda_:.2f})" in remarks(board)
    assert f"±{people.people_only_half_width:.0f}" in remarks(board)
    assert "random draw" in remarks(board)
    assert "corrected by 120 labels of people" in str(board)
    row = board.to_dict()["ratings"][0]
    assert row["judge_rating"] == pytest.approx(ty.rate(JUDGED)[row["model"]].rating)
    assert row["people_only_low"] < row["people_only_rating"] < row["people_only_high"]
    assert sum(entry.rating for entry in board) / len(board) == pytest.approx(1000.0)


def test_which_side_a_label_is_written_from_does_not_matter(board):
    other = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
    turned = [
        {**row, "model_a": row["model_b"], "model_b": row["model_a"], "winner": other[row["winner"]]} for row in PEOPLE
    ]
    assert ty.rate(JUDGED, people=turned).ratings == pytest.approx(board.ratings)


def test_files_read_like_rows_and_other_column_names_are_mapped(board, tmp_path):
    judged, people = tmp_path / "judged.jsonl", tmp_path / "people.csv"
    judged.write_text("".join(json.dumps(row) + "\n" for row in JUDGED))
    lines = [f"{row['question_id']},{row['model_a']},{row['model_b']},{row['winner']}" for row in PEOPLE]
    people.write_text("\n".join(["task,model_a,model_b,winner", *lines]) + "\n")
    judged.write_text(judged.read_text().replace('"question_id"', '"task"'))
    found = ty.rate(judged, people=people, map={"prompt": "task"})
    assert found.ratings == pytest.approx(board.ratings)
    assert len(found.settings.people_sha256) == 64


def test_where_no_column_says_who_decided_the_battles_are_the_judges(board, tmp_path):
    judged = tmp_path / "judged.jsonl"
    unsaid = [{name: cell for name, cell in row.items() if name != "source"} for row in JUDGED]
    judged.write_text("".join(json.dumps(row) + "\n" for row in unsaid))
    assert ty.rate(judged, people=PEOPLE).ratings == pytest.approx(board.ratings)
    with pytest.raises(NoBattles, match="source is not llm-judge"):
        ty.rate(judged, people=PEOPLE, default_source="human")


def test_labels_of_matchups_that_were_not_judged_are_counted(board):
    found = ty.rate(JUDGED, people=[*PEOPLE, *({**PEOPLE[0], "question_id": f"x{i}"} for i in range(7))])
    assert found.left_out == {"label on a matchup that was not judged": 7.0}
    assert found.ratings == pytest.approx(board.ratings)


def test_a_voter_who_labels_twice_counts_once(board):
    once = ty.rate(JUDGED, people=[{**row, "voter": f"v{i}"} for i, row in enumerate(PEOPLE)])
    twice = ty.rate(JUDGED, people=[{**row, "voter": f"v{i}"} for i, row in enumerate(PEOPLE)] * 2)
    assert twice.left_out == {"label repeated by the same voter (averaged)": 120.0}
    assert twice.ratings == pytest.approx(once.ratings)
    assert once.ratings == pytest.approx(board.ratings)


def test_voters_are_clusters_too():
    world = replace(WORLD, voters=12, taste=1.5, labels=240)
    judged, people = battle_rows(world.draw(np.random.default_rng(6)))
    both, by_prompt = (ty.rate(judged, people=people, cluster=ways) for ways in ("prompt,voter", "prompt"))
    assert both.settings.interval.cluster == "question_id,voter"
    assert both.details.people.half_width > 1.1 * by_prompt.details.people.half_width
    assert "240 votes by 12 voters" in remarks(both)


def test_a_judge_who_disagrees_saves_nothing_and_costs_nothing():
    rng = random.Random(2)
    noise = [{**row, "winner": rng.choice(["model_a", "model_b"])} for row in PEOPLE]
    found = ty.rate(JUDGED, people=noise)
    people = found.details.people
    assert people.saves is False
    assert "the judge saves" in remarks(found)
    assert people.half_width <= 1.02 * people.people_only_half_width


def test_a_model_without_a_label_stays_on_the_judges_scale_and_is_marked():
    found = ty.rate(JUDGED, people=[row for row in PEOPLE if "m5" not in (row["model_a"], row["model_b"])])
    judge = ty.rate(JUDGED)
    assert "no label: on the judge's scale" in (found["m5"].note or "")
    assert (found["m5"].rank_low, found["m5"].rank_high) == (1, 6)
    assert found["m5"].extra["labels"] == 0
    width = judge["m5"].ci_high - judge["m5"].ci_low
    assert found["m5"].ci_high - found["m5"].ci_low == pytest.approx(width)
    assert found.details.people.not_corrected == ["m5"]


def test_a_model_that_people_never_beat_has_no_upper_end():
    def wins(row: dict) -> dict:
        if "m5" not in (row["model_a"], row["model_b"]):
            return row
        return {**row, "winner": "model_a" if row["model_a"] == "m5" else "model_b"}

    found = ty.rate(JUDGED, people=[wins(row) for row in PEOPLE])
    assert found["m5"].ci_high is None
    assert "by people's labels unbeaten" in (found["m5"].note or "")


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (lambda row: VERDICT[key(row)] == "m3", "what m3 wins more than it loses with the judge"),
        (lambda row: VERDICT[key(row)] == "tie", "how often the judge finds a winner averages 0 on the labelled"),
        (lambda row: "m2" in key(row), "the share with m2 averages 1 on the labelled matchups and 0.333 on all"),
        (lambda row: int(row["question_id"][1:]) < 12, "the place of the prompt in the order of ids"),
        (lambda row: row["category"] == "maths", "the share with category '"),
        (lambda row: row["len_a"] + row["len_b"] < 200, "the length of the two answers"),
    ],
    ids=["where the judge said m3", "where the judge tied", "one model", "in file order", "one category", "short ones"],
)
def test_labels_that_are_no_random_draw_are_noticed(chosen, words):
    rng = random.Random(1)
    judged = [
        {**row, "category": rng.choice(["maths", "law"]), "len_a": rng.randrange(300), "len_b": rng.randrange(300)}
        for row in JUDGED
    ]
    picked = rng.sample([row for row in judged if chosen(row)], 100)
    outcomes = ["model_a", "model_b", "tie"]
    labels = [{name: row[name] for name in ("question_id", "model_a", "model_b")} for row in picked]
    found = ty.rate(judged, people=[{**row, "winner": rng.choice(outcomes), "source": "human"} for row in labels])
    assert "NOT a random draw" in remarks(found)
    assert words in remarks(found)
    assert found.details.people.random_draw_p < 0.01


def drawn_in_order(rows: list[dict], **more: object) -> list[dict]:
    return [{**row, "draw_place": place, "draw_of": 900, **more} for place, row in enumerate(rows, start=1)]


def test_labels_that_carry_their_draw_say_what_they_are():
    whole = ty.rate(JUDGED, people=drawn_in_order(PEOPLE))
    assert "the first 120 of a random order of 900 matchups, none left out; that is a random draw" in remarks(whole)
    assert msgspec.to_builtins(whole.details.people.draw) == {"of": 900, "first": 120, "left_out": 0}
    without_ties = ty.rate(JUDGED, people=[row for row in drawn_in_order(PEOPLE) if row["winner"] != "tie"])
    ties = sum(row["winner"] == "tie" for row in PEOPLE)
    assert f"{ties} of them without a label: valid if these were not left out" in remarks(without_ties)
    assert "and 900 were judged: valid for those that" in remarks(
        ty.rate(JUDGED, people=drawn_in_order(PEOPLE, draw_of=500))
    )


@pytest.mark.parametrize(
    "forged",
    [
        {"draw_place": 7},  # all at one place
        {"draw_place": 0},
        {"draw_place": 901},
        {"draw_place": 1.5},
        {"draw_of": 10**12},
        {"draw_of": None},
    ],
    ids=str,
)
def test_a_draw_that_cannot_be_one_is_none(forged):
    found = ty.rate(JUDGED, people=drawn_in_order(PEOPLE, **forged))
    assert found.details.people.draw is None
    assert "valid if the labelled matchups are a random draw" in remarks(found)


def test_a_forged_draw_silences_no_alarm():
    chosen = [row for row in PEOPLE if VERDICT[key(row)] != "tie"]
    found = ty.rate(JUDGED, people=drawn_in_order(chosen))
    assert "that is a random draw" in remarks(found)
    assert "NOT a random draw, it seems: how often the judge finds a winner averages 1" in remarks(found)


def test_a_random_draw_is_not_accused(board):
    assert "NOT a random draw" not in remarks(board)
    assert board.details.people.random_draw_p >= 0.05


def test_soft_scores_save_as_much_as_verdicts(board):
    soft = {"model_a": 0.62, "model_b": 0.38, "tie": 0.5}
    found = ty.rate([{**row, "score_a": soft[row["winner"]]} for row in JUDGED], people=PEOPLE)
    assert found.details.people.agreement == board.details.people.agreement
    judge = board.details.people.information.judge
    assert found.details.people.information.judge == pytest.approx(judge, abs=0.08)


def test_both_bad_is_no_tie_unless_asked():
    some = [{**row, "winner": "tie (bothbad)"} if i % 5 == 0 else row for i, row in enumerate(PEOPLE)]
    separate, half = ty.rate(JUDGED, people=some), ty.rate(JUDGED, people=some, both_bad="half")
    assert separate.details.people.labels == half.details.people.labels == 120
    assert separate.ratings != half.ratings


def test_a_dimension_is_chosen_or_named():
    more = [{**row, "dimension": "style"} for row in JUDGED] + [{**row, "dimension": "facts"} for row in JUDGED]
    with pytest.raises(OptionError, match=r"2 dimensions \(facts, style\), and the labels do not say which"):
        ty.rate(more, people=PEOPLE)
    chosen = ty.rate(more, people=PEOPLE, dimension="facts")
    named = ty.rate(
        [row for row in more if row["dimension"] == "facts"], people=[{**row, "dimension": "facts"} for row in PEOPLE]
    )
    assert chosen.ratings == pytest.approx(named.ratings)


@pytest.mark.parametrize(
    ("people", "error", "words"),
    [
        (PEOPLE[:12], RatingError, "12 labelled matchups are too few"),
        ([{**row, "question_id": "x"} for row in PEOPLE], NoBattles, "none of the 120 labels is on a matchup"),
        ([{**row, "winner": "tie"} for row in PEOPLE], RatingError, "every label is a tie"),
        ([{**row, "winner": "tie (bothbad)"} for row in PEOPLE], RatingError, "both answers are bad"),
        ([{**row, "source": "llm-judge"} for row in PEOPLE], NoBattles, "no label by people"),
        ([{**PEOPLE[0], "winner": "m9"}, *PEOPLE], BadRow, "unknown winner"),
        ([{k: v for k, v in row.items() if k != "question_id"} for row in PEOPLE], OptionError, "which prompt"),
    ],
    ids=["few", "not judged", "ties", "both bad", "judges", "bad winner", "no prompts"],
)
def test_labels_that_say_nothing_are_an_answer_in_one_line(people, error, words):
    with pytest.raises(error, match=words) as found:
        ty.rate(JUDGED, people=people)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "elo"}, "Bradley–Terry ratings only"),
        ({"ci": "bootstrap"}, "sandwich"),
        ({"ties": "rao-kupper"}, "not with rao-kupper"),
        ({"shrink": True}, "shrink"),
        ({"inconsistent": "drop"}, "need every judged matchup"),
        ({"cluster": "category"}, "prompt, voter, both or none"),
        ({"anchor": ("m9", 1000.0)}, "anchor"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_options_without_a_meaning_here_are_refused(options, words):
    with pytest.raises(OptionError, match=words):
        ty.rate(JUDGED, people=PEOPLE, **options)


def test_an_anchor_is_where_the_scale_starts():
    found = ty.rate(JUDGED, people=PEOPLE, anchor=("m0", 900.0))
    assert found["m0"].rating == found["m0"].ci_low == found["m0"].ci_high == pytest.approx(900.0)


def test_where_every_matchup_is_labelled_the_judge_is_not_needed():
    everything = [{**row, "source": "human"} for row in JUDGED]
    found = ty.rate(JUDGED, people=everything)
    assert "the judge saves nothing here (every judged matchup is labelled)" in remarks(found)
    assert found.ratings == pytest.approx(ty.rate(everything).ratings)


def test_the_judges_weight_and_its_share_of_the_information_agree():
    """Where nearly all is labelled the judge has little to add, however well it agrees."""
    for seed in range(size(24, soak=150)):
        rng = random.Random(seed)
        prompts = set(rng.sample(sorted({row["question_id"] for row in JUDGED}), 10))
        judged = [row for row in JUDGED if row["question_id"] in prompts]
        drawn = rng.sample(judged, len(judged) - rng.randrange(1, 8))
        labels = [{**row, "source": "human", "winner": row["winner"] if rng.random() < 0.7 else "tie"} for row in drawn]
        found = ty.rate(judged, people=labels)
        people = found.details.people
        assert (people.lambda_ == 0.0) == (people.information.judge == 0.0) == (" 0 % the judge's" in remarks(found))
        assert ("the judge saves nothing here" in remarks(found)) == (" 0 % the judge's (λ 0.00)" in remarks(found))


def test_several_verdicts_on_a_matchup_are_its_mean():
    """A panel's or repeated verdicts as rows: the judge's outcome is shared between them."""
    other = [{**row, "judge_model": "second"} for row in JUDGED]
    once, twice = ty.rate(JUDGED, people=PEOPLE), ty.rate([*JUDGED, *other], people=PEOPLE)
    assert twice.details.people.judged_matchups == 900
    assert twice.ratings == pytest.approx(once.ratings)
