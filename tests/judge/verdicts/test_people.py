"""The judge against people: labels, majorities, and what is compared with what."""

from __future__ import annotations

import asyncio
import csv
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.judge.verdicts.cases import case, make_judge, shown, verdict
from tiltyard.errors import JudgingError
from tiltyard.judge.llm import Request
from tiltyard.judge.verdicts import (
    JudgeCheck,
    LabelledPair,
    RecordedJudge,
    Rubric,
    VerdictLabel,
    check_judge,
    compare_with_people,
    read_labelled_pairs,
    settle,
)
from tiltyard.judge.verdicts.human_agreement import majority
from tiltyard.stats import Estimate


def write(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def pair(label: str | None = "A", **more: Any) -> dict[str, Any]:
    row = {"prompt": "Q?", "response_a": "long answer", "response_b": "short"} | more
    return row | ({"label": label} if label else {})


@pytest.mark.parametrize(
    ("votes", "word"),
    [
        ({"A": 3, "B": 1}, VerdictLabel.A),
        ({"A": 2, "B": 2}, None),
        ({"A": 2, "B": 1, "TIE": 1}, VerdictLabel.A),
        ({"A": 1, "B": 1, "TIE": 2}, VerdictLabel.TIE),
        ({"A": 1, "TIE": 1, "BOTH_BAD": 1}, VerdictLabel.TIE),
        ({"b": 1}, VerdictLabel.B),
        ({"A": 0}, None),
        ({}, None),
    ],
)
def test_people_say_what_more_of_them_said_than_anything_else(votes: dict[str, int], word: VerdictLabel | None) -> None:
    assert majority(votes) is word


def test_a_pair_is_named_by_prompt_id_or_id_or_line(tmp_path: Path) -> None:
    path = write(tmp_path, pair(prompt_id="x", id=7), pair(id=7), pair(votes={"A": 1}, label=None))
    pairs = read_labelled_pairs(path)
    assert [found.case.matchup.prompt_id for found in pairs] == ["x", "7", "3"]
    assert {(found.case.matchup.entrant_a, found.case.matchup.entrant_b) for found in pairs} == {("A", "B")}
    assert [found.people for found in pairs] == [VerdictLabel.A] * 3


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"prompt": "Q?", "label": "A"}, "response_a"),
        (pair(None), "either a label or votes"),
        (pair("A", votes={"A": 1}), "either a label or votes"),
        (pair("C"), "'C' is not a vote"),
        (pair(None, votes={"A": -1}), "-1"),
        (pair("A", entrant_a="x", entrant_b="x"), "both answers are by 'x'"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: dict[str, Any], complaint: str) -> None:
    with pytest.raises(JudgingError, match=r"pairs\.jsonl:2: ") as caught:
        read_labelled_pairs(write(tmp_path, pair(), row))
    assert complaint in str(caught.value)


def test_an_empty_or_absent_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JudgingError, match="no labelled pair"):
        read_labelled_pairs(write(tmp_path))
    with pytest.raises(JudgingError, match="nowhere"):
        read_labelled_pairs(tmp_path / "nowhere.jsonl")


def by_marks(request: Request) -> str:
    """Obeys marks in the answers: `+` is good; `?` makes it mumble, `1` prefer the first slot."""
    first, second = shown(request)
    if "?" in first + second:
        return "Hm."
    if "1" in first + second:
        return "VERDICT: A"
    return f"VERDICT: {'TIE' if ('+' in first) == ('+' in second) else 'A' if '+' in first else 'B'}"


def test_a_live_judge_is_compared_pair_by_pair(tmp_path: Path) -> None:
    rows = [
        pair("A", response_a="good +"),  # agrees
        pair("B", response_a="good +"),  # disagrees
        pair("TIE", response_a="good +"),  # people say tie
        pair("A"),  # judge says tie
        pair("TIE"),  # both say tie
        pair("A", response_a="good 1"),  # inconsistent: the judge's tie
        pair("A", response_a="good ?"),  # unreadable: not compared
        pair(None, votes={"A": 1, "B": 1}, response_a="good +"),  # no majority: not compared
    ]
    rows = [row | {"prompt": f"Q{number}?", "entrant_a": "judge-1"} for number, row in enumerate(rows)]
    pairs = read_labelled_pairs(write(tmp_path, *rows))
    found = asyncio.run(check_judge(pairs, make_judge(tmp_path / "cache", by_marks), rubric=Rubric("any", "1", "x")))
    assert (found.pairs, found.with_majority, found.compared) == (8, 7, 6)
    assert (found.right_in_both_orders.value, found.right_in_both_orders.n) == (0.25, 4)
    assert (found.mean_accuracy.value, found.mean_accuracy.n) == (3 / 8, 8)
    assert (found.tie_win_is_win.value, found.tie_win_is_win.n) == (0.25, 4)
    assert (found.agreement.value, found.agreement.n) == (0.5, 2)
    assert (found.agreement_with_ties.value, found.agreement_with_ties.n) == (pytest.approx(2 / 6), 6)
    assert (found.bias.flip_rate.value, found.bias.flip_rate.n) == (pytest.approx(1 / 7), 7)
    assert (found.bias.coverage.value, found.bias.coverage.n) == (pytest.approx(14 / 16), 16)
    assert found.labels == {"A": 6, "B": 4, "TIE": 4, "unparsed": 2}
    assert found.people_prefer_longer.n == 5
    assert (found.prefers_own.value, found.people_prefer_own.value) == (1.0, 0.5)
    assert found.stats is not None
    assert found.stats.failures == {"unparsed": 2}
    assert all(estimate.n > 0 for _, estimate in found.estimates())


def test_a_recording_is_compared_without_a_call(tmp_path: Path) -> None:
    pairs = read_labelled_pairs(write(tmp_path, pair("A", id=1), pair("B", id=2)))
    recorded = tmp_path / "recorded.csv"
    recorded.write_text("prompt_id,entrant_a,entrant_b,verdict,verdict_swapped\n1,A,B,A,B\n2,A,B,A,B\n")
    found = asyncio.run(check_judge(pairs, RecordedJudge(recorded)))
    assert found.agreement.value == 0.5
    assert found.bias.flip_rate.value == 0.0


def test_three_published_rules_read_the_same_verdicts_differently(tmp_path: Path) -> None:
    verdicts = ["A,B", "A,TIE", "TIE,B", "A,A", "TIE,TIE", "TIE,A", "B,A"]  # as shown; people say A every time
    rows = [pair("A", id=number, prompt=f"Q{number}?") for number in range(len(verdicts))]
    recorded = tmp_path / "recorded.csv"
    lines = [f"{number},A,B,{both}\n" for number, both in enumerate(verdicts)]
    recorded.write_text("".join(["prompt_id,entrant_a,entrant_b,verdict,verdict_swapped\n", *lines]))
    found = asyncio.run(check_judge(read_labelled_pairs(write(tmp_path, *rows)), RecordedJudge(recorded)))
    assert found.right_in_both_orders.value == pytest.approx(1 / 7)
    assert found.mean_accuracy.value == pytest.approx((2 + 1 + 1 + 1) / 14)
    assert found.tie_win_is_win.value == pytest.approx(3 / 7)
    assert found.agreement.value == 0.5  # one right, one wrong, five called ties and left out: the flattering one
    assert [name for name, _ in found.estimates()][:3] == [
        "right in both orders",
        "mean accuracy (LLMBar)",
        "tie + win = win (JudgeBench)",
    ]


def test_one_order_has_a_mean_accuracy_and_nothing_about_both_orders(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.csv"
    recorded.write_text("prompt_id,entrant_a,entrant_b,verdict\n1,A,B,A\n2,A,B,A\n")
    pairs = read_labelled_pairs(write(tmp_path, pair("A", id=1, prompt="1?"), pair("B", id=2, prompt="2?")))
    found = asyncio.run(check_judge(pairs, RecordedJudge(recorded), single_order=True))
    assert (found.mean_accuracy.value, found.mean_accuracy.n) == (0.5, 2)
    assert found.right_in_both_orders.value is None
    assert found.tie_win_is_win.value is None


OWN_ROWS = [
    # entrant_a, entrant_b, label, verdicts on (entrant_a first, entrant_b first) as shown
    ("lab/judge", "otter", "A", "A", "B"),  # both prefer the judge's own
    ("otter", "judge", "A", "B", "A"),  # the judge prefers its own, people do not; called without its provider
    ("judge", "heron", "B", "A", "B"),  # the same
    ("heron", "judge", "B", "A", "B"),  # people prefer the judge's own, the judge does not
    ("lab/judge", "judge", "A", "A", "B"),  # both are its own
    ("otter", "heron", "A", "A", "B"),  # neither is
    ("judge", "otter", "TIE", "A", "B"),  # people do not decide
    ("judge", "otter", "A", "TIE", "TIE"),  # the judge does not
    ("judge", "otter", "A", "A", "A"),  # nor here, with the orders in disagreement
    ("judge", "otter", "A", "unparsed", "B"),  # nor here
]


def check_own(folder: Path, own: str | None = None, prompts: int = 99) -> JudgeCheck:
    rows, said = [], ["prompt_id,entrant_a,entrant_b,verdict,verdict_swapped"]
    for number, (a, b, label, forward, swapped) in enumerate(OWN_ROWS):
        rows.append(pair(label, id=number, prompt=f"Q{number % prompts}?", entrant_a=a, entrant_b=b))
        said.append(f"{number},{a},{b},{forward},{swapped}")
    recorded = folder / "recorded.csv"
    recorded.write_text("\n".join(said), encoding="utf-8")
    judge = RecordedJudge(recorded, name="lab/judge")
    return asyncio.run(check_judge(read_labelled_pairs(write(folder, *rows)), judge, own=own))


def test_self_preference_is_over_decided_pairs_with_one_answer_of_the_judge(tmp_path: Path) -> None:
    found = check_own(tmp_path)
    assert (found.prefers_own.value, found.prefers_own.n) == (3 / 4, 4)
    assert (found.people_prefer_own.value, found.people_prefer_own.n) == (2 / 4, 4)
    assert found.estimates()[-2:] == [
        ("judge prefers its own", found.prefers_own),
        ("people prefer the judge's own", found.people_prefer_own),
    ]


def test_the_judges_own_entrant_may_be_named(tmp_path: Path) -> None:
    found = check_own(tmp_path, own="heron")  # rows 3, 4 and 6: the judge prefers it in row 4, people in row 3
    assert (found.prefers_own.value, found.prefers_own.n) == (pytest.approx(1 / 3), 3)
    assert (found.people_prefer_own.value, found.people_prefer_own.n) == (pytest.approx(1 / 3), 3)


def test_without_an_answer_of_the_judge_there_is_no_self_preference(tmp_path: Path) -> None:
    found = check_own(tmp_path, own="crane")
    assert found.prefers_own == found.people_prefer_own == Estimate(None, None, None, 0)
    assert str(found.prefers_own) == "– (n=0)"


def test_self_preference_on_one_prompt_says_nothing_about_another(tmp_path: Path) -> None:
    found = check_own(tmp_path, prompts=1)
    assert found.prefers_own == Estimate(3 / 4, 0.0, 1.0, 4)
    assert found.people_prefer_own == Estimate(2 / 4, 0.0, 1.0, 4)


@pytest.mark.parametrize(
    ("judge_model", "names"),
    [
        ("lab/judge", {"lab/judge", "judge"}),
        ("local/house/judge", {"local/house/judge", "house/judge"}),
        ("judge", {"judge"}),
        ("judge/", {"judge/"}),
    ],
)
def test_a_judge_is_called_by_its_name_or_its_model(judge_model: str, names: set[str]) -> None:
    entrants = {*names, "otter", "judge/otter"}
    assert {name for name in entrants if counted_as_own(judge_model, name)} == names
    assert {name for name in entrants if counted_as_own(judge_model, name, own="otter")} == {"otter"}


def counted_as_own(judge_model: str, entrant: str, own: str | None = None) -> bool:
    pair = LabelledPair(case(a=entrant, b="another"), VerdictLabel.A)
    judgment = settle(pair.case.matchup, [verdict(), verdict(said=VerdictLabel.B, swapped=True)])
    return compare_with_people([pair], [judgment], judge_model=judge_model, own=own).prefers_own.n == 1


@pytest.fixture(scope="module")
def llmfao_pairs(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The crowd's votes on 2,139 pairs, in the form that `read_labelled_pairs` takes."""
    folder = real_data / "llmfao"
    votes: dict[int, Counter[str]] = defaultdict(Counter)
    names = {}
    words = {"left": "A", "right": "B", "tie": "TIE"}
    with (folder / "crowd-comparisons.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            votes[int(row["id"])][words[row["winner"]]] += 1
            names[int(row["id"])] = (row["left"], row["right"])
    rows = []
    for line in (folder / "pairs-crowd.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        left, right = names[record["id"]]
        row = {
            "prompt_id": record["prompt"],
            "prompt": record["text"],
            "entrant_a": left,
            "entrant_b": right,
            "response_a": record["result_x"],
            "response_b": record["result_y"],
            "votes": votes[record["id"]],
        }
        rows.append(row)
    return write(tmp_path_factory.mktemp("llmfao"), *rows)


def check_recorded(pairs: Path, recorded: Path) -> JudgeCheck:
    found = check_judge(read_labelled_pairs(pairs), RecordedJudge(recorded), single_order=True)
    return asyncio.run(found)


@pytest.mark.parametrize(("name", "agreed", "of", "share"), [("gpt4", 778, 1043, "74.6"), ("gpt3", 613, 971, "63.1")])
def test_published_judges_agree_with_the_crowd_as_published(
    real_data: Path, llmfao_pairs: Path, name: str, agreed: int, of: int, share: str
) -> None:
    found = check_recorded(llmfao_pairs, real_data / "llmfao" / f"{name}-crowd-comparisons.csv")
    assert (found.pairs, found.with_majority) == (2139, 1831)
    assert found.agreement.n == of
    assert found.agreement.value == pytest.approx(agreed / of)
    assert f"{100 * agreed / of:.1f}" == share
    assert found.agreement.low is not None
    assert found.agreement.high is not None
    assert found.agreement.low < agreed / of < found.agreement.high
    assert found.bias.flip_rate.n == 0


def test_gpt3_prefers_the_left_answer(real_data: Path, llmfao_pairs: Path) -> None:
    found = check_recorded(llmfao_pairs, real_data / "llmfao" / "gpt3-crowd-comparisons.csv")
    assert found.labels == {"A": 1352, "B": 593, "TIE": 194}
    assert found.bias.first_slot_rate.value == pytest.approx(1352 / 1945)
    assert found.bias.first_slot_rate.low is not None
    assert found.bias.first_slot_rate.low > 0.5


def test_labelled_benchmarks_are_read_as_they_are(real_data: Path) -> None:
    pairs = read_labelled_pairs(real_data / "llmbar" / "pairs.jsonl")
    assert Counter(found.people for found in pairs) == {VerdictLabel.A: 206, VerdictLabel.B: 213}
