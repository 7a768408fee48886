"""What a placement says about itself: the scale of its first sentence, biases nobody measured, families left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oracles import placement_simulation as simulation
from tests.cli.conftest import Run
from tests.judge.placement.conftest import example, only_folder, read_json, run_ok
from tests.sizes import size
from tiltyard.analysis.boards import Leaderboard, RatingEntry
from tiltyard.analysis.boards.record import BoardSettings
from tiltyard.errors import OptionError
from tiltyard.judge.placement.robustness import families_of, sensitivity
from tiltyard.options import PlaceOptions

JUDGE_SCALE = "on the judge's scale (sampling error only: does not cover judge bias)"


def board(**ratings: float) -> Leaderboard:
    entries = tuple(
        RatingEntry(
            model=name, rating=rating, ci_low=rating - 60, ci_high=rating + 60, n_battles=9, source="human", rank=place
        )
        for place, (name, rating) in enumerate(sorted(ratings.items(), key=lambda item: -item[1]), start=1)
    )
    return Leaderboard(entries=entries, settings=BoardSettings(), n_battles=9)


def test_a_bias_of_d_points_moves_the_rating_by_d_and_the_places_with_it() -> None:
    found = sensitivity(board(new=1000.0, near=1030.0, far=1080.0, low=960.0), "new", (25.0, 50.0, 100.0))
    assert found.stated_points == 50.0
    effects = {effect.bias_points: effect for effect in found.effects}
    assert list(effects) == [25.0, 50.0, 100.0]
    assert (found.stated.rating_low, found.stated.rating_high) == (950.0, 1050.0)
    assert (found.stated.ci_low, found.stated.ci_high) == (890.0, 1110.0)
    assert [(one.rank_best, one.rank_worst) for one in effects.values()] == [(3, 3), (2, 4), (1, 4)]


@pytest.mark.parametrize(("floor", "stated"), [(0.0, 50.0), (44.0, 50.0), (50.0, 50.0), (51.0, 100.0), (156.0, 200.0)])
def test_the_bias_that_is_named_is_no_smaller_than_the_one_that_was_measured(floor: float, stated: float) -> None:
    found = sensitivity(board(new=1000.0, other=1000.0), "new", (25.0, 50.0, 100.0), floor)
    assert found.stated.bias_points == stated
    assert {25.0, 50.0, 100.0} <= {effect.bias_points for effect in found.effects}


def test_families_come_from_a_file_or_from_the_makers_in_names(tmp_path: Path) -> None:
    assert families_of(["lab/one", "lab/two", "plain"], None) == {"lab/one": "lab", "lab/two": "lab"}
    path = tmp_path / "families"
    path.write_text("model,family\none, a\ntwo,b\nelsewhere,c\nthree,\n", encoding="utf-8")
    assert families_of(["one", "two", "three"], path) == {"one": "a", "two": "b"}
    path.write_text('{"one": "a"}', encoding="utf-8")
    assert families_of(["one", "two"], path) == {"one": "a"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name,maker\none,a\n", "columns model and family"),
        ('{"one": 1}', "JSON object"),
        ("model,family\nx,a\n", "names no"),
    ],
)
def test_a_file_of_families_that_says_nothing_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "families"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(OptionError, match=complaint):
        families_of(["one"], path)
    with pytest.raises(OptionError, match="cannot read"):
        families_of(["one"], tmp_path / "absent")


def test_families_without_a_calibration_are_refused() -> None:
    with pytest.raises(OptionError, match="check a calibration"):
        PlaceOptions(arena=(Path("a"),), model="m", judge="j", families=Path("f"))


def test_without_calibration_every_rating_is_labelled_as_the_judges(tmp_path: Path, tiltyard: Run) -> None:
    done = tiltyard(*example("--n-battles", "30", "--bootstraps", "50"))
    folder = only_folder(tmp_path)
    manifest, ratings = read_json(folder / "manifest.json"), read_json(folder / "elo_ratings.json")
    sentence = next(line for line in done.stdout.splitlines() if line.startswith("kestrel is rated"))
    assert JUDGE_SCALE in sentence
    assert "kestrel: judge's scale, sampling error only" in (folder / "leaderboard.txt").read_text(encoding="utf-8")
    rounds = [line for line in done.stderr.splitlines() if re.match(r"round \d+: .*\[", line)]
    assert rounds
    assert all("on the judge's scale" in line for line in rounds)
    assert "a style bias of ±50 points that nothing here measures would move the rating by about ±50" in done.stdout
    assert manifest["sensitivity"] == ratings["sensitivity"]
    assert manifest["families"] is None
    assert "families" not in ratings


def test_the_calibration_is_checked_on_families_that_it_has_not_seen(tmp_path: Path, tiltyard: Run) -> None:
    names = ["albatross", "bittern", "cormorant", "dunlin", "egret", "fulmar", "gannet", "heron", "ibis"]
    rows = [f"{name},{'ab'[place % 2] if place < 4 else 'rest'}" for place, name in enumerate(names)]
    (tmp_path / "families.csv").write_text("\n".join(["model,family", *rows]), encoding="utf-8")
    shown = run_ok(tiltyard, *example("--calibrate", "400", "--n-battles", "30", "--families", "families.csv"))
    folder = only_folder(tmp_path)
    found = read_json(folder / "manifest.json")["families"]
    assert found == read_json(folder / "elo_ratings.json")["families"]
    checked = {one["family"]: [model["model"] for model in one["models"]] for one in found["families"]}
    assert checked.keys() | found["not_checked"].keys() == {"a", "b", "rest"}
    assert checked["a"] == ["albatross", "cormorant"]
    assert found["models"] == sum(len(one) for one in checked.values())
    assert f"{found['covered']} of {found['models']} models' intervals cover people's rating" in shown
    assert "kestrel is rated" in shown
    assert "on people's scale (calibrated)" in shown
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert 'id="families"' in page
    assert "If the judge has a bias that was not measured" in page
    again = tiltyard("place", "--recompute", str(folder))
    assert (again.returncode, "agrees with itself" in again.stderr) == (0, True)


# Simulations with known truth


def test_the_interval_in_the_first_sentence_covers_with_calibration_and_is_labelled_without() -> None:
    found, sentence = simulation.simulate_sentence(size(14, soak=24), 1, floor_points=40.0)
    assert found.share >= 0.92 - 2 * found.error
    assert "on people's scale (calibrated)" in sentence
    found, sentence = simulation.simulate_sentence(1, 1, calibrated=False, floor_points=40.0)
    assert JUDGE_SCALE in sentence


def test_reported_family_coverage_is_nominal_where_families_do_not_matter_and_falls_where_they_do() -> None:
    same, models = simulation.simulate_families(4, 1)
    apart, _ = simulation.simulate_families(4, 1, families=2, family_points=250.0)
    assert models == 20.0
    assert same.share >= 0.90
    assert apart.share < same.share - 0.1


@pytest.mark.soak
@pytest.mark.parametrize("floor_points", [0.0, 40.0, 80.0])
@pytest.mark.parametrize("slope", [1.0, 2.0])
def test_soak_the_interval_in_the_first_sentence(floor_points: float, slope: float) -> None:
    found, _ = simulation.simulate_sentence(400, 7, floor_points=floor_points, slope=slope)
    assert found.share >= 0.92


@pytest.mark.soak
def test_soak_sampling_error_alone_does_not_cover_and_an_unseen_style_bias_breaks_the_calibrated_interval() -> None:
    plain, _ = simulation.simulate_sentence(200, 8, calibrated=False, floor_points=40.0)
    favored, _ = simulation.simulate_sentence(200, 8, style_points=200.0)
    assert plain.share < 0.85
    assert favored.share < 0.6


@pytest.mark.soak
def test_soak_family_coverage_is_nominal_where_families_do_not_matter() -> None:
    found, _ = simulation.simulate_families(200, 9)
    assert 0.93 <= found.share <= 0.98
