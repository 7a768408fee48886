"""The report of a placement: one sentence that can be believed, and the way from it down to the judge's words."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from posixpath import dirname, normpath
from posixpath import join as joined

import pytest
from page_tree import Page, part, read_page, rows
from run_folders import JUDGE, LONG, NASTY, SCRIPT
from tests.browsers import Tab
from tests.reports.placement_folders import CALIBRATION, MODEL, Shape, make_placement

from tiltyard.errors import RunFolderError
from tiltyard.files import write_json
from tiltyard.render import CONTROLS
from tiltyard.reports import read_placement, write_report
from tiltyard.reports.placement import MOST_ROUNDS, count_results, expected_score, surprising

NEEDED = ("elo_ratings.json", "panel.json", "texts.jsonl", "verdicts.jsonl", "battles.jsonl", "calibration.jsonl")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_placement(tmp_path_factory.mktemp("placements") / "plain")
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = Shape(calibrated=True, leave_one_out=True, n_rounds=2, n_battles=60, n_human=600)
    folder = make_placement(tmp_path_factory.mktemp("placements") / "full", shape)
    write_report(folder)
    return folder


@pytest.fixture
def copy(full: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(full, tmp_path / "copy"))


PAGES: dict[str, Page] = {}
"""The pages that were read before, by their text: most tests look at the same two, and none changes what it reads."""


def page_of(folder: Path) -> Page:
    text = (folder / "report.html").read_text(encoding="utf-8")
    if text not in PAGES:
        PAGES[text] = read_page(text)
    return PAGES[text]


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


def board(folder: Path) -> list[dict]:
    return json.loads((folder / "elo_ratings.json").read_text(encoding="utf-8"))["ratings"]


def own_entry(folder: Path) -> dict:
    return next(row for row in board(folder) if row["model"] == MODEL)


def opponent_of(line: dict) -> str:
    return line["entrant_b"] if line["entrant_a"] == MODEL else line["entrant_a"]


def test_the_page_opens_with_the_answer_in_one_sentence(plain: Path) -> None:
    entry, verdicts = own_entry(plain), lines(plain / "verdicts.jsonl")
    heard = [line for line in verdicts if line["status"] == "ok"]
    opponents, questions = {opponent_of(line) for line in heard}, {line["prompt_id"] for line in heard}
    page = page_of(plain)
    assert page.root.one("p", "lead").text == (
        f"{MODEL} is rated {entry['rating']:.0f} ({entry['ci_low']:.0f} to {entry['ci_high']:.0f}) "
        f"on the judge’s scale, rank {entry['rank']} ({entry['rank_low']}–{entry['rank_high']}) of 30."
    )
    assert page.root.one("p", "made").text.startswith(
        f"Judged by {JUDGE} in {len(heard)} battles against {len(opponents)} opponents on {len(questions)} questions: "
    )
    assert "The interval is for sampling error only" in page.root.one("ul", "warnings").text


def test_a_number_without_calibration_is_called_what_it_is(plain: Path) -> None:
    section = page_of(plain)["meaning"]
    entry = own_entry(plain)
    assert rows(section.one("table", "readings"))["judge’s scale, sampling error only"].values == [
        entry["rating"],
        entry["ci_low"],
        entry["ci_high"],
    ]
    assert "judge’s scale, sampling error only" in section.all("p")[1].text


def test_a_calibrated_number_stands_beside_the_judges_own_with_its_floor(full: Path) -> None:
    section, entry = page_of(full)["meaning"], own_entry(full)
    shown = rows(section.one("table", "readings"))
    assert shown["people’s scale, calibrated"].values == [entry["rating"], entry["ci_low"], entry["ci_high"]]
    judge = [entry[f"judge_scale_{key}"] for key in ("rating", "ci_low", "ci_high")]
    assert shown["judge’s scale, sampling error only"].values == judge
    assert "The floor τ/β is 45 points" in section.text
    assert "narrower than ± 89" in section.text, "1.96 × 45.2"


def test_the_board_shows_the_neighbours_and_the_ends_and_folds_the_rest_into_a_table(plain: Path) -> None:
    page, entries = page_of(plain), board(plain)
    place = next(i for i, row in enumerate(entries) if row["model"] == MODEL)
    shown = [name for name in rows(_ratings(page)) if not name.startswith("⋮")]
    wanted = [row["model"] for i, row in enumerate(entries) if i < 2 or i >= len(entries) - 2 or abs(i - place) <= 8]
    assert [name for name in shown if name in wanted] == wanted
    assert len(shown) - len(wanted) <= 2, "only a gap of one is filled"
    assert [node.text for node in page.root.all("b", "placed")] == [MODEL, MODEL]
    whole = rows(page["whole"])
    keys = ("rank", "rating", "ci_low", "ci_high", "n_battles", "wins", "losses", "ties")
    assert [(name, row.values) for name, row in whole.items()] == [
        (row["model"], [row[key] for key in keys]) for row in entries
    ]


def _ratings(page: Page):
    return next(node for node in page["board"].all("div", "scroll") if node.all("table", "ratings"))


def test_every_round_is_drawn_and_the_rule_that_ended_them_is_said(plain: Path) -> None:
    section, written = page_of(plain)["rounds"], manifest(plain)["rounds"]
    keys = ("battles", "rating", "ci_low", "ci_high")
    for row, line in zip(rows(section).values(), written, strict=True):
        width = line["ci_high"] - line["ci_low"]
        assert row.values == [*(line[key] for key in keys), width, line["rank_low"], line["rank_high"]]
    assert "Stopped because all planned battles were judged" in section.text
    assert "(“until 80”), with at most 3 checks" in section.text


def test_a_round_that_allowed_no_rating_yet_is_not_drawn(copy: Path) -> None:
    """Ten ties give no rating: the run writes null for that round."""
    old = manifest(copy)
    unrated = {"round": 0, "battles": 10} | dict.fromkeys(("rating", "ci_low", "ci_high", "rank_low", "rank_high"))
    write_json(copy / "manifest.json", {**old, "rounds": [unrated, *old["rounds"]]})
    write_report(copy)
    assert len(rows(page_of(copy)["rounds"])) == len(old["rounds"])


def test_many_rounds_are_thinned_evenly_with_the_first_and_the_last(copy: Path) -> None:
    old = manifest(copy)
    last = old["rounds"][-1]
    many = [{**last, "round": i, "battles": i} for i in range(1, 100)]
    write_json(copy / "manifest.json", {**old, "rounds": many})
    write_report(copy)
    section = page_of(copy)["rounds"]
    shown = list(rows(section))
    assert len(shown) == MOST_ROUNDS
    assert (shown[0], shown[-1]) == ("1 battles", "99 battles")
    assert "75 of 99 rounds are not drawn" in section.text


def test_opponents_are_counted_from_the_verdicts(plain: Path) -> None:
    shown, ratings = rows(page_of(plain)["opponents"]), {row["model"]: row["rating"] for row in board(plain)}
    verdicts = lines(plain / "verdicts.jsonl")
    assert list(shown) == sorted({opponent_of(line) for line in verdicts}, key=lambda name: -ratings[name])
    for name, row in shown.items():
        met = [line for line in verdicts if opponent_of(line) == name]
        heard = [line for line in met if line["status"] == "ok"]
        won, lost = (sum(line["winner"] == who for line in heard) for who in (MODEL, name))
        tied = len(heard) - won - lost
        changed = sum(line["inconsistent"] for line in heard)
        counts = [len(heard), won, lost, tied, changed, len(met) - len(heard)]
        assert row.values[:-1] == [ratings[name], *counts, (won + 0.5 * tied) / len(heard)]


def test_the_expected_scores_add_up_to_the_observed_one(plain: Path) -> None:
    """The model's rating is the one at which they do: that is the equation it was fitted by."""
    placed = read_placement(plain)
    counted = count_results(placed, placed.run.battles)
    assert counted.expected == pytest.approx(counted.score, abs=1e-6)
    languages = rows(page_of(plain)["languages"])
    assert sum(row.values[0] for row in languages.values()) == counted.n
    weighted = sum(row.values[0] * row.values[-1] for row in languages.values())
    assert weighted / counted.n == pytest.approx(counted.score, abs=1e-6)


def test_equals_expect_a_half_and_400_points_ten_to_one_among_decisive_battles(plain: Path) -> None:
    contents = json.loads((plain / "elo_ratings.json").read_text())
    placed = read_placement(plain)
    assert expected_score(placed, MODEL) == pytest.approx(0.5)
    other = next(row["model"] for row in contents["ratings"] if row["model"] != MODEL)
    delta = (placed.entry.rating - placed.entries[other].rating) / 400
    nu = contents["tie_parameters"]["llm-judge"]
    weights = (10 ** (delta / 2), 10 ** (-delta / 2), nu)
    assert expected_score(placed, other) == pytest.approx((weights[0] + 0.5 * nu) / sum(weights))


def test_the_judges_habits_are_counted_and_one_order_says_that_it_is_one(plain: Path, tmp_path: Path) -> None:
    both = [line for line in lines(plain / "verdicts.jsonl") if line["status"] == "ok"]
    changed = sum(line["inconsistent"] for line in both)
    shown = rows(page_of(plain)["judge"])["all judgments"].values
    assert shown[:3] == [changed / len(both), changed, len(both)]
    single = make_placement(tmp_path / "single", Shape(n_models=8, n_battles=30, n_human=400, both_orders=False))
    write_report(single)
    page = page_of(single)
    assert "in one order only" in page["judge"].text
    assert "changed with the order" not in page.root.one("header").text
    assert "not asked" in page["views"].text


def test_the_calibration_is_shown_in_words_figures_and_a_bar(full: Path) -> None:
    section = page_of(full)["calibration"]
    assert "It agreed with them in 76.2 % (71.0 % to 80.7 %) of 244 battles" in section.text
    told = rows(part(section, "What it said where people had voted"))
    people = Counter(line["human_winner"] for line in lines(full / "calibration.jsonl"))
    assert sum(told["one of the two"].values) == people["model_a"] + people["model_b"]
    assert sum(told["both bad"].values) == people["tie (bothbad)"]
    bar = part(section, "Where the uncertainty comes from")
    parts = CALIBRATION["variance_points2"]
    whole = sum(parts.values())
    assert [row.values for row in rows(bar).values()] == [[v / whole, v**0.5] for v in parts.values()]
    widths = [float(re.search(r"h([\d.]+)v", path.attrs["d"]).group(1)) for path in bar.all("path", "part")]
    assert widths == pytest.approx([320 * v / whole for v in parts.values()], abs=0.01)
    assert CALIBRATION["warnings"][0] in page_of(full).root.one("ul", "warnings").text


def test_leaving_the_model_out_is_shown_beside_what_people_say(full: Path, plain: Path) -> None:
    section, known = page_of(full)["leave-one-out"], manifest(full)["leave_one_out"]
    assert "31 points above people’s rating, and its interval holds that rating" in section.text
    assert rows(section)["people’s own votes"].values == [
        known["human_rating"],
        known["human_ci_low"],
        known["human_ci_high"],
    ]
    assert not {"leave-one-out", "calibration"} & set(page_of(plain).ids)


def test_examples_are_the_least_likely_battles_of_each_outcome(plain: Path) -> None:
    placed = read_placement(plain)
    strength = {name: entry.rating for name, entry in placed.entries.items()}
    won, lost = surprising(placed, "won"), surprising(placed, "lost")
    beaten = [strength[placed.opponent(b)] for b in placed.run.battles if b.winner == MODEL]
    assert strength[placed.opponent(won[0])] == max(beaten)
    winners = [strength[placed.opponent(b)] for b in placed.run.battles if b.winner not in (MODEL, None)]
    assert strength[placed.opponent(lost[0])] == min(winners)
    section = page_of(plain)["examples"]
    links = [node.attrs["href"] for node in section.all("a") if node.text == "full battle"]
    kinds = ("won", "lost", "tie", "inconsistent")
    assert links == [f"#b{battle.number}" for kind in kinds for battle in surprising(placed, kind)]


def test_every_text_is_there_word_for_word_and_never_as_markup(plain: Path) -> None:
    text = (plain / "report.html").read_text(encoding="utf-8")
    page = page_of(plain)
    questions = list(dict.fromkeys(line["question_id"] for line in lines(plain / "texts.jsonl")))
    for number, line in enumerate(lines(plain / "texts.jsonl")):
        view = page[f"p{questions.index(line['question_id'])}"]
        assert view.one("div", "question").text == line["prompt"].translate(CONTROLS)
        answers = [node.text for node in view.all("div", "response")]
        for key in ("model_answer", "opponent_answer"):
            assert (line[key].translate(CONTROLS) or "(empty)") in answers
        assert f"b{number}" in page.ids
    assert SCRIPT not in text
    assert len(page.root.all("script")) == len(page.root.all("style")) == 1
    for node in page.root.walk():
        assert node.tag not in ("img", "iframe", "object", "form")
        assert not [name for name in node.attrs if name.startswith("on") or name in ("style", "src", "srcdoc")]
    answers = {line[key] for line in lines(plain / "texts.jsonl") for key in ("model_answer", "opponent_answer")}
    assert set(NASTY) <= answers
    assert text.count(LONG) <= 4 + 2, "a question, two answers of the model, one of an opponent; two judge texts"


def test_every_link_has_its_target_and_nothing_is_loaded(plain: Path, full: Path) -> None:
    for folder in (plain, full):
        page = page_of(folder)
        assert {link for link in page.links if link[1:] not in page.ids} == set()
        assert all(link.startswith("#") for link in page.links)


def test_failures_and_what_was_left_out_are_named(plain: Path) -> None:
    page, judged = page_of(plain), manifest(plain)["judged"]
    assert judged["failed"] == 4
    assert "4 judged battles that failed (1 unparsed, 1 truncated, 1 refused, 1 error)" in page["left-out"].text
    assert "1 unparsed, 1 truncated, 1 refused, 1 error" in page.root.one("ul", "warnings").text
    assert (
        rows(page["usage"])["total"].values[-1] == json.loads((plain / "usage.json").read_text())["total"]["cost_usd"]
    )


def test_the_commands_that_reproduce_the_ratings_are_on_the_page(copy: Path) -> None:
    assert page_of(copy)["recompute"].one("code").text == "tiltyard place --recompute ."
    write_json(copy / "manifest.json", {**manifest(copy), "rate_command": "tiltyard rate 'a <b>'"})
    write_report(copy)
    section = page_of(copy)["recompute"]
    assert section.one("code").text.splitlines() == ["tiltyard place --recompute .", "tiltyard rate 'a <b>'"]
    assert "Either reproduces the ratings on this page." in section.text


def test_a_rebuild_is_byte_for_byte_the_same_wherever_the_folder_is(full: Path, copy: Path) -> None:
    before = (full / "report.html").read_bytes()
    (copy / "report.html").unlink()
    assert write_report(copy) == copy / "report.html"
    assert (copy / "report.html").read_bytes() == before


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_file_is_one_clear_line(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(RunFolderError) as caught:
        write_report(copy)
    assert name in str(caught.value)
    assert "`tiltyard place`" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["manifest.json", *NEEDED[:4], "calibration.jsonl", "usage.json"])
def test_a_torn_file_is_named_and_the_old_report_stays(copy: Path, name: str) -> None:
    before = (copy / "report.html").read_bytes()
    data = (copy / name).read_bytes()
    (copy / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(RunFolderError) as caught:
        write_report(copy)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (copy / "report.html").read_bytes() == before


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("verdicts.jsonl", {"prompt_id": "q999"}, r"verdicts\.jsonl:1: texts\.jsonl has no texts for q999"),
        ("verdicts.jsonl", {"entrant_a": "x", "entrant_b": "y"}, r"verdicts\.jsonl:1: a battle of x and y, not of"),
        ("calibration.jsonl", {"human_winner": "left"}, r"calibration\.jsonl:1: unknown winner 'left'"),
    ],
)
def test_a_line_that_does_not_belong_is_an_error_that_names_it(copy: Path, file: str, change: dict, said: str) -> None:
    first, _, rest = (copy / file).read_text(encoding="utf-8").partition("\n")
    (copy / file).write_text(json.dumps({**json.loads(first), **change}) + "\n" + rest, encoding="utf-8")
    with pytest.raises(RunFolderError, match=said):
        read_placement(copy)


def test_a_board_without_the_model_is_an_error(copy: Path) -> None:
    write_json(copy / "manifest.json", {**manifest(copy), "model": "nobody"})
    with pytest.raises(RunFolderError, match=r"elo_ratings\.json: no rating of nobody"):
        write_report(copy)


def test_numbers_that_do_not_follow_from_the_verdicts_are_pointed_out(copy: Path, full: Path) -> None:
    assert "All agree with the files" in page_of(full)["run"].text
    old = manifest(copy)
    judged = {**old["judged"], "wins": old["judged"]["wins"] + 1}
    flips = {**old["flips"], "share": 0.9}
    panel = {**old["panel"], "fingerprint": "other"}
    rounds = [{**line, "rating": line["rating"] + 9} for line in old["rounds"]]
    write_json(copy / "manifest.json", {**old, "judged": judged, "flips": flips, "panel": panel, "rounds": rounds})
    verdicts = (copy / "verdicts.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "verdicts.jsonl").write_bytes(b"".join(verdicts[1:]))
    write_report(copy)
    found = page_of(copy).root.one("ul", "warnings").text
    for words in ("wins, the verdicts", "0.900 of", "another fingerprint", "the last round has", "the board gives"):
        assert words in found
    assert "1 battles of panel.json have no line in verdicts.jsonl" in found


def test_a_large_placement_has_its_battles_beside_the_page_and_every_link_arrives(copy: Path) -> None:
    write_report(copy, one_page=20)
    pages = {
        path.relative_to(copy).as_posix(): read_page(path.read_text(encoding="utf-8")) for path in copy.rglob("*.html")
    }
    verdicts = lines(copy / "verdicts.jsonl")
    opponents = {opponent_of(line) for line in verdicts}
    assert len([name for name in pages if name.startswith("report/pair-")]) == len(opponents)
    assert "too many for one page" in pages["report.html"]["battles"].text
    for name, page in pages.items():
        for link in page.links:
            file, _, anchor = link.partition("#")
            target = normpath(joined(dirname(name), file)) if file else name
            assert anchor in pages[target].ids, f"{name} links to {link}"
    assert sum(len(page.root.all("section", "battle")) for page in pages.values()) == len(verdicts)
    write_report(copy)
    assert not list((copy / "report").iterdir())


VISIBLE = "[...document.querySelectorAll('.pair tbody tr')].filter(row => row.offsetParent).length"


def test_battles_are_filtered_by_outcome_and_opponent_together(tab: Tab, plain: Path) -> None:
    tab.open(plain / "report.html")
    name = tab.evaluate("opponent.options[3].text")
    met = [line for line in lines(plain / "verdicts.jsonl") if opponent_of(line) == name]
    tab.evaluate("opponent.selectedIndex = 3; opponent.dispatchEvent(new Event('change'))")
    assert tab.evaluate(VISIBLE) == len(met) > 0
    tab.evaluate("outcome.value = 'lost'; outcome.dispatchEvent(new Event('change'))")
    lost = sum(line["winner"] == name for line in met)
    assert tab.evaluate(VISIBLE) == lost
    assert tab.evaluate("found.textContent") == f"{lost} battle{'' if lost == 1 else 's'}"
    tab.evaluate("opponent.selectedIndex = 0; opponent.dispatchEvent(new Event('change'))")
    assert tab.evaluate(VISIBLE) == manifest(plain)["judged"]["losses"]
    assert tab.complaints == []


def test_without_javascript_the_page_leads_down_to_a_battle(tab: Tab, plain: Path) -> None:
    tab.scripts(on=False)
    tab.open(plain / "report.html")
    shown = tab.shown()
    assert "is rated" in shown
    assert "Search" not in shown, "a filter that cannot work is not shown"
    text = lines(plain / "texts.jsonl")[50]
    assert text["opponent_answer"] not in shown
    tab.open(plain / "report.html", "b50")
    laid_out = " ".join(tab.shown().split())
    for key in ("prompt", "model_answer", "opponent_answer"):
        assert " ".join(text[key].split())[:200] in laid_out
    assert tab.complaints == []
    assert {url for url in tab.requests if url != "about:blank"} == {(plain / "report.html").resolve().as_uri()}


def test_the_page_fits_a_phone_follows_the_dark_and_prints_white(tab: Tab, full: Path) -> None:
    tab.screen(390, 844)
    for anchor in ("", "b0", "b5", "m0-0-1", "p2"):
        tab.open(full / "report.html", anchor)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    paper = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(paper)
    tab.screen(1280, 900, dark=True)
    dark = tab.evaluate(paper)
    tab.screen(794, 1123, dark=True, media="print")
    assert len({light, dark, tab.evaluate(paper)}) == 3
    assert tab.evaluate(paper) == "rgb(255, 255, 255)"
    assert tab.complaints == []
