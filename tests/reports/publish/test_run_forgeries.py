"""Folders of runs and placements whose maker cheats: what does not follow from the verdicts is found."""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from published_folders import everything
from test_forgeries import KINDS, edited
from tests import within
from tests.sizes import size
from typer.testing import CliRunner

from tiltyard import __version__
from tiltyard.cli.main import make_app
from tiltyard.errors import TiltyardError
from tiltyard.files import write_json
from tiltyard.judge.tournament.artifacts import RunManifest
from tiltyard.reports import write_report
from tiltyard.verbs.demo.steps import copy_material

EXAMPLES = Path(__file__).parents[3] / "examples"
Change = Callable[[Path], object]


def verify(*arguments: str) -> Any:
    return CliRunner().invoke(make_app("verify"), ["verify", *arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("tournament") / "t"
    shutil.copytree(EXAMPLES / "tournament", home, ignore=shutil.ignore_patterns("judgments"))
    done = within.run(home, "run", "tournament.yaml", "--mode", "headline", "--yes", "--output-dir", "run")
    assert done.returncode == 0, done.stderr
    return home / "run"


@pytest.fixture(scope="module")
def placement(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = Path(shutil.copytree(EXAMPLES / "placement", tmp_path_factory.mktemp("placement") / "p"))
    asked = (
        "place",
        "--arena",
        "arena.jsonl",
        "--model",
        "responses_kestrel.jsonl",
        "--judge",
        "recorded/verdicts.jsonl",
    )
    more = ("--min-opponent-battles", "50", "--n-battles", "24", "--bootstraps", "10", "--calibrate", "20")
    done = within.run(home, *asked, *more, "--yes", "--out", "placed")
    assert done.returncode == 0, done.stderr
    return next((home / "placed").iterdir())


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("rounds")
    copy_material(home / "demo")
    asked = ("run", "demo/tournament.yaml", "--mode", "headline", "--until", "top")
    done = within.run(home, *asked, "--limit-pairs", "80", "--n-perms", "20", "--yes", "--output-dir", "run")
    assert done.returncode == 0, done.stderr
    return home / "run"


def objects(name: str, change: Callable[[Any], object]) -> Change:
    """Change a JSON file."""

    def carry_out(folder: Path) -> None:
        said = json.loads((folder / name).read_bytes())
        change(said)
        (folder / name).write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    return carry_out


def rows(name: str, change: Callable[[Any], object], most: int = 10_000) -> Change:
    """Change the first rows of a file of lines."""

    def carry_out(folder: Path) -> None:
        found = [json.loads(line) for line in (folder / name).read_bytes().splitlines()]
        for row in found[:most]:
            change(row)
        (folder / name).write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in found), "utf-8")

    return carry_out


def text(name: str, one: str, other: str) -> Change:
    def carry_out(folder: Path) -> None:
        before = (folder / name).read_text("utf-8")
        assert one in before
        (folder / name).write_text(before.replace(one, other), encoding="utf-8")

    return carry_out


def rewritten(change: Change) -> Change:
    """Change something, and write the report anew from it."""

    def carry_out(folder: Path) -> None:
        change(folder)
        write_report(folder)

    return carry_out


def turned(row: dict[str, Any]) -> None:
    if row["source"] == "llm-judge":
        row["winner"] = {"model_a": "model_b", "model_b": "model_a"}.get(row["winner"], row["winner"])


def second_entry(report: dict[str, Any]) -> None:
    mine = next(row for row in report["ratings"] if row["model"] == "kestrel")
    report["ratings"].insert(0, {**mine, "rating": 1905.0})


def people_agree(row: dict[str, Any]) -> None:
    if row["winner"] is not None:
        row["human_winner"] = "model_a" if row["winner"] == row["entrant_a"] else "model_b"


def doubled(*names: str) -> Change:
    """Write the first row of some files twice."""

    def carry_out(folder: Path) -> None:
        for name in names:
            found = (folder / name).read_bytes().splitlines(keepends=True)
            (folder / name).write_bytes(b"".join([found[0], *found]))

    return carry_out


PLACEMENTS: dict[str, Change] = {
    "what people decided, and the report": rewritten(rows("calibration.jsonl", people_agree)),
    "an agreement with people, and the report": rewritten(
        objects("manifest.json", lambda said: said["calibration"]["agreement"].update(value=0.99))
    ),
    "an earlier round, and the report": rewritten(
        objects("manifest.json", lambda said: said["rounds"][0].update(rating=1905.0))
    ),
    "rounds without end": objects("manifest.json", lambda said: said.update(rounds=said["rounds"][:1] * 50_000)),
    "what was judged of people's battles": rows("calibration.jsonl", lambda row: row.update(dimension="truth")),
    "weights of people's decisions": rows("calibration.jsonl", lambda row: row.update(weight=50)),
    "a text twice": doubled("texts.jsonl"),
    "a key more of a text": rows("texts.jsonl", lambda row: row.update(audited="yes"), 1),
    "a key twice in the usage": text("usage.json", "{", '{"judge_model": "openai/gpt-5", '),
    "no usage, and the report": rewritten(lambda folder: (folder / "usage.json").unlink()),
    "biases without end": objects("manifest.json", lambda said: said["recipe"].update(sensitivity=[25.0] * 20_000)),
    "a forged second entry before the right one": objects("elo_ratings.json", second_entry),
    "the judge of the ratings": objects("elo_ratings.json", lambda said: said.update(judge_model="openai/gpt-5")),
    "the judge of the manifest": objects("manifest.json", lambda said: said.update(judge_model="openai/gpt-5")),
    "the judge everywhere but in the verdicts": lambda folder: [
        text(name, "recorded/verdicts.jsonl", "openai/gpt-5")(folder)
        for name in ("manifest.json", "elo_ratings.json", "battles.jsonl", "report.html")
    ],
    "battles turned": rows("battles.jsonl", turned),
    "winners turned in the verdicts' lines": rows("verdicts.jsonl", lambda row: row.update(winner="kestrel")),
    "counts": objects("manifest.json", lambda said: said["judged"].update(wins=20, inconsistent=0)),
    "how often the order decided": objects("manifest.json", lambda said: said["flips"].update(share=0.0)),
    "the calibration": objects("manifest.json", lambda said: said["calibration"].update(floor_points=0.0)),
    "another text": rows("texts.jsonl", lambda row: row.update(prompt="What?"), 1),
    "a battle of the panel": objects("panel.json", lambda said: said["battles"].pop()),
    "a number of the report": text("report.html", "kestrel", "kestrel the best"),
    "a file more": lambda folder: (folder / "audit.html").write_text("Audited"),
    "a file less": lambda folder: (folder / "leaderboard.txt").unlink(),
    "depths in the panel": lambda folder: (folder / "panel.json").write_bytes(b'{"a":' * 100_000),
    "a battle of the verdicts left out": lambda folder: (folder / "verdicts.jsonl").write_bytes(
        b"".join((folder / "verdicts.jsonl").read_bytes().splitlines(keepends=True)[1:])
    ),
}

RUNS: dict[str, Change] = {
    "a match and its verdicts twice": doubled("matches/matches.jsonl", "verdicts/factuality.jsonl"),
    "a key more of a match": rows("matches/matches.jsonl", lambda row: row.update(audited="yes"), 1),
    "a prompt without its version": objects(
        "judge_prompts.json", lambda said: said["dimensions"]["factuality"].pop("rubric_version")
    ),
    "a prompt that is none": objects("judge_prompts.json", lambda said: said.update(dimensions={"factuality": 5})),
    "a key more of a prompt": objects("judge_prompts.json", lambda said: said.update(audited="yes")),
    "no prompts, and the report": rewritten(lambda folder: (folder / "judge_prompts.json").unlink()),
    "no usage, and the report": rewritten(lambda folder: (folder / "usage.json").unlink()),
    "costs that are no number, and the report": rewritten(text("usage.json", '"cost_usd": null', '"cost_usd": NaN')),
    "rounds of a run that had none": lambda folder: (folder / "rounds.json").write_text("{}"),
    "what rounds went on for": objects("manifest.json", lambda said: said.update(until="top")),
    "battles turned": rows("battles.jsonl", turned),
    "a winner that its verdicts do not name": rows("verdicts/calibration.jsonl", lambda row: row.update(winner=None)),
    "a failure that is none": rows("verdicts/calibration.jsonl", lambda row: row.update(status="failed"), 1),
    "a rating": objects("ratings/calibration.json", lambda said: said["ratings"][0].update(rating=9999.0)),
    "a place": objects("ratings/calibration.json", lambda said: said["ratings"][-1].update(rank_high=1)),
    "an Elo": objects("elo_results.json", lambda said: said.update(default_k=32.0)),
    "K in the manifest": objects("manifest.json", lambda said: said.update(default_k=32.0)),
    "a win rate": text("pairwise_winrates.csv", "calibration", "calibrating"),
    "counts": objects("manifest.json", lambda said: said["results"]["dimensions"]["calibration"].update(settled=99)),
    "habits": objects(
        "manifest.json", lambda said: said["results"]["dimensions"]["calibration"]["habits"]["flips"].update(value=0.0)
    ),
    "pairs": objects("manifest.json", lambda said: said["pairs"].update(calibration=99)),
    "the judge": objects("manifest.json", lambda said: said.update(judge_model="openai/gpt-5")),
    "an entrant": text("matches/matches.jsonl", "careful", "thorough"),
    "an answer": rows("matches/matches.jsonl", lambda row: row.update(response_a="Short.")),
    "a match left out": lambda folder: (folder / "matches" / "matches.jsonl").write_bytes(
        b"".join((folder / "matches" / "matches.jsonl").read_bytes().splitlines(keepends=True)[1:])
    ),
    "a number of the report": text("report.html", "careful", "careful, the best"),
    "a dimension that leads out of the folder": lambda folder: [
        text("matches/matches.jsonl", '"dimension":"calibration"', '"dimension":"../../outside"')(folder),
        text("manifest.json", '"calibration"', '"../../outside"')(folder),
        shutil.copy(folder / "verdicts" / "calibration.jsonl", folder.parent / "outside.jsonl"),
    ],
    "a file of gigabytes": lambda folder: os.truncate(folder / "usage.json", 1 << 36),
    "a line of gigabytes": lambda folder: os.truncate(folder / "matches" / "matches.jsonl", 1 << 36),
    "a page of gigabytes": lambda folder: os.truncate(folder / "report.html", 1 << 36),
    "shuffles without end": objects("manifest.json", lambda said: said.update(n_perms=30_000_000)),
    "ratings that nobody's labels corrected": lambda folder: (
        (folder / "ratings" / "calibrated").mkdir(),
        shutil.copy(folder / "ratings" / "calibration.json", folder / "ratings" / "calibrated" / "calibration.json"),
    ),
    "a file more": lambda folder: (folder / "ratings" / "audited.json").write_text("{}"),
    "a file less": lambda folder: (folder / "elo_per_perm.npz").unlink(),
    "an empty folder": lambda folder: (folder / "audited").mkdir(),
    "a version that hides a key": lambda folder: [
        objects("manifest.json", lambda said: said["versions"].update(tiltyard=f'{__version__}", "audited": "yes'))(
            folder
        ),
        text(
            "ratings/calibration.json",
            f'"tiltyard_version": "{__version__}"',
            f'"tiltyard_version": "{__version__}", "audited": "yes"',
        )(folder),
    ],
    "arrays cut off": lambda folder: (folder / "elo_per_perm.npz").write_bytes(b"PK"),
    "arrays cut in the middle": lambda folder: os.truncate(folder / "elo_per_perm.npz", 900),
    "a member that is no array": lambda folder: packed(folder / "elo_per_perm.npz", "audited.txt", b"yes"),
    "a header that is none": lambda folder: packed(
        folder / "elo_per_perm.npz", "audited.npy", b"\x93NUMPY\x01\x00\x76\x00{'descr': ('<f8'" + b" " * 103
    ),
    "a link": lambda folder: (folder / "more").symlink_to("/etc"),
    "depths in the usage": lambda folder: (folder / "usage.json").write_bytes(b"[" * 200_000),
}


def packed(path: Path, name: str, data: bytes) -> None:
    """Put one more member into a file of arrays."""
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(name, data)


def decided(record: dict[str, Any]) -> None:
    record.update(contenders=["smollm2-plain"], told_apart=[["smollm2-plain", "qwen-candid"]])
    record.update(decision="smollm2-plain is best (95 % sure that no other is as good)")


def placed_as_decided(folder: Path) -> None:
    """Write the ratings that forged rounds lead to, as a program of ours would."""
    objects("rounds.json", lambda said: decided(said["dimensions"]["calibration"]))(folder)
    for row in (said := json.loads((folder / "ratings" / "calibration.json").read_bytes()))["ratings"]:
        first = row["model"] == "smollm2-plain"
        row["rank_low"], row["rank_high"] = (1, 1) if first else (2, max(2, row["rank_high"]))
    write_json(folder / "ratings" / "calibration.json", said)


ROUNDS: dict[str, Change] = {
    "who is best": placed_as_decided,
    "a record": objects(
        "rounds.json", lambda said: said["dimensions"]["calibration"]["rounds"][0].update(contenders=1)
    ),
    "why they stopped": objects("rounds.json", lambda said: said["dimensions"]["calibration"].update(stopped="done")),
    "calls that were saved": objects("rounds.json", lambda said: said["dimensions"]["calibration"].update(saved=0.99)),
    "a pair told apart twice": objects(
        "rounds.json", lambda said: said["dimensions"]["calibration"].update(told_apart=[["a", "b"], ["a", "b"]])
    ),
    "the seed": objects("rounds.json", lambda said: said.update(seed=1)),
    "the level": objects("rounds.json", lambda said: said.update(level=0.5, interval_level=0.5)),
    "more looks": objects("rounds.json", lambda said: said.update(planned_looks=60)),
    "another goal": objects("rounds.json", lambda said: said.update(until="width:9")),
    "fewer prompts": objects("rounds.json", lambda said: said["dimensions"]["calibration"]["prompts"].pop()),
    "no dimension": objects("rounds.json", lambda said: said["dimensions"].pop("calibration")),
    "rounds taken away": lambda folder: (folder / "rounds.json").unlink(),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_decide_what_their_verdicts_give(rounds: Path, tmp_path: Path, name: str) -> None:
    forged(rounds, tmp_path, rewritten(ROUNDS[name]))


@pytest.mark.parametrize(
    ("goal", "judges"),
    [
        *(("top", 1), ("top", 3), ("order", 3), ("width:300", 1), ("budget:200", 3)),
        *(pytest.param(*one, marks=pytest.mark.soak) for one in (("order", 1), ("width:300", 3), ("budget:200", 1))),
    ],
)
def test_honest_rounds_agree(tmp_path: Path, goal: str, judges: int) -> None:
    copy_material(tmp_path / "demo")
    names = [f"recorded/{name}.jsonl" for name in ("verdicts", "second", "third")[:judges]]
    for name in ("second", "third"):
        shutil.copy(tmp_path / "demo" / "verdicts.jsonl", tmp_path / "demo" / f"{name}.jsonl")
    asked = ("run", "demo/tournament.yaml", "--mode", "headline", "--until", goal, "--n-perms", "20", "--yes")
    panel = [part for name in names for part in ("--judge-model", name)]
    done = within.run(tmp_path, *asked, *panel, "--limit-pairs", "80", "--output-dir", "run")
    assert done.returncode == 0, done.stderr
    checked = verify(str(tmp_path / "run"))
    assert checked.exit_code == 0, checked.output
    assert f"rounds until {goal}" in checked.stdout


@pytest.mark.parametrize("options", [(), ("--no-inline-human",), ("--fixed-anchors",)])
def test_honest_placements_agree(tmp_path: Path, options: tuple[str, ...]) -> None:
    home = Path(shutil.copytree(EXAMPLES / "placement", tmp_path / "p"))
    asked = ("place", "--arena", "arena.jsonl", "--model", "responses_kestrel.jsonl", "--min-opponent-battles", "50")
    more = ("--judge", "recorded/verdicts.jsonl", "--n-battles", "24", "--bootstraps", "10", "--yes", "--out", "placed")
    calibrated = ("--calibrate", "20") if options == ("--no-inline-human",) else ()
    done = within.run(home, *asked, *more, *options, *calibrated)
    assert done.returncode == 0, done.stderr
    checked = verify(str(next((home / "placed").iterdir())))
    assert checked.exit_code == 0, checked.output


@pytest.mark.parametrize("name", PLACEMENTS)
def test_a_placement_is_what_its_verdicts_give(placement: Path, tmp_path: Path, name: str) -> None:
    forged(placement, tmp_path, PLACEMENTS[name])


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_what_its_verdicts_give(run: Path, tmp_path: Path, name: str) -> None:
    forged(run, tmp_path, RUNS[name])


def forged(folder: Path, tmp_path: Path, change: Change) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / folder.name))
    change(copy)
    done = verify(str(copy))
    assert done.exit_code == 3, done.output
    assert "WRONG: " in done.stdout
    assert "does NOT agree" in done.stdout


def test_honest_folders_agree_and_say_whom_to_trust(run: Path, placement: Path) -> None:
    for folder, words in ((run, "n_perms 200"), (placement, "mode calibrated")):
        done = verify(str(folder))
        assert done.exit_code == 0, done.output
        assert "agrees with itself: battles, ratings, counts and report are what these" in done.stdout
        assert words in done.stdout
        assert "of its maker, and not checked:\n" in done.stdout
        assert "usage.json" in done.stdout
        assert "Whoever made the folder could have changed verdicts, texts and people's battles." in done.stdout
        assert verify(str(folder), "--fingerprint", "0" * 64).exception is not None


def test_arrays_with_junk_behind_them_are_not_said_to_be_compared(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / run.name))
    with (copy / "elo_per_perm.npz").open("ab") as file:
        file.write(b"junk")
    done = verify(str(copy))
    assert done.exit_code == 3
    assert "Not compared: elo_per_perm.npz (packed by another program)" in done.stdout


@pytest.mark.parametrize("title", ["A\u202eB", "A" * 9_999, "Birds"])
def test_a_title_of_a_run_is_plain_words(run: Path, tmp_path: Path, title: str) -> None:
    copy = Path(shutil.copytree(run, tmp_path / run.name))
    said = {**json.loads((copy / "manifest.json").read_bytes()), "title": title}
    write_json(copy / "manifest.json", {name: said[name] for name in RunManifest.__struct_fields__ if name in said})
    write_report(copy)
    done = verify(str(copy))
    assert ("WRONG: manifest.json: the title" in done.stdout) == (title != "Birds")
    assert (done.exit_code == 3) == (title != "Birds"), done.output


@pytest.mark.parametrize("name", ["terse", "calibration"])
def test_names_that_look_alike_are_a_problem_though_the_manifest_does_not_list_them(
    run: Path, tmp_path: Path, name: str
) -> None:
    copy, other = tmp_path / "run", {"terse": "careful", "calibration": "factuality"}[name] + "\u200b"
    for file, data in everything(run).items():
        if not file.endswith(".npz"):
            (copy / file.replace(name, other)).parent.mkdir(parents=True, exist_ok=True)
            (copy / file.replace(name, other)).write_bytes(data.replace(name.encode(), other.encode()))
    listed = objects("manifest.json", lambda said: said.update(entrants=["careful"], dimensions=["factuality"]))
    listed(copy)
    done = verify(str(copy))
    assert done.exit_code == 3
    assert f"two names look alike: {other[:-1]!a} and {other!a}" in done.stdout


def test_labels_that_nobody_sees_are_not_said_to_be_compared(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / run.name))
    said = json.loads((copy / "manifest.json").read_bytes())
    said["results"]["calibration"] = {"factuality": {"missing": "people found careful best"}}
    write_json(copy / "manifest.json", said)
    write_report(copy)
    done = verify(str(copy))
    assert done.exit_code == 3
    assert "Not compared: ratings/calibrated/factuality.json" in done.stdout


def test_an_older_folder_agrees_in_part(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    objects("manifest.json", lambda said: said["versions"].update(tiltyard="0.0.9"))(copy)
    text("report.html", "careful", "careful, the best")(copy)
    done = verify(str(copy))
    assert done.exit_code == 3
    assert "agrees in part" in done.stdout
    assert "report.html (written by tiltyard 0.0.9" in done.stdout
    assert verify(str(copy), "--ratings-only").exit_code == 0
    rows("battles.jsonl", turned)(copy)
    assert "WRONG: battles.jsonl" in verify(str(copy), "--ratings-only").stdout


DERIVED = (".html", ".csv", ".txt", "battles.jsonl", "elo_ratings.json", "elo_results.json", "calibration.json")
"""How files end that verdicts give; the others are vouched for, or hold what is."""


NUMBER = re.compile(rb"-?\d+\.\d+(?:e[+-]?\d+)?")


def differs_in_last_digits(one: bytes, other: bytes) -> bool:
    """Whether two files differ in numbers alone, by what processors may differ."""
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=False)
    return NUMBER.split(one) == NUMBER.split(other) and all(
        math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-9) for a, b in pairs
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of", ["run", "placement"])
def test_no_random_edit_of_what_follows_agrees(run: Path, placement: Path, tmp_path: Path, of: str, kind: str) -> None:
    folder = run if of == "run" else placement
    before = everything(folder)
    for number in range(size(2, soak=300)):
        rng = random.Random(f"{kind} {number}")
        name = rng.choice(sorted(before))
        changed = edited(before[name], kind, rng)
        if changed == before[name]:
            continue
        copy = Path(shutil.copytree(folder, tmp_path / str(number) / folder.name))
        (copy / name).write_bytes(changed)
        done = verify(str(copy))
        shutil.rmtree(copy)
        assert done.exit_code in (0, 3) or isinstance(done.exception, TiltyardError), (name, done.exception)
        agrees = done.exit_code == 0 and not differs_in_last_digits(before[name], changed)
        assert not (agrees and name.endswith(DERIVED)), f"{kind} {number}: {name}"


def test_what_a_maker_says_is_printed_with_its_value_and_makes_no_line_of_its_own(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / run.name))
    said = json.loads((copy / "manifest.json").read_bytes())
    said |= {
        "finished_at": None,
        "entrants": [*said["entrants"], "gpt-9"],
        "title": "Mine\nagrees with itself",
        "limit_pairs": 17,
    }
    (copy / "manifest.json").write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    done = verify(str(copy))
    own = done.stdout.partition("of its maker, and not checked:\n")[2].splitlines()
    assert any(line.startswith("  entrants: ") and '"gpt-9"' in line for line in own)
    assert {"  limit_pairs: 17", "  finished_at: null"} <= {*own}
    assert "  title: Mine\\nagrees with itself" in own
    assert "WRONG: manifest.json: the title" in done.stdout


def scored_run(home: Path, says: list[dict[str, Any]], **more: Any) -> Path:
    """A run of scores alone, by a judge that reads from a script."""
    shutil.copytree(EXAMPLES / "tournament", home, ignore=shutil.ignore_patterns("judgments"))
    config = yaml.safe_load((home / "tournament.yaml").read_text("utf-8")) | more
    config["judge"]["task"] = "scores"
    config["rubrics"] = {"calibration": {**config["rubrics"]["calibration"], "scale": "1-10"}}
    (home / "tournament.yaml").write_text(yaml.safe_dump(config), "utf-8")
    (home / "judge.yaml").write_text(yaml.safe_dump({"rules": says}), "utf-8")
    done = within.run(home, "run", "tournament.yaml", "--mode", "headline", "--yes", "--output-dir", "run")
    assert done.returncode == 0, done.stderr
    return home / "run"


def test_scores_agree_as_a_whole_beside_canaries_and_count_their_own_failures(tmp_path: Path) -> None:
    rules = [{"when": ["pencils"], "say": "Both are dear."}, {"say": ["SCORE: 7", "SCORE: 4"]}]
    folder = scored_run(tmp_path / "t", rules, canaries=True)
    canaries = json.loads((folder / "manifest.json").read_bytes())["results"]["canaries"]["calibration scores"]
    assert sum(kind["failed"] for kind in canaries["kinds"]) == 1
    scores = json.loads((folder / "score_results.json").read_bytes())["calibration"]
    assert (scores["failed"], scores["failures"]) == (0, {}), "failures on canaries say nothing of the answers"
    done = verify(str(folder))
    assert done.exit_code == 0, done.output
    assert {"  canaries", "  texts in scores/"} <= {*done.stdout.splitlines()}
    objects("score_results.json", lambda said: said["calibration"].update(failures={"unparsed": 1}))(folder)
    assert "WRONG: score_results.json" in verify(str(folder)).stdout


def test_that_one_order_was_judged_is_said_where_nothing_shows_it(tmp_path: Path) -> None:
    folder = scored_run(tmp_path / "t", [{"say": ["SCORE: 7", "SCORE: 4"]}])
    assert ", orders 2" in verify(str(folder)).stdout
    rewritten(objects("manifest.json", lambda said: said["results"].update(both_orders=False)))(folder)
    assert ", orders 1" in verify(str(folder)).stdout


def test_a_run_that_lacks_the_second_order_of_all_agrees(run: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(run.parent, tmp_path / "t", ignore=shutil.ignore_patterns("run")))
    for path in (home / "judgments").glob("judgments_*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if not json.loads(line)["position_swap"]))
    done = within.run(home, "run", "tournament.yaml", "--mode", "headline", "--skip-judging", "--output-dir", "run")
    assert done.returncode == 0, done.stderr
    assert verify(str(home / "run")).exit_code == 0


def test_a_report_that_was_taken_away_is_not_vouched_for(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / run.name))
    (copy / "report.html").unlink()
    assert "agrees with itself: battles, ratings and counts (no report) are what" in verify(str(copy)).stdout
