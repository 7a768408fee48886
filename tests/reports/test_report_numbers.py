"""Every number on the page is the number in the files."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest
from page_tree import Page, part, rows
from run_folders import ENTRANTS

DIMENSIONS = ("factuality", "clarity")
PLACES = tuple(enumerate(DIMENSIONS))


def verdict_lines(folder: Path, dimension: str) -> list[dict]:
    return [json.loads(line) for line in (folder / "verdicts" / f"{dimension}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("place", "dimension"), PLACES)
def test_the_board_shows_the_ratings_file(place: int, dimension: str, run_folder: Path, page: Page) -> None:
    entries = json.loads((run_folder / "ratings" / f"{dimension}.json").read_text())["ratings"]
    shown = rows(page[f"board{place}"])
    assert list(shown) == [entry["model"] for entry in entries]
    for entry in entries:
        keys = ("rating", "ci_low", "ci_high", "n_battles", "wins", "losses", "ties")
        assert shown[entry["model"]].values == [entry[key] for key in keys]
        ranks = {entry["rank_low"], entry["rank_high"]}
        assert shown[entry["model"]].one("span", "rank").text == "–".join(map(str, sorted(ranks)))
        assert f"{entry['rating']:.1f}" in shown[entry["model"]].text
        assert f"{entry['rating']:.1f}" in shown[entry["model"]].one("svg").attrs["aria-label"]


@pytest.mark.parametrize(("place", "dimension"), PLACES)
def test_elo_shows_mean_shuffle_error_and_sampling_interval(
    place: int, dimension: str, run_folder: Path, page: Page
) -> None:
    lines = json.loads((run_folder / "elo_results.json").read_text())["primary"][dimension]
    section = part(page[f"d{place}"], "Elo over shuffles shuffle error only")
    shown = rows(section)
    assert set(shown) == set(lines)
    for name, line in lines.items():
        keys = ("mean", "sem", "sampling_low", "sampling_high")
        assert shown[name].values == [line[key] for key in keys]
    assert "shuffle error only" in section.one("thead").text


@pytest.mark.parametrize(("place", "dimension"), PLACES)
def test_the_k_table_shows_every_k(place: int, dimension: str, run_folder: Path, page: Page) -> None:
    sweep = json.loads((run_folder / "elo_results.json").read_text())["k_sensitivity"][dimension]
    sweep = {f"{float(k):g}": lines for k, lines in sweep.items()}
    section = part(page[f"d{place}"], "Does the order depend on K?")
    assert [cell.text for cell in section.one("thead").all("th")] == ["", *(f"K {k}" for k in sweep)]
    for name, row in rows(section).items():
        assert row.values == [value for k in sweep for value in (sweep[k][name]["mean"], sweep[k][name]["sem"])]


@pytest.mark.parametrize(("place", "dimension"), PLACES)
def test_the_win_rates_are_those_of_the_pair_table(place: int, dimension: str, run_folder: Path, page: Page) -> None:
    section = part(page[f"d{place}"], "Who beats whom")
    columns = [cell.text for cell in section.one("thead").all("th")][1:]
    shown = rows(section)
    with (run_folder / "pairwise_winrates.csv").open() as file:
        tallies = [row for row in csv.DictReader(file) if row["dimension"] == dimension]
    assert len(tallies) == 6
    for tally in tallies:
        won, lost, ties = (int(tally[key]) for key in ("a_wins", "b_wins", "ties"))
        n = won + lost + ties
        a, b = tally["entrant_a"], tally["entrant_b"]
        for row, column, wins, losses in ((a, b, won, lost), (b, a, lost, won)):
            cell = shown[row].all("td")[columns.index(column)]
            assert cell.values == [(wins + 0.5 * ties) / n, wins, losses, ties]


@pytest.mark.parametrize(("place", "dimension"), PLACES)
def test_the_judges_habits_are_counted_from_the_verdicts(
    place: int, dimension: str, run_folder: Path, page: Page
) -> None:
    lines = verdict_lines(run_folder, dimension)
    said = [[verdict["verdict"] for verdict in line["raw"]] for line in lines]
    both = [words for words in said if len(words) == 2 and set(words) <= {"A", "B", "TIE"}]
    flips = sum(words not in (["A", "B"], ["B", "A"], ["TIE", "TIE"]) for words in both)
    decided = [word for words in said for word in words if word in ("A", "B")]
    shown = rows(part(page[f"d{place}"], "The judge’s habits"))
    first = decided.count("A")
    expected = [flips / len(both), flips, len(both), first / len(decided), first, len(decided)]
    assert shown["all judgments"].values == expected
    assert shown["anthropic/judge-large"].values == expected
    pair = [words for line, words in zip(lines, said, strict=True) if line["entrant_b"] == "crane-base"]
    by_pair = [row.values[2] for name, row in shown.items() if name.endswith("– crane-base")]
    assert sum(by_pair) == sum(len(words) == 2 and set(words) <= {"A", "B", "TIE"} for words in pair)
    sources = [name for name in shown if name in ("no source", "medqa", "livecheck", "forum")]
    assert sum(shown[name].values[5] for name in sources) == len(decided)


def test_failures_are_counted_by_name(run_folder: Path, page: Page) -> None:
    section = page["failures"]
    names = [cell.text for cell in section.one("table").one("thead").all("th")][2:-1]
    for dimension in DIMENSIONS:
        lines = verdict_lines(run_folder, dimension)
        counts = Counter(verdict["verdict"] for line in lines for verdict in line["raw"])
        failed = sum(line["status"] == "failed" for line in lines)
        assert failed > 4
        assert rows(section)[dimension].values == [sum(counts.values()), *(counts[name] for name in names), failed]
    assert set(names) == {"unparsed", "truncated", "refused", "error"}
    listed = section.one("details").all("li")
    assert len(listed) == sum(line["status"] == "failed" for d in DIMENSIONS for line in verdict_lines(run_folder, d))


def test_cost_and_tokens_are_those_of_the_usage_file(run_folder: Path, page: Page) -> None:
    usage = json.loads((run_folder / "usage.json").read_text())
    shown = rows(page["usage"])
    assert shown["total"].values == list(usage["total"].values())
    for dimension in DIMENSIONS:
        assert shown[dimension].values == list(usage["dimensions"][dimension].values())


@pytest.mark.parametrize(("place", "dimension"), PLACES)
def test_every_judgment_is_listed_with_its_pair(place: int, dimension: str, run_folder: Path, page: Page) -> None:
    lines = verdict_lines(run_folder, dimension)
    by_pair = Counter((line["entrant_a"], line["entrant_b"]) for line in lines)
    number = place * len(lines)
    for line in lines:
        first, second = ENTRANTS.index(line["entrant_a"]), ENTRANTS.index(line["entrant_b"])
        view = page[f"m{place}-{first}-{second}"]
        assert len(view.one("tbody").all("tr")) == by_pair[line["entrant_a"], line["entrant_b"]]
        row = next(row for row in view.one("tbody").all("tr") if row.one("a").attrs["href"] == f"#b{number}")
        outcome = line["winner"] or ("inconsistent" if line["inconsistent"] else "tie")
        assert row.one("span", "badge").text == ("failed" if line["status"] == "failed" else outcome)
        assert row.one("th").one("small").text == line["prompt_id"]
        number += 1


def test_an_entrants_card_adds_up_to_its_line_on_the_board(run_folder: Path, page: Page) -> None:
    for place, dimension in enumerate(DIMENSIONS):
        for entry in json.loads((run_folder / "ratings" / f"{dimension}.json").read_text())["ratings"]:
            card = page[f"e{place}-{ENTRANTS.index(entry['model'])}"]
            opponents = [row.values for row in rows(card).values()]
            assert [sum(values[i] for values in opponents) for i in range(3)] == [
                entry["wins"],
                entry["losses"],
                entry["ties"],
            ]
            assert card.values[0] == entry["rating"]
