"""From a folder to files: what is missing or torn is said in one line, and a rebuild changes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from posixpath import dirname, normpath
from posixpath import join as joined

import msgspec
import pytest
from page_tree import Page, part, read_page, rows
from run_folders import ENTRANTS, make_run

from tiltyard.errors import RunFolderError
from tiltyard.files import write_json
from tiltyard.judge.tournament.artifacts import write_standings, write_verdicts
from tiltyard.judge.tournament.config import EloSettings
from tiltyard.judge.tournament.ratings import rate_dimension
from tiltyard.judge.verdicts import Matchup, VerdictLabel, settle
from tiltyard.reports import read_run, write_report

NEEDED = (
    "manifest.json",
    "elo_results.json",
    "pairwise_winrates.csv",
    "elo_per_perm.npz",
    "matches/matches.jsonl",
    "verdicts/factuality.jsonl",
    "verdicts/clarity.jsonl",
)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_run(tmp_path_factory.mktemp("runs") / "small", n_prompts=12)
    write_report(folder)
    return folder


@pytest.fixture
def copy(small_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_run, tmp_path / "copy"))


def test_a_rebuild_is_byte_for_byte_the_same_wherever_the_folder_is(small_run: Path, copy: Path) -> None:
    before = (small_run / "report.html").read_bytes()
    (copy / "report.html").unlink()
    assert write_report(copy) == copy / "report.html"
    assert (copy / "report.html").read_bytes() == before
    assert not list(copy.rglob("*.part"))


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_file_is_one_clear_line(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(RunFolderError) as caught:
        write_report(copy)
    message = str(caught.value)
    assert name in message
    assert "tiltyard run" in message
    assert "\n" not in message


def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="there is no run folder"):
        read_run(tmp_path / "nowhere")


@pytest.mark.parametrize("name", [*NEEDED, "usage.json", "ratings/clarity.json"])
def test_a_torn_file_is_named_and_the_old_report_stays(copy: Path, name: str) -> None:
    before = (copy / "report.html").read_bytes()
    data = (copy / name).read_bytes()
    (copy / name).write_bytes(data[: len(data) // 2 + 7] if name.endswith("csv") else data[: len(data) // 2])
    with pytest.raises(RunFolderError) as caught:
        write_report(copy)
    assert Path(name).name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (copy / "report.html").read_bytes() == before


def test_a_torn_verdict_is_named_by_its_line(copy: Path) -> None:
    path = copy / "verdicts" / "clarity.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + lines[5][:40])
    with pytest.raises(RunFolderError, match=r"clarity\.jsonl:6: torn or not JSON"):
        read_run(copy)


def test_a_verdict_without_its_texts_is_an_error(copy: Path) -> None:
    path = copy / "verdicts" / "clarity.jsonl"
    first, _, rest = path.read_text().partition("\n")
    path.write_text(json.dumps({**json.loads(first), "prompt_id": "q999"}) + "\n" + rest)
    with pytest.raises(RunFolderError, match=r"verdicts/clarity\.jsonl:1: .* no texts for q999"):
        read_run(copy)


def test_without_a_usage_file_the_page_says_that_the_cost_is_not_known(copy: Path) -> None:
    (copy / "usage.json").unlink()
    page = read_page(write_report(copy).read_text(encoding="utf-8"))
    assert "so the cost is unknown" in page["usage"].text


def test_numbers_that_do_not_follow_from_the_verdicts_are_pointed_out(copy: Path, page: Page) -> None:
    assert "All agree with the files" in page["run"].text
    path = copy / "pairwise_winrates.csv"
    head, first, rest = path.read_text().split("\n", 2)
    cells = first.split(",")
    changed = ",".join([*cells[:3], str(int(cells[3]) + 1), *cells[4:]])
    path.write_text("\n".join([head, changed, rest]))
    found = read_page(write_report(copy).read_text(encoding="utf-8")).root.one("ul", "warnings").text
    assert f"Numbers disagree: {cells[0]}: {cells[1]} against {cells[2]}" in found


def test_the_top_names_what_failed_and_what_was_dropped(page: Page) -> None:
    top = page.root.one("ul", "warnings").text
    assert "4 unparsed, 4 truncated, 4 refused, 4 error" in top
    assert "2 prompts left out because not every entrant answered (crane-base lacks 2)" in top
    assert "factuality: 3 prompts left out, without a reference answer" in top
    assert "factuality: 9 of 180 matchups have no verdict (" in top
    assert "has not finished" not in top


def test_an_unfinished_run_and_a_pilots_last_word_are_shown(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "pilot", n_prompts=12, mode="pilot")
    manifest = json.loads((folder / "manifest.json").read_text())
    write_json(folder / "manifest.json", {**manifest, "finished_at": None})
    page = read_page(write_report(folder).read_text(encoding="utf-8"))
    assert "This run has not finished" in page.root.one("ul", "warnings").text
    assert "No-go" in page["gate"].text
    assert page.root.one("h1").one("a", "badge").text == "No-go"
    assert "118 of 120 cells" in rows(page["gate"])["answers complete"].text
    assert "instructs the judge" in page["canaries"].text


def rejudged(folder: Path, verdict_of) -> Path:
    """The folder's matches of one dimension judged anew; `verdict_of` changes each verdict or drops it."""
    lines = [json.loads(line) for line in (folder / "verdicts" / "factuality.jsonl").read_text().splitlines()]
    old = list(read_run(folder).judgments("factuality"))
    judgments = []
    for line, judgment in zip(lines, old, strict=True):
        matchup = Matchup(**{key: line[key] for key in ("prompt_id", "dimension", "entrant_a", "entrant_b")})
        judgments.append(settle(matchup, [new for v in judgment.raw if (new := verdict_of(v)) is not None]))
    write_verdicts(folder, "factuality", judgments)
    standing = rate_dimension("factuality", judgments, EloSettings(n_perms=20), "judge")
    shutil.rmtree(folder / "ratings")
    write_standings(folder, {"factuality": standing}, 16.0)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["results"]["dimensions"]["factuality"]["bradley_terry"] = standing.board_missing or "ok"
    write_json(folder / "manifest.json", manifest)
    return folder


def test_a_dimension_of_ties_has_no_elo_and_says_so(copy: Path) -> None:
    rejudged(copy, lambda verdict: msgspec.structs.replace(verdict, verdict=VerdictLabel.TIE))
    page = read_page(write_report(copy).read_text(encoding="utf-8"))
    assert "No decisive match, so no Elo" in page["d0"].text
    assert rows(part(page["d0"], "The judge’s habits"))["all judgments"].values == [0.0, 0, 71, 0, 0]


def test_a_run_that_judged_nothing_still_has_a_page(copy: Path) -> None:
    rejudged(copy, lambda _: None)
    page = read_page(write_report(copy).read_text(encoding="utf-8"))
    assert "no board: no judgment was settled" in page.root.one("header").text
    assert "factuality: 72 of 72 matchups have no verdict (" in page.root.one("ul", "warnings").text
    assert "No verdict: this match was not judged" in page["views"].text


def test_a_large_run_has_its_battles_beside_the_page_and_every_link_arrives(copy: Path) -> None:
    write_report(copy, one_page=100)
    pages = {
        path.relative_to(copy).as_posix(): read_page(path.read_text(encoding="utf-8")) for path in copy.rglob("*.html")
    }
    assert len([name for name in pages if name.startswith("report/pair-")]) == 12
    assert len([name for name in pages if name.startswith("report/prompts-")]) == 1
    assert "too many for one page" in pages["report.html"]["battles"].text
    for name, page in pages.items():
        for link in page.links:
            file, _, anchor = link.partition("#")
            target = normpath(joined(dirname(name), file)) if file else name
            assert anchor in pages[target].ids, f"{name} links to {link}"
    assert sum(len(page.root.all("section", "battle")) for page in pages.values()) == 144
    assert sum(len(page.root.all("article")) for page in pages.values()) == 12


def test_the_files_of_a_larger_report_are_removed_and_others_left_alone(copy: Path) -> None:
    write_report(copy, one_page=100)
    (copy / "report" / "notes.html").write_text("mine")
    write_report(copy)
    assert [path.name for path in (copy / "report").iterdir()] == ["notes.html"]


def test_judgments_are_read_when_they_are_asked_for(run_folder: Path) -> None:
    run = read_run(run_folder)
    assert run.entrants == ENTRANTS
    assert [dimension.name for dimension in run.dimensions] == ["factuality", "clarity"]
    judgments = list(run.judgments("clarity"))
    assert len(judgments) == 180
    last = json.loads((run_folder / "verdicts" / "clarity.jsonl").read_text().splitlines()[-1])
    assert judgments[-1].raw[1].reasoning == last["raw"][1]["reasoning"]
