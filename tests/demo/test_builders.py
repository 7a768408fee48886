"""The builders of the demo: the same bytes at every call, better with more skill, and an arena that serves them."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from tests.demo.test_demo import demo
from tests.sizes import size
from tiltyard.demo.builders import BUILDERS, PROMPTS, answers, build, voxel_file


@pytest.mark.parametrize("kind", ["voxel", "svg", "html"])
def test_every_builder_answers_every_prompt_with_the_same_small_file_each_time(kind: str) -> None:
    everything = len(BUILDERS) * len(PROMPTS)
    few = size(2 * len(PROMPTS), soak=everything) if kind == "html" else everything  # a drawing, as in an svg file
    made = list(islice(answers(kind), few))  # type: ignore[arg-type]
    again = size(len(PROMPTS), soak=len(made))  # the first builder's, who forgets blocks
    assert made[:again] == list(islice(answers(kind), again))  # type: ignore[arg-type]
    assert len({content for _, _, content in made}) == few
    assert max(len(content) for _, _, content in made) < 400_000


def test_more_skill_uses_more_materials_and_blocks() -> None:
    for prompt_id in PROMPTS:
        made = [build(prompt_id, skill).blocks for skill in (0, 2, 4)]
        assert len(set(made[0].values())) <= len(set(made[1].values())) < len(set(made[2].values()))
        assert len(made[0]) < len(made[2])


def test_a_voxel_file_names_only_colors_of_its_palette() -> None:
    for prompt_id in PROMPTS:
        file = json.loads(voxel_file(build(prompt_id, 4)))
        assert all(0 <= color < len(file["palette"]) for *_, color in file["blocks"])


def test_the_demo_of_a_kind_is_an_arena_and_a_second_call_keeps_it(tmp_path: Path) -> None:
    from tiltyard.arena.service import Arena

    ended = demo(tmp_path, "--kind", "voxel")
    assert ended.returncode == 0, ended.stderr
    assert "6 prompts can be voted on" in ended.stderr
    with Arena.open(f"sqlite:///{tmp_path / 'tiltyard-demo-voxel' / 'arena.db'}") as arena:
        assert arena.serve(arena.voter("0" * 64)).kind == "voxel"
    again = demo(tmp_path, "--kind", "voxel")
    assert "the existing arena is kept" in again.stderr
    assert again.stdout == ended.stdout
    refused = demo(tmp_path, "--kind", "svg", "--out", ".")
    assert "holds other things" in refused.stderr
    assert demo(tmp_path, "--kind", "svg", "--live").returncode != 0
