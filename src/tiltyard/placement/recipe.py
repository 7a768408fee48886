"""Everything that a placement's ratings depend on besides its battles and verdicts: `Recipe`, kept in the manifest."""

from __future__ import annotations

import shlex
from typing import Literal

import msgspec

from tiltyard.boards.bradley_terry import BradleyTerry

Mode = Literal["joint", "fixed", "calibrated"]
"""`joint`: judged and human battles in one fit. `fixed`: people's ratings stay, only the new model is fitted.
`calibrated`: as fixed, by the judge's own scale, its doubts about itself included."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How a placement is rated. With the saved battles and verdicts it gives the same ratings again, to the last bit.

    `level` is that of each interval; `overall_level` what all looks of the run together hold (smaller where a run may
    stop on its rank). `bootstraps` 0 means sandwich intervals.
    """

    arena: str
    model: str
    judge_model: str
    mode: Mode = "joint"
    bootstraps: int = 100
    seed: int = 0
    level: float = 0.95
    overall_level: float = 0.95
    anchor: tuple[str, float] | None = None

    def estimator(self) -> BradleyTerry:
        """The estimator of the joint fit: what `tiltyard rate battles.jsonl` does with the same parameters."""
        if self.bootstraps:
            return BradleyTerry(
                ci="bootstrap",
                rounds=self.bootstraps,
                seed=self.seed,
                level=self.level,
                anchor=self.anchor,
                only_connected=True,
                evaluated=self.model,
            )
        return BradleyTerry(
            level=self.level, anchor=self.anchor, only_connected=True, evaluated=self.model, seed=self.seed
        )

    def rate_command(self, battles: str) -> str:
        """The command that gives the ratings of a joint fit again."""
        words = ["tiltyard", "rate", battles, "--evaluated", shlex.quote(self.model), "--only-connected"]
        if self.bootstraps:
            words += ["--ci", "bootstrap", "--rounds", str(self.bootstraps)]
        if self.seed:
            words += ["--seed", str(self.seed)]
        if self.level != 0.95:
            words += ["--level", repr(self.level)]
        if self.anchor is not None:
            words += ["--anchor", shlex.quote(f"{self.anchor[0]}={self.anchor[1]:g}")]
        return " ".join(words)
