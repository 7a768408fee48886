"""README's claims: each is README's own text, none is left out, and one that is wrong is found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import claims

README = (claims.ROOT / "README.md").read_text(encoding="utf-8")


def test_every_promise_of_readme_has_a_claim_and_every_claim_is_in_readme() -> None:
    assert claims.unclaimed(README) == []
    assert [claim.text for claim in claims.CLAIMS if README.count(claim.text) != 1] == []


def test_a_new_promise_without_a_claim_is_noticed() -> None:
    more = README.replace("- **Nothing is lost.**", "- **It is 7 times faster.**\n- **Nothing is lost.**")
    assert claims.unclaimed(more) == ["- **It is 7 times faster.**"]
    more = README.replace("| ties | Davidson", "| speed | 7 times |\n| ties | Davidson")
    assert claims.unclaimed(more) == ["| speed | 7 times |"]


def test_seconds_are_those_of_the_record_and_other_seconds_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    of_row = {claim.text: claim for claim in claims.CLAIMS}
    claim, other = of_row["| Bradley–Terry, 1M battles from pandas, CPU |"], of_row["| … with 95 % intervals |"]
    assert claim.measure().holds, claim.measure().found
    assert other.measure().holds, other.measure().found
    row = claims.line_of(claim.text)
    monkeypatch.setattr(claims, "line_of", lambda _text: row.replace(" s |", "9 s |", 1))
    assert not claim.measure().holds


ODD_FILES = ("| a model that never lost |", "| two groups that never met |", "| a misspelt winner |")


@pytest.mark.parametrize("text", ODD_FILES)
def test_what_the_others_do_not_say_is_said(text: str) -> None:
    ours, _of_others = [claim for claim in claims.CLAIMS if claim.text == text]
    measured = ours.measure()
    assert measured.holds, measured.found


@pytest.mark.parametrize("text", ODD_FILES)
def test_what_the_others_print_is_held_against_readme_word_for_word(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ours, of_others = [claim for claim in claims.CLAIMS if claim.text == text]
    printing = tmp_path / "python"
    monkeypatch.setattr(claims, "PEERS", printing)
    assert not of_others.measure().holds, "without the other libraries nothing is claimed of them"
    cells = [cell.strip() for cell in claims.line_of(text).split("|")[3:-1]]
    for said, holds in ((cells, True), ([*cells[:-1], "another word"], False), (cells[:-1], False)):
        printing.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(said) + "\nEND\n", encoding="utf-8")
        printing.chmod(0o755)
        assert of_others.measure().holds == holds


@pytest.mark.soak
@pytest.mark.parametrize("text", ODD_FILES)
def test_the_others_print_what_readme_says(text: str) -> None:
    if not claims.PEERS.exists():
        pytest.skip("the other libraries are not installed: `make claims` installs them")
    _ours, of_others = [claim for claim in claims.CLAIMS if claim.text == text]
    measured = of_others.measure()
    assert measured.holds, measured.found


def test_the_shares_of_a_row_are_those_after_its_name_which_may_have_a_percentage_itself() -> None:
    assert claims.stated_shares("| 6 equal models, one voter casts 30 % |") == [0.97, 0.55, 0.54]
