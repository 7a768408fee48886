"""What a user may ask of a placement, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from tiltyard.placement.sampling import Sampler
    from tiltyard.placement.stopping import Until

Turns = Literal["first", "all"]
Swap = Literal["both", "random"]

LOOKS = 5
"""Rounds by default: after each, the next opponents are chosen by what is known, and the run may stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """Everything about one placement. See `tiltyard place --help`, whose options these are."""

    arena: tuple[Path, ...]
    model: str
    judge: str
    name: str | None = None
    n_battles: int = 100
    bootstraps: int = 100
    seed: int = 0
    languages: tuple[str, ...] = ()
    per_language: int | None = None
    min_opponent_battles: int = 500
    rubric: Path | None = None
    sampling: Sampler = "informative"
    panel: Path | None = None
    until: Until | None = None
    looks: int = LOOKS
    turns: Turns = "first"
    swap: Swap = "both"
    calibrate: int = 0
    fixed_anchors: bool = False
    leave_one_out: bool = False
    anchor: tuple[str, float] | None = None
    inline_human: bool = True
    prompts: Path | None = None
    answers: Path | None = None
    on_bad: Literal["error", "skip"] = "error"
    out: Path = Path("placements")
    cache_dir: Path = Path("judgments")
    base_url: str | None = None
    model_base_url: str | None = None
    max_tokens: int = 1024

    def __post_init__(self) -> None:
        if self.fixed_anchors and self.calibrate:
            raise OptionError("--calibrate holds people's ratings fixed already: leave --fixed-anchors out.")
        if self.panel is not None and self.per_language is not None:
            raise OptionError("a saved panel says which battles are judged: leave --per-language out.")
        if self.bootstraps == 1:
            raise OptionError("--bootstraps 1 says nothing about spread. Take at least 2, better 1000, or 0 for none.")
        if self.anchor is not None and self.anchor[0] == self.name:
            raise OptionError("the new model cannot be the anchor: its rating is what is asked. Pin another model.")

    def record(self) -> dict[str, Any]:
        """The options as they stand in a manifest: plain values, no address."""
        kept = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if name in ("base_url", "model_base_url"):
                continue
            if isinstance(value, tuple):
                value = [str(part) if isinstance(part, Path) else part for part in value]
            kept[name] = str(value) if isinstance(value, Path) or (name == "until" and value is not None) else value
        return kept
