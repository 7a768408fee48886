"""The galleries of the demo: small shipped files, and an arena that serves them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.demo.test_demo import demo
from tiltyard.verbs.demo.steps import gallery


@pytest.mark.parametrize("kind", ["voxel", "svg", "html"])
def test_every_builder_answers_every_prompt_with_a_small_file_of_its_own(kind: str) -> None:
    shipped = dict(gallery(kind))  # type: ignore[arg-type]
    named = [
        f"responses/{json.loads(line)['file']}"
        for name, content in shipped.items()
        if name.startswith("responses/responses_")
        for line in content.splitlines()
    ]
    assert sorted(named) == sorted(name for name in shipped if name.startswith("responses/files/"))
    assert len({shipped[name] for name in named}) == 5 * len(shipped["bank.jsonl"].splitlines()) == 30
    assert max(map(len, shipped.values())) < 400_000
    assert [*shipped][-1] == "bank.jsonl"  # a folder without it was not finished


def test_the_demo_of_a_kind_is_an_arena_and_a_second_call_keeps_it(tmp_path: Path) -> None:
    from tiltyard.arena import Arena

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
