"""A verb is one thing: the command and the function take the same, answer the same and refuse the same."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import typer

import tiltyard as ty
from tests.cli.conftest import ROOT, Run
from tests.judge.tournament.folder import make_folder, script
from tiltyard.cli.main import make_app
from tiltyard.cli.output import as_flag
from tiltyard.errors import OptionError, TiltyardError
from tiltyard.options import ProgressListener
from tiltyard.verbs import battles

VERBS: dict[str, Callable[..., Any]] = {
    **{name: getattr(ty, name) for name in ("rate", "compare", "gate", "plan", "publish", "verify", "generate", "run")},
    "place": ty.place,
    "report": ty.report,
    "init": ty.init,
    "judge check": ty.judge_check,
    "judge rejudge": ty.rejudge,
    "battles check": battles.check,
    "battles stats": battles.stats,
}
TODAY, LAST_WEEK = (str(ROOT / f"examples/versions/{name}.jsonl") for name in ("today", "last-week"))
BIRDS = str(ROOT / "examples/birds.jsonl")
OUTPUT = {
    "rate": {"--format", "--out", "--plot", "--to"},
    "compare": {"--format", "--out", "--to", "--prompts"},
    "gate": {"--format", "--markdown", "--junit", "--json", "--to", "--allow-unknown"},
    "plan": {"--format", "--out"},
    "publish": set(),
    "verify": {"--format", "--ratings-only"},
    "generate": {"--config", "--yes"},
    "run": {"--config", "--yes", "--to"},
    "report": set(),
    "init": set(),
    "place": {"--format", "--recompute", "--yes"},
    "judge check": {"--format", "--yes"},
    "judge rejudge": {"--yes"},
    "battles check": set(),
    "battles stats": {"--format"},
}
FLAGS = {
    "budget_usd": "--budget",
    "labels_path": "--calibrate",
    "battles": "--in",
    "differences": "--difference",
    "format": "--from",
}
HANDED_IN = {"notify", "confirm", "progress"}
IN_MEMORY = {"compare": {"texts"}, "gate": {"texts"}, "publish": {"pictures"}, "run": {"judge"}, "init": {"choose"}}
IN_MEMORY["battles check"] = {"on_bad"}  # every bad row is counted


@pytest.mark.parametrize("verb", VERBS)
def test_the_options_are_the_same_but_for_output_and_data_in_memory(verb: str) -> None:
    command: Any = typer.main.get_command(make_app())
    for word in verb.split():
        command = command.commands[word]
    flags = {one.opts[0] for one in command.params if one.param_type_name == "option"}
    given = inspect.signature(VERBS[verb]).parameters.values()
    named = {one.name for one in given if one.kind is one.KEYWORD_ONLY} - {*HANDED_IN, *IN_MEMORY.get(verb, ())}
    assert flags - OUTPUT[verb] == {FLAGS.get(name, f"--{name.replace('_', '-')}") for name in named}
    assert all(f"    {name}: " in str(VERBS[verb].__doc__) for name in named)


@pytest.fixture
def scores(tmp_path: Path) -> list[str]:
    rng, files = random.Random(1), []
    for name, share in (("v2", 0.8), ("v1", 0.6)):
        rows = "".join(f"q{i},d{i // 3},{int(rng.random() < share)}\n" for i in range(120))
        (tmp_path / f"{name}.csv").write_text(f"id,document,score\n{rows}", encoding="utf-8")
        files.append(str(tmp_path / f"{name}.csv"))
    return files


ANSWERED: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    f"rate {BIRDS}": ("rate", ([BIRDS],), {}),
    f"rate {BIRDS} --by category --pool": ("rate", ([BIRDS],), {"by": "category", "pool": True}),
    "rate SCORES --cluster document": ("rate", ("SCORES",), {"cluster": "document"}),
    f"compare v2 v1 --in {TODAY}": ("compare", ("v2", "v1"), {"battles": TODAY}),
    f"compare {TODAY} {LAST_WEEK}": ("compare", (TODAY, LAST_WEEK), {}),
    "compare SCORES --cluster document": ("compare", ("*SCORES",), {"cluster": "document"}),
    f"gate v2 v1 --in {TODAY} --by category": ("gate", ("v2", "v1"), {"battles": [TODAY], "by": "category"}),
    "gate SCORES --cluster document --margin 2pp": ("gate", ("*SCORES",), {"cluster": "document", "margin": "2pp"}),
    "plan --difference 20 --people": ("plan", (), {"differences": [20], "people": True}),
    f"plan v2 v1 --in {TODAY} --power 0.9": ("plan", ("v2", "v1"), {"battles": TODAY, "power": 0.9}),
    f"plan --in {BIRDS} --top 2": ("plan", (), {"battles": BIRDS, "top": 2}),
    "plan SCORES --difference 2pp": ("plan", ("*SCORES",), {"differences": ["2pp"]}),
}


@pytest.mark.parametrize("words", ANSWERED)
def test_the_command_prints_the_answer_of_the_function(tiltyard: Run, scores: list[str], words: str) -> None:
    verb, first, options = ANSWERED[words]
    arguments = scores if first == ("*SCORES",) else [scores if one == "SCORES" else one for one in first]
    answer = VERBS[verb](*arguments, **options)
    typed = [part for word in words.split() for part in (scores if word == "SCORES" else [word])]
    assert tiltyard(*typed, "--format", "json").stdout == answer.to_json()
    assert tiltyard(*typed, "--format", "md").stdout == answer.render("md").rstrip("\n") + "\n"
    assert tiltyard(*typed).stdout == str(answer).rstrip("\n") + "\n"


REFUSED: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "rate nowhere.jsonl": ("rate", (["nowhere.jsonl"],), {}),
    f"rate {BIRDS} --pool": ("rate", ([BIRDS],), {"pool": True}),
    f"rate {BIRDS} --as-battles": ("rate", ([BIRDS],), {"as_battles": True}),
    f"rate {BIRDS} --missing ignore": ("rate", ([BIRDS],), {"missing": "ignore"}),
    "rate SCORES --method elo": ("rate", ("SCORES",), {"method": "elo"}),
    "compare v2 v1": ("compare", ("v2", "v1"), {}),
    f"compare v2 v1 --in {TODAY} --anyway": ("compare", ("v2", "v1"), {"battles": TODAY, "anyway": True}),
    f"compare {TODAY} {LAST_WEEK} --control len": ("compare", (TODAY, LAST_WEEK), {"control": ["len"]}),
    "compare SCORES --ties half": ("compare", ("*SCORES",), {"ties": "half"}),
    f"gate {TODAY} {LAST_WEEK}": ("gate", (TODAY, LAST_WEEK), {}),
    f"gate v2 v1 --in {TODAY} --margin x": ("gate", ("v2", "v1"), {"battles": TODAY, "margin": "x"}),
    f"gate v2 v1 --in {TODAY} --model v2": ("gate", ("v2", "v1"), {"battles": TODAY, "model": "v2"}),
    "plan v2 v1": ("plan", ("v2", "v1"), {}),
    "plan --cluster voter": ("plan", (), {"cluster": "voter"}),
    "plan --people --judge gpt-5-mini": ("plan", (), {"people": True, "judge": "gpt-5-mini"}),
    f"plan --in {BIRDS} --top 2 --difference 5": ("plan", (), {"battles": BIRDS, "top": 2, "differences": [5]}),
    "plan SCORES --top 2": ("plan", ("*SCORES",), {"top": 2}),
    "verify nowhere": ("verify", ("nowhere",), {}),
    f"verify {BIRDS}": ("verify", (BIRDS,), {}),
    "verify nowhere --fingerprint x": ("verify", ("nowhere",), {"fingerprint": "x"}),
    f"verify {BIRDS} --besides CNAME": ("verify", (BIRDS,), {"besides": ["CNAME"]}),
    "run nowhere.yaml --mode pilot": ("run", ("nowhere.yaml",), {"mode": "pilot"}),
    "generate nowhere.yaml": ("generate", ("nowhere.yaml",), {}),
    "report nowhere": ("report", ("nowhere",), {}),
    "init made": ("init", ("made",), {}),
    f"init made --answers {BIRDS} --arena --judge gpt-5": (
        "init",
        ("made",),
        {"answers": [BIRDS], "arena": True, "judge": "gpt-5"},
    ),
    "place --arena nowhere --model gpt-5 --judge gpt-5": (
        "place",
        (),
        {"arena": [Path("nowhere")], "model": "gpt-5", "judge": "gpt-5"},
    ),
    "judge check nowhere --judge-model gpt-5": ("judge check", ("nowhere",), {"judge_model": ["gpt-5"]}),
    "judge rejudge nowhere --judge-model gpt-5": ("judge rejudge", ("nowhere",), {"judge_model": "gpt-5"}),
    f"publish {BIRDS} site --url javascript:x": ("publish", (BIRDS, "site"), {"url": "javascript:x"}),
    f"publish {BIRDS} site --anchor nobody=1000": ("publish", (BIRDS, "site"), {"anchor": ("nobody", 1000.0)}),
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_refusal_names_flags_there_and_parameters_here(tiltyard: Run, scores: list[str], words: str) -> None:
    verb, first, options = REFUSED[words]
    arguments = scores if first == ("*SCORES",) else [scores if one == "SCORES" else one for one in first]
    with pytest.raises(TiltyardError) as refused:
        VERBS[verb](*arguments, **options)
    typed = [part for word in words.split() for part in (scores if word == "SCORES" else [word])]
    done = tiltyard(*typed)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tiltyard: {refused.value.spelled(as_flag)}\n"
    assert "--" not in str(refused.value)


def test_counts_of_battles_are_those_of_the_function(tiltyard: Run) -> None:
    assert tiltyard("battles", "stats", BIRDS, "--format", "json").stdout == battles.stats(BIRDS).to_json()
    assert tiltyard("battles", "stats", BIRDS).stdout == f"{battles.stats(BIRDS)}\n"
    assert tiltyard("battles", "check", BIRDS).stdout == f"{battles.check(BIRDS).message}\n"
    with pytest.raises(OptionError, match="on_bad"):
        battles.check(BIRDS, on_bad="skip")


def test_rate_by_takes_the_options_of_rate() -> None:
    boards = ty.rate_by(BIRDS, "category", method="elo", k=8)
    assert boards.to_dict() == ty.rate(BIRDS, by="category", method="elo", k=8).to_dict()
    with pytest.raises(OptionError, match="as_battles"):
        ty.rate_by(BIRDS, "category", as_battles=True)


def test_two_frames_of_scores_and_two_boards_are_compared_too() -> None:
    rows = {name: [{"id": i, "score": (i * 7) % 10 < n} for i in range(60)] for name, n in (("new", 8), ("old", 5))}
    found = ty.compare(rows["new"], rows["old"])
    assert (found.new, found.old, round(found.difference, 2)) == ("new", "old", 0.3)
    board = ty.rate(BIRDS)
    assert ty.compare(board, board).to_dict()["notes"][0].startswith("two boards alone")
    assert ty.compare("v2", "v1", battles=TODAY).render("html").startswith("<!doctype html>")


def test_what_an_arena_or_a_review_says_is_handed_out(tmp_path: Path) -> None:
    heard: list[str] = []
    ty.plan(judge="nobody/model", notify=heard.append)
    assert len(heard) == 1
    assert "nobody/model" in heard[0]


def test_a_function_prints_nothing_and_its_answer_is_what_the_command_prints(
    tiltyard: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    published, verified = ty.publish(TODAY, site), ty.verify(site)
    assert capsys.readouterr() == ("", "")
    assert tiltyard("publish", TODAY, str(site)).stdout == f"{published}\n"
    assert tiltyard("verify", str(site)).stdout == f"{verified}\n"
    assert tiltyard("verify", str(site), "--format", "json").stdout == f"{verified.to_json()}\n"


def test_who_is_asked_may_refuse_and_who_listens_hears_of_every_verdict(tmp_path: Path) -> None:
    script(tmp_path / "judge.yaml")
    config, folder = make_folder(tmp_path, judge="scripted/judge.yaml"), tmp_path / "run"
    asked: list[str] = []

    def refuse(question: str) -> None:
        asked.append(question)
        raise KeyError

    with pytest.raises(KeyError):
        ty.run(config, output_dir=folder, confirm=refuse)
    assert asked == ["Ask scripted/judge.yaml 42 questions?"]
    assert not folder.exists()

    class Listener(ProgressListener):
        heard: ClassVar[list[Any]] = []

        def begin(self, folder: Path) -> None:
            self.heard.append(folder)

        def verdict(self, matchup: Any, verdict: Any) -> None:
            self.heard.append(verdict)

    done = ty.run(config, output_dir=folder, confirm=asked.append, progress=Listener())
    assert (asked[0], done.folder, Listener.heard[0]) == (asked[1], folder, folder)
    assert len(Listener.heard) == 1 + 42
    assert str(ty.run(config, output_dir=folder)) == str(done)
    assert ty.run(config, output_dir=folder, dry_run=True).queries == 0
