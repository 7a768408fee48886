"""The options of `tiltyard place`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tiltyard.cli.output import Format

ArenaOption = Annotated[
    list[Path] | None,
    typer.Option(help="Human battles with conversations (Parquet, JSONL, CSV); may be given again.", metavar="FILE"),
]
ModelOption = Annotated[
    str | None,
    typer.Option(help="The new model: provider/model, or a file of its answers (prompt_id = question_id)."),
]
JudgeOption = Annotated[
    list[str] | None,
    typer.Option(help="The judge: anthropic/…, openai/…, gemini/…, ollama/…, local/…, scripted/FILE or recorded/FILE."),
]
NameOption = Annotated[str | None, typer.Option(help="The new model's name on the board. (default: as --model says)")]
NBattlesOption = Annotated[int, typer.Option(min=1, help="Battles to judge at most.")]
BootstrapsOption = Annotated[
    int, typer.Option(min=0, help="Bootstrap rounds over prompts; 0 means sandwich intervals.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of sampling, sides and bootstrap.")]
LanguagesOption = Annotated[
    str | None, typer.Option(help="Only battles in these languages, separated by commas (en,fr).")
]
PerLanguageOption = Annotated[int | None, typer.Option(min=1, help="At most N judged battles per language.")]
MinOpponentBattlesOption = Annotated[int, typer.Option(min=1, help="Human battles that an opponent must have.")]
RubricOption = Annotated[Path | None, typer.Option(help="The rubric to judge by. (default: a general one)")]
SamplingOption = Annotated[
    Literal["informative", "random", "head"],
    typer.Option(help="How opponents and questions are chosen; informative shrinks the interval fastest."),
]
PanelOption = Annotated[Path | None, typer.Option(help="Judge exactly the battles of an earlier run's panel.json.")]
UntilOption = Annotated[
    str | None,
    typer.Option(metavar="WIDTH", help="Stop when the interval is this narrow in points (80), or in places (rank:5)."),
]
LooksOption = Annotated[
    int, typer.Option(min=1, help="Rounds: after each, opponents are chosen again and the run may stop.")
]
TurnsOption = Annotated[Literal["first", "all"], typer.Option(help="The first turn of a conversation, or all of it.")]
SwapOption = Annotated[Literal["both", "random"], typer.Option(help="Judge both orders, or one at random.")]
CalibrateOption = Annotated[
    int,
    typer.Option(
        min=0, help="Ask the judge about N battles that people decided, and widen the interval by what it shows."
    ),
]
FamiliesOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Families of the models (CSV model,family or JSON): checks the calibration on each as if it were unseen. "
        "(default: the maker in names like maker/model)",
    ),
]
FixedAnchorsOption = Annotated[
    bool, typer.Option("--fixed-anchors", help="Hold people's ratings fixed; fit only the new model.")
]
LeaveOneOutOption = Annotated[
    bool,
    typer.Option("--leave-one-out", help="Place a model of the arena by the judge alone, and compare with people."),
]
AnchorOption = Annotated[str | None, typer.Option(metavar="MODEL=RATING", help="Pin a model of the arena to a rating.")]
NoInlineHumanOption = Annotated[
    bool, typer.Option("--no-inline-human", help="Save human battles as counts by pair, not one by one.")
]
PromptsOption = Annotated[
    Path | None,
    typer.Option(help="Prompt bank with the texts of the questions, for battles without conversations."),
]
AnswersOption = Annotated[
    Path | None, typer.Option(help="Opponents' answers: a response file, or a folder of responses_<model>.jsonl.")
]
OnBadOption = Annotated[
    Literal["error", "skip"], typer.Option(help="Stop at a bad row of the arena, or skip and count it.")
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="OURS=THEIRS",
        help="A column of the arena under another name (winner=choice, prompt=question, conversation_a=left); may be "
        "given again.",
    ),
]
BatchOption = Annotated[
    bool, typer.Option("--batch", help="Ask in batches at half price, however few the questions are.")
]
OutOption = Annotated[Path, typer.Option(help="Where the folder of the run goes.")]
CacheDirOption = Annotated[Path, typer.Option(help="Where verdicts and answers are kept between runs.")]
BaseUrlOption = Annotated[str | None, typer.Option(help="Address of the judge's server, for local/….")]
ModelBaseUrlOption = Annotated[
    str | None, typer.Option(help="Address of the new model's server. (default: for local/…, --base-url)")
]
MaxTokensOption = Annotated[int, typer.Option(min=1, help="How long an answer of the new model may be.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Go ahead without asking.")]
BudgetOption = Annotated[float | None, typer.Option(min=0, help="Stop before this many USD are spent.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be asked and what it would cost; ask nothing.")
]
FormatOption = Annotated[
    Format, typer.Option(help="How the board is printed; json is the contents of elo_ratings.json.")
]
RecomputeOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Rate a saved run again from its files, and compare.")
]
