"""What a user may ask of a placement, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tiltyard.errors import OptionError, OptionValue
from tiltyard.placement.sampling import Sampler
from tiltyard.placement.stopping import Until

Turns = Literal["first", "all"]
Swap = Literal["both", "random"]

LOOKS = 5
"""Default number of rounds: after each, the next opponents are chosen from the results so far, and the run may stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """The settings of one placement, the same as the options of `tiltyard place`."""

    arena: tuple[Path, ...]
    """Human battles with conversations (Parquet, JSONL, CSV); may be given again."""
    model: str
    """The new model: provider/model, or a file of its answers (prompt_id = question_id)."""
    judge: str
    """The judge: anthropic/…, openai/…, gemini/…, ollama/…, local/…, scripted/FILE or recorded/FILE."""
    name: str | None = None
    """The new model's name on the board."""
    n_battles: int = 100
    """Battles to judge at most."""
    bootstraps: int = 1000
    """Bootstrap rounds over prompts; 0 means sandwich intervals."""
    seed: int = 0
    """Seed of sampling, sides and bootstrap."""
    languages: tuple[str, ...] = ()
    """Only battles in these languages, separated by commas (en,fr)."""
    per_language: int | None = None
    """At most N judged battles per language."""
    min_opponent_battles: int = 500
    """Human battles that an opponent must have."""
    rubric: Path | None = None
    """The rubric to judge by."""
    sampling: Sampler = "informative"
    """How opponents and questions are chosen; informative shrinks the interval fastest."""
    panel: Path | None = None
    """Judge exactly the battles of an earlier run's panel.json."""
    until: Until | None = None
    """Stop when the interval is this narrow in points (80), or in places (rank:5)."""
    looks: int = LOOKS
    """Rounds: after each, opponents are chosen again and the run may stop."""
    turns: Turns = "first"
    """The first turn of a conversation, or all of it."""
    swap: Swap = "both"
    """Judge both orders, or one at random."""
    calibrate: int = 0
    """Ask the judge about N battles that people decided, and widen the interval by what it shows."""
    families: Path | None = None
    """Families of the models (CSV model,family or JSON), to check the calibration on families it has not seen."""
    fixed_anchors: bool = False
    """Hold people's ratings fixed; fit only the new model."""
    leave_one_out: bool = False
    """Place a model of the arena by the judge alone, and compare with people."""
    anchor: tuple[str, float] | None = None
    """Pin a model of the arena to a rating."""
    inline_human: bool = True
    """Save human battles one by one; `--no-inline-human` saves counts by pair."""
    prompts: Path | None = None
    """Prompt bank with the texts of the questions, for battles without conversations."""
    answers: Path | None = None
    """Opponents' answers: a response file, or a folder of responses_<model>.jsonl."""
    on_bad: Literal["error", "skip"] = "error"
    """Stop at a bad row of the arena, or skip and count it."""
    map: tuple[tuple[str, str], ...] = ()
    """Columns of the arena's files under other names: ours and theirs."""
    out: Path = Path("placements")
    """Where the folder of the run goes."""
    cache_dir: Path = Path("judgments")
    """Where verdicts and answers are kept between runs."""
    base_url: str | None = None
    """Address of the judge's server, for local/…."""
    model_base_url: str | None = None
    """Address of the new model's server."""
    max_tokens: int = 1024
    """How long an answer of the new model may be."""

    def __post_init__(self) -> None:
        if self.fixed_anchors and self.calibrate:
            raise OptionError(
                "a calibration holds people's ratings fixed already: leave ",
                OptionValue("fixed_anchors", None),
                " out.",
            )
        if self.families is not None and not self.calibrate:
            raise OptionError(
                OptionValue("families", None),
                " check a calibration, and there is none. Add ",
                OptionValue("calibrate", None),
                ", such as 300.",
            )
        if self.panel is not None and self.per_language is not None:
            raise OptionError(
                "a saved panel says which battles are judged: leave ", OptionValue("per_language", None), " out."
            )
        if self.bootstraps == 1:
            raise OptionError("1 bootstrap round says nothing about spread. Take at least 2, better 1000, or 0.")
        if self.anchor is not None and self.anchor[0] == self.name:
            raise OptionError("the new model cannot be the anchor: its rating is what is asked. Pin another model.")

    def record(self) -> dict[str, Any]:
        """The options as written in a manifest: plain values, no addresses."""
        kept: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if name in ("base_url", "model_base_url"):
                continue
            if name == "map":
                kept |= {"map": dict(self.map)} if self.map else {}
                continue
            if isinstance(value, tuple):
                value = [str(part) if isinstance(part, Path) else part for part in value]
            kept[name] = str(value) if isinstance(value, Path) or (name == "until" and value is not None) else value
        return kept
