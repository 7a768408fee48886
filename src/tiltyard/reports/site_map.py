"""The layout of a report: one page for ordinary runs, sibling files for the battles of a large one."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import cached_property

import msgspec

from tiltyard.reports.run import JudgedBattle, Run, grouped

MAIN = "report.html"
ONE_PAGE = 4_000
"""Judgments up to which a run is one self-contained page: about 15 MB, which a browser opens in a second or two."""

BATTLES_PER_FILE = 400
"""Judgments in one sibling file, rounded up to whole prompts."""


class SiteMap:
    """The pages of one run: how things are numbered, and which view is in which file.

    Anchors are numbers (`b12` a battle, `p3` a prompt, `m0-1-2` a pair and `e0-1` an entrant in dimension 0), so no
    name of an entrant or prompt can break one.
    """

    def __init__(self, run: Run, one_page: int = ONE_PAGE) -> None:
        self.run = run
        self.split = len(run.battles) > one_page
        self.entrants: Mapping[str, int] = {name: i for i, name in enumerate(run.entrants)}
        self.dimensions: Mapping[str, int] = {dimension.name: i for i, dimension in enumerate(run.dimensions)}
        self.prompts: Mapping[str, int] = {name: i for i, name in enumerate(run.prompts)}

    def pair_key(self, dimension: str, a: str, b: str) -> tuple[int, int, int]:
        """The numbers of a pair in a dimension, entrants in the order of the config."""
        first, second = sorted((self.entrants[a], self.entrants[b]))
        return (self.dimensions[dimension], first, second)

    @cached_property
    def by_pair(self) -> Mapping[tuple[int, int, int], list[JudgedBattle]]:
        groups = grouped(self.run.battles, lambda battle: self.pair_key(battle.dimension, *battle.entrants))
        return dict(sorted(groups.items()))

    @cached_property
    def by_prompt(self) -> Mapping[str, list[JudgedBattle]]:
        groups = grouped(self.run.battles, lambda battle: battle.prompt_id)
        return {name: groups.get(name, []) for name in self.run.prompts}

    @cached_property
    def neighbours(self) -> Mapping[int, tuple[JudgedBattle | None, JudgedBattle | None]]:
        """By the number of a judgment, those before and after it in the list of its pair."""
        return {
            battle.number: (before, after)
            for some in self.by_pair.values()
            for before, battle, after in zip([None, *some], some, [*some[1:], None], strict=False)
        }

    @cached_property
    def prompt_files(self) -> Mapping[str, str]:
        files: dict[str, str] = {}
        number = room = 0
        for prompt, battles in self.by_prompt.items():
            if room <= 0:
                number, room = number + 1, BATTLES_PER_FILE
            files[prompt] = f"report/prompts-{number:03d}.html" if self.split else MAIN
            room -= len(battles)
        return files

    def pair_file(self, key: tuple[int, int, int]) -> str:
        return f"report/pair-{key[0]}-{key[1]}-{key[2]}.html" if self.split else MAIN


class Here(msgspec.Struct, frozen=True):
    """One page of a report while it is written: makes links from there to anything."""

    site_map: SiteMap
    file: str = MAIN

    @property
    def run(self) -> Run:
        return self.site_map.run

    def to(self, file: str, anchor: str) -> str:
        if file == self.file:
            return f"#{anchor}"
        return f"{posixpath.relpath(file, posixpath.dirname(self.file) or '.')}#{anchor}"

    def section(self, anchor: str) -> str:
        return self.to(MAIN, anchor)

    def entrant(self, dimension: str, name: str) -> str:
        return self.section(f"e{self.site_map.dimensions[dimension]}-{self.site_map.entrants[name]}")

    def pair(self, dimension: str, a: str, b: str) -> str:
        key = self.site_map.pair_key(dimension, a, b)
        return self.to(self.site_map.pair_file(key), "m{}-{}-{}".format(*key))

    def prompt(self, prompt_id: str) -> str:
        return self.to(self.site_map.prompt_files[prompt_id], f"p{self.site_map.prompts[prompt_id]}")

    def battle(self, battle: JudgedBattle) -> str:
        return self.to(self.site_map.prompt_files[battle.prompt_id], f"b{battle.number}")
