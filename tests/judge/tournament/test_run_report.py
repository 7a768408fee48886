"""The report of a real run: what follows, by what rubric and prompt, with which habits, by category, at what cost."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.fakes import FakeServer
from tests.judge.tournament.folder import ANSWERS, PROMPTS, change, lines, make_folder

RUN = ("run", "tournament.yaml", "--mode", "headline", "--output-dir", "run", "--yes")
CATEGORY = {"p1": "odd", "p2": "even", "p3": "odd", "p4": "even"}
RUBRIC = "Prefer <b>what</b> knows\n\n- its limits & ours."
FRANCE = "What is the capital of France?"


class Longer:
    """The longer answer wins, but heron beats otter on odd prompts; keeps what it was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def __call__(self, system: str, user: str) -> str:
        self.sent.append((system, user))
        first, second = re.findall(r"\[ANSWER [AB] \w+\]\n(.*?)\n\[END ANSWER [AB] \w{12}", user, re.DOTALL)
        odd = [ANSWERS["heron"].format(name) for name, kind in CATEGORY.items() if kind == "odd"]
        upset = "careful" in user and any(words in user for words in odd)
        return f"VERDICT: {'A' if (len(first) > len(second)) != upset else 'B'}"


@pytest.fixture
def judge() -> Longer:
    return Longer()


@pytest.fixture
def run(tmp_path: Path, tiltyard: Run, anthropic_server: FakeServer, judge: Longer) -> Path:
    """A finished run of a judge with a price, whose bank has categories."""
    change(make_folder(tmp_path, judge="claude-sonnet-4-5"), canaries=True)
    lines(tmp_path / "bank.jsonl", [{**one, "category": CATEGORY[str(one["prompt_id"])]} for one in PROMPTS])
    (tmp_path / "calibration.md").write_text(f"# version: c1\n{RUBRIC}\n", encoding="utf-8")
    anthropic_server.behaviour.judge = judge
    done = tiltyard(*RUN)
    assert done.returncode == 0, done.stderr
    return tmp_path / "run"


def page_of(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def plain(markup: str) -> str:
    return html.unescape(re.sub(r"<(?!b>what|/b> knows).*?>", "", markup))


def test_the_page_begins_with_a_title_and_a_conclusion_in_words(run: Path) -> None:
    page = page_of(run)
    assert "<h1>otter, heron and crane</h1>" in page
    header, weak = plain(page.partition("</header>")[0]), plain(page.partition('id="weak"')[2].partition("</ul>")[0])
    assert "Whose answers are best, of 3 entrants? Judged for factuality and calibration." in header
    share = r"\d+ %(?: \(\d+ to \d+\))?"
    led = rf"(\w+) leads, but [\w, ]+ could be best. It wins {share} of prompts against (\w+)\."
    assert re.search(rf"factuality: {led}", header)
    assert "Judged by claude-sonnet-4-5, every pair in both orders · 21 judgments on 4 prompts · US $ " in header
    assert "Do not rely on factuality: the judge missed 6 of 8 canaries" in weak
    assert "Only 4 prompts" in weak


def test_a_title_of_the_config_is_that_of_the_page(run: Path, tiltyard: Run, tmp_path: Path) -> None:
    change(tmp_path / "tournament.yaml", title="Which bird for <support>?")
    assert tiltyard(*RUN).returncode == 0
    assert "<h1>Which bird for &lt;support&gt;?</h1>" in page_of(run)
    assert json.loads((run / "manifest.json").read_text(encoding="utf-8"))["title"] == "Which bird for <support>?"


def test_the_win_rate_of_the_answer_is_that_of_compare(run: Path, tiltyard: Run) -> None:
    header = plain(page_of(run).partition("</header>")[0])
    one, value, low, high, other = re.search(  # type: ignore[union-attr]
        r"calibration: (\w+) leads.*?wins (\d+) % \((\d+) to (\d+)\) of prompts against (\w+)", header
    ).groups()
    found = json.loads(
        tiltyard("compare", one, other, "--in", "run", "--dimension", "calibration", "--format", "json").stdout
    )
    rates = found["win_rate"], found["win_rate_low"], found["win_rate_high"]
    assert [f"{100 * rate:.0f}" for rate in rates] == [value, low, high]


def test_rubric_and_judge_prompt_are_on_the_page_in_full_and_are_what_was_sent(run: Path, judge: Longer) -> None:
    found = json.loads((run / "judge_prompts.json").read_text(encoding="utf-8"))["dimensions"]["calibration"]
    (sent,) = found["sent"]
    assert (found["rubric"], sent["judges"]) == (RUBRIC, ["claude-sonnet-4-5"])
    system, user = next(one for one in judge.sent if "dimension: calibration" in one[0] and FRANCE in one[1])
    assert sent["system"] == system
    first, second = re.findall(r"\[ANSWER [AB] \w+\]\n(.*?)\n\[END", user, re.DOTALL)
    code = user[len("[PROMPT ") :].partition("]")[0]
    material = {"{code}": code, "{prompt}": FRANCE, "{one answer}": first, "{the other answer}": second}
    assert re.sub(r"\{.*?\}", lambda name: material[name.group()], sent["user"]) == user
    shown = page_of(run).partition('<section id="asked">')[2].partition('<details class="fold">')[0]
    assert all(text in html.unescape(shown) for text in (RUBRIC, sent["system"], sent["user"]))
    assert "<b>what" not in shown  # it is text, not markup
    assert (shown.count("<details"), shown.count("<details open")) == (2 * 3, 0)


def test_what_the_terminal_says_of_the_judges_habits_is_on_the_page(run: Path, tiltyard: Run) -> None:
    said = [line.removeprefix("judge: ") for line in tiltyard(*RUN).stdout.splitlines() if line.startswith("judge: ")]
    assert len(said) >= 2
    page = plain(page_of(run))
    assert [line for line in said if f"{line[0].upper()}{line[1:]}." not in page] == []
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    habits = manifest["results"]["dimensions"]["calibration"]["habits"]
    habits["longer"] = {"value": 0.8, "low": 0.7, "high": 0.9, "n": 50}
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert tiltyard("report", "run").returncode == 0
    assert "Longer answers won more often; the longer one won 80 % (70 to 90) of decisive" in plain(page_of(run))


def test_by_category_the_page_says_where_each_entrant_is_best_with_the_numbers_of_rate_by(
    run: Path, tiltyard: Run
) -> None:
    command = ("rate", "run", "--dimension", "calibration", "--by", "category", "--format", "json")
    boards = json.loads(tiltyard(*command).stdout)["boards"]
    page = page_of(run)
    part = page[page.index('<section id="d1"') :]
    table = part[part.index("By category") :].partition("</table>")[0]
    rows = {cells[0]: cells for row in table.split("<tr>")[2:] if (cells := cells_of(row))}
    ratings = {
        name: {
            kind: row["rating"] for kind, board in boards.items() for row in board["ratings"] if row["model"] == name
        }
        for name in ("otter", "heron", "crane")
    }
    assert {name: (cells[1], cells[4]) for name, cells in rows.items()} == {
        name: (max(own, key=own.__getitem__), min(own, key=own.__getitem__)) for name, own in ratings.items()
    }
    assert rows["heron"][1] == "odd"
    assert rows["heron"][2] == f"{ratings['heron']['odd']:.0f}"
    assert "which do not hold for all 2 at once" in part


def cells_of(row: str) -> list[str]:
    return [plain(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]


def test_the_page_says_what_all_verdicts_cost_whichever_command_wrote_it(
    run: Path, tiltyard: Run, tmp_path: Path, anthropic_server: FakeServer
) -> None:
    paid = json.loads((run / "usage.json").read_text(encoding="utf-8"))["total"]["cost_usd"]
    assert paid > 0
    assert cost_on(page_of(run)) == pytest.approx(paid)
    assert tiltyard("report", "run").returncode == 0
    assert cost_on(page_of(run)) == pytest.approx(paid)
    labels = [{"question_id": "p1", "model_a": "otter", "model_b": "heron", "winner": "model_a"}]
    lines(tmp_path / "labels.jsonl", labels)
    calls = len(anthropic_server.ledger.accepted)
    assert tiltyard(*RUN, "--calibrate", "labels.jsonl").returncode == 0
    assert len(anthropic_server.ledger.accepted) == calls
    page = page_of(run)
    assert cost_on(page) == pytest.approx(paid)  # canaries among it
    assert 'last command: <data value="0.0"' in page


def cost_on(page: str) -> float:
    """What all verdicts cost, at the top of the page."""
    header = page.partition("</header>")[0]
    return float(re.search(r'US \$ <data value="([^"]+)"', header).group(1))  # type: ignore[union-attr]
