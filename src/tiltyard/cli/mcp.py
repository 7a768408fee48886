"""`tiltyard mcp`: a Model Context Protocol server, so that agents can rate, compare, gate and plan; and its tools."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec import UNSET, Meta, UnsetType

from tiltyard import __version__
from tiltyard.cli.output import note
from tiltyard.errors import MissingExtra, OptionError, RunFolderError, TiltyardError
from tiltyard.options import (
    BattleOptions,
    BoardOptions,
    CompareOptions,
    GateOptions,
    Option,
    PlanOptions,
    options_of,
)

if TYPE_CHECKING:
    from mcp.server import Server


MOST_ENTRIES = 20_000
"""The most files of a folder that is named: more are not looked through for links that lead out of the root."""


class ToolAnswer(msgspec.Struct, frozen=True):
    """What a tool answers: a short text, and the same as plain values."""

    text: str
    values: dict[str, Any]


class FileRoot(msgspec.Struct, frozen=True):
    """The folder below which files may be read; names are relative to it, or absolute inside it."""

    folder: Path

    @classmethod
    def at(cls, folder: Path) -> FileRoot:
        """The root at an existing folder."""
        if not folder.is_dir():
            raise OptionError(f"--root {folder} is not a folder. Name the folder with your battles and runs.")
        return cls(folder.resolve())

    def file(self, name: str) -> Path:
        """The real path of a file or folder below the root; anything else is refused."""
        if "://" in name or name.startswith(("sqlite:", "postgres")):
            raise OptionError(f"{name} is an address: only files below the root are read. Download or export it first.")
        if "\0" in name or not name.strip():
            raise OptionError("a file name is empty or holds a NUL. Name a file below the root.")
        try:
            real = (self.folder / name).resolve(strict=True)
        except FileNotFoundError:
            if not (self.folder / os.path.normpath(name)).is_relative_to(self.folder) or ".." in Path(name).parts:
                raise self._outside(name) from None
            raise OptionError(f"there is no file or folder {name} below the root. Check the name.") from None
        except (OSError, RuntimeError):
            raise OptionError(f"{name} cannot be opened below the root. Check the name.") from None
        if not real.is_relative_to(self.folder):
            raise self._outside(name)
        if (real / "review.json").exists():
            raise OptionError(f"{name} is a review: export it (`tiltyard review export`), and name the file.")
        if real.is_dir():
            self._refuse_ways_out(real, name)
        elif not real.is_file():
            raise OptionError(f"{name} is neither a file nor a folder.")
        return real

    def files(self, names: list[str]) -> list[str]:
        """The same for several, as readers take them."""
        return [str(self.file(name)) for name in names]

    def shown(self, message: str) -> str:
        """A message with names as an agent knows them: relative to the root, in one line."""
        return " ".join(message.replace(f"{self.folder}{os.sep}", "").replace(str(self.folder), ".").split())

    def _outside(self, name: str) -> OptionError:
        return OptionError(f"{name} is not below the root. Only files below the folder given at start are read.")

    def _refuse_ways_out(self, folder: Path, name: str) -> None:
        """Refuse a folder in which a link leads out of the root."""
        seen = 0
        for home, folders, files in os.walk(folder):
            for entry in (*folders, *files):
                seen += 1
                path = Path(home, entry)
                if path.is_symlink() and not path.resolve().is_relative_to(self.folder):
                    raise OptionError(f"{name} holds a link that leads out of the root: {path.name}. Remove the link.")
            if seen > MOST_ENTRIES:
                raise OptionError(f"{name} holds more than {MOST_ENTRIES:,} files. Name the files themselves.")


SHOWN_MODELS, SHOWN_PROMPTS = 20, 5
Name = Annotated[str, Meta(min_length=1)]
Files = Annotated[list[str], Meta(min_length=1)]
BATTLES = "Battle files (JSONL, CSV, TSV, Parquet, or logs of other tools) or run folders."


class RateArguments(msgspec.Struct, kw_only=True):
    """A leaderboard from battles."""

    battles: Annotated[Files, Meta(description=BATTLES)]
    top: Annotated[int, Meta(ge=1, description="How many models to answer with, best first.")] = SHOWN_MODELS


class TwoArguments(msgspec.Struct, kw_only=True):
    """Two models in the same battles, or two runs."""

    new: Annotated[Name, Meta(description="The new model (with `battles`); else the new run folder or ratings file.")]
    old: Annotated[Name, Meta(description="The model it is compared with; else the old run folder or ratings file.")]


class CompareArguments(TwoArguments, kw_only=True):
    """Two models in the same battles, or two runs."""

    prompts: Annotated[int, Meta(ge=0, description="How many prompts to list of each kind.")] = SHOWN_PROMPTS


class PlanArguments(msgspec.Struct, kw_only=True):
    """How much data a difference takes."""

    new: Annotated[Name | None, Meta(description="The new model, in these battles.")] = None
    old: Annotated[Name | None, Meta(description="The model it is compared with.")] = None


class JudgeCheckArguments(msgspec.Struct, kw_only=True):
    """A judge's verdicts, made before, against people."""

    pairs: Annotated[
        Name, Meta(description="Labelled pairs (JSONL): prompt, response_a, response_b, and label or votes.")
    ]
    verdicts: Annotated[
        Name,
        Meta(description="The judge's verdicts (JSONL or CSV): prompt_id, entrant_a, entrant_b, verdict, both orders."),
    ]
    single_order: Annotated[bool, Meta(description="The verdicts are of one order only.")] = False


class RunStatusArguments(msgspec.Struct, kw_only=True):
    """A run or placement, finished or not."""

    folder: Annotated[Name, Meta(description="The folder of a run or a placement.")]
    judgments: Annotated[
        str | None, Meta(description="The folder of its verdict cache, for batches that are still open.")
    ] = None


def rate_tool(_root: FileRoot, asked: RateArguments, given: dict[str, Any]) -> ToolAnswer:
    """A leaderboard."""
    from tiltyard.boards import Leaderboard, RatingsFile
    from tiltyard.boards.text import as_table, headline
    from tiltyard.decisions import ScoreBoard
    from tiltyard.verbs.rate import rate

    files = given.pop("battles")
    board = rate(files, **given)
    if not isinstance(board, Leaderboard):
        means = [board] if isinstance(board, ScoreBoard) else list(board.metrics.values())
        text = "\n\n".join(str(replace(one, entries=one.entries[: asked.top])) for one in means)
        return ToolAnswer(text, {"metrics": [one.to_dict() for one in means]})
    shown = replace(board, entries=board.entries[: asked.top])
    more = len(board) - len(shown)
    lines = [headline(board), *as_table(shown, strip=False).splitlines()[1:]]
    lines += [f"{more} more models are not shown (top={asked.top})"] if more else []
    return ToolAnswer("\n".join(lines), {**RatingsFile.of(shown).to_dict(), "n_models": len(board)})


def compare_tool(root: FileRoot, asked: CompareArguments, given: dict[str, Any]) -> ToolAnswer:
    """The difference of two models or runs."""
    from tiltyard.verbs.compare import compare

    answer = compare(*_two(root, asked, given), **given)
    text = answer.sentence if asked.prompts == 0 else answer.render("table", asked.prompts)
    return ToolAnswer(text, _fewer_prompts(answer.to_dict(), asked.prompts))


def gate_tool(root: FileRoot, asked: TwoArguments, given: dict[str, Any]) -> ToolAnswer:
    """The verdict of a gate."""
    from tiltyard.verbs.gate import gate

    result = gate(*_two(root, asked, given), **given)
    return ToolAnswer(result.render(), _fewer_prompts(result.to_dict(), SHOWN_PROMPTS))


def plan_tool(_root: FileRoot, asked: PlanArguments, given: dict[str, Any]) -> ToolAnswer:
    """How much data it takes."""
    from tiltyard.verbs.plan import plan

    if "battles" not in given and (asked.new or asked.old):
        raise OptionError("new and old need `battles`: name the files of a pilot.")
    answer = plan(asked.new, asked.old, **given)
    return ToolAnswer(answer.render(), answer.to_dict())


def judge_check_tool(root: FileRoot, asked: JudgeCheckArguments, _given: dict[str, Any]) -> ToolAnswer:
    """How well recorded verdicts agree with people."""
    from tiltyard.verbs.judge_check import judge_check

    recorded = f"recorded/{root.file(asked.verdicts)}"
    answer = judge_check(root.file(asked.pairs), judge_model=[recorded], single_order=asked.single_order)
    return ToolAnswer(str(answer), answer.to_dict())


def run_status_tool(root: FileRoot, asked: RunStatusArguments, _given: dict[str, Any]) -> ToolAnswer:
    """What a run or placement is, and how far it is."""
    from tiltyard.judging.run_folder import read_object
    from tiltyard.llm.journal import list_batches

    folder = root.file(asked.folder)
    if not (folder / "manifest.json").is_file():
        raise RunFolderError(f"{asked.folder} has no manifest.json: not the folder of a run or a placement.")
    manifest = read_object(folder / "manifest.json")
    finished = manifest.get("finished_at") is not None
    kind = "placement" if manifest.get("kind") == "placement" else "run"
    values: dict[str, Any] = {
        "kind": kind,
        "finished": finished,
        **{
            name: manifest[name]
            for name in ("mode", "judge_model", "model", "entrants", "dimensions", "pairs", "started_at", "finished_at")
            if name in manifest
        },
        "results": _few_results(manifest),
        "files": sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())[:40],
    }
    if (folder / "usage.json").is_file():
        total = read_object(folder / "usage.json").get("total") or {}
        values["cost_usd"] = total.get("cost_usd")
    if asked.judgments is not None:
        batches = list_batches(root.file(asked.judgments))
        states = [batch.state for batch in batches]
        values["batches"] = {state: states.count(state) for state in ("open", "collected", "abandoned")}
        values["open_requests"] = sum(batch.requests for batch in batches if batch.state == "open")
    return ToolAnswer("\n".join(_status_lines(asked.folder, values)), values)


def _few_results(manifest: dict[str, Any]) -> dict[str, Any]:
    """What a manifest says about results, without lists of questions."""
    result = manifest.get("results")
    if not isinstance(result, dict):
        return {name: manifest[name] for name in ("judged", "stopped") if name in manifest}
    rows = result.get("dimensions") or {}
    short = {
        name: {key: value for key, value in row.items() if key != "failed_questions"} for name, row in rows.items()
    }
    return {"dimensions": short, **({"gate": result["gate"]} if "gate" in result else {})}


def _status_lines(name: str, values: dict[str, Any]) -> list[str]:
    state = f"finished at {values['finished_at']}" if values["finished"] else "not finished"
    lines = [f"{name}: a {values['kind']} judged by {values.get('judge_model')}, {state}"]
    results = values["results"]
    for dimension, row in results.get("dimensions", {}).items():
        failed = sum(row.get("failed_verdicts", {}).values()) + row.get("missing_verdicts", 0)
        lines.append(
            f"{dimension}: {row.get('judgments')} judgments, {row.get('decisive')} decisive, "
            f"{row.get('inconsistent')} changed with the order, {failed} verdicts failed or missing"
        )
    lines += [
        f"{'passed' if check['passed'] else 'FAILED'}: {check['check']} ({check['detail']})"
        for check in results.get("gate", ())
    ]
    if "stopped" in results:
        judged = results.get("judged", {})
        lines.append(f"{judged.get('battles')} battles judged, {judged.get('failed')} failed; {results['stopped']}")
    if values.get("cost_usd") is not None:
        lines.append(f"asking cost ${values['cost_usd']:.2f}")
    if "batches" in values:
        lines.append(f"{values['batches']['open']} batches are open, with {values['open_requests']} requests")
    elif not values["finished"]:
        lines.append("the same `tiltyard` command continues it; name its `judgments` folder to see open batches")
    return lines


def _two(root: FileRoot, asked: TwoArguments, given: dict[str, Any]) -> list[str]:
    """Two models of the same battles; else the paths of two runs, two files of scores, or two ratings files."""
    if "battles" in given:
        return [asked.new, asked.old]
    try:
        return root.files([asked.new, asked.old])
    except OptionError as error:
        raise OptionError(f"{error} To compare two models, say in `battles` where they met.") from None


def _fewer_prompts(values: dict[str, Any], n: int) -> dict[str, Any]:
    """A comparison with only the prompts that changed most, in both directions: an agent pays for every word."""
    short = dict(values)
    if isinstance(short.get("comparison"), dict):
        short["comparison"] = _fewer_prompts(short["comparison"], n)
    if isinstance(short.get("metrics"), dict):
        short["metrics"] = {name: _fewer_prompts(one, n) for name, one in short["metrics"].items()}
    if isinstance(short.get("changes"), list):
        short["changes"] = [_fewer_prompts(change, n) for change in short["changes"]]
    if isinstance(short.get("prompts"), list):
        ranked = sorted(short["prompts"], key=lambda row: (row.get("change") is None, row.get("change") or 0.0))
        short["prompts"] = ranked if len(ranked) <= 2 * n else [*ranked[:n], *ranked[len(ranked) - n :]]
    return short


def _offered(struct: type, *names: str) -> dict[str, Option]:
    """Options of battles without `where`, which could read any file, and others by name."""
    known = options_of(struct)
    return {name: known[name] for name in (*options_of(BattleOptions), *names) if name != "where"}


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool: its name, what it is for, what it may be told, and what it does."""

    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    work: Callable[[FileRoot, Any, dict[str, Any]], ToolAnswer]
    options: dict[str, Option] = msgspec.field(default_factory=dict)

    def takes(self) -> type[msgspec.Struct]:
        """The arguments, with the library's options beside them."""
        more = []
        for option in self.options.values():
            kind, text = (Files, BATTLES) if option.name == "battles" else (option.type, option.help.text)
            more.append((option.name, Annotated[kind | UnsetType, Meta(description=text + option.notes)], UNSET))
        name = self.arguments.__name__
        return msgspec.defstruct(name, more, bases=(self.arguments,), kw_only=True, forbid_unknown_fields=True)

    def schema(self) -> dict[str, Any]:
        """What the tool may be told, as JSON Schema."""
        (_, parts) = msgspec.json.schema_components([self.takes()])
        schema = dict(parts[self.arguments.__name__])
        return {name: value for name, value in schema.items() if name not in ("title", "description")}

    def answer(self, root: FileRoot, arguments: dict[str, Any]) -> ToolAnswer:
        """The answer; every known failure is a `TiltyardError` of one line."""
        try:
            asked = msgspec.convert(arguments, self.takes())
        except msgspec.ValidationError as error:
            raise OptionError(f"{self.name}: {error}.") from None
        values = {name: getattr(asked, name, None) for name in (*self.options, "battles")}
        given = {name: value for name, value in values.items() if value is not UNSET and value is not None}
        try:
            if "battles" in given:
                given["battles"] = root.files(given["battles"])
            return self.work(root, asked, given)
        except TiltyardError as error:
            raise OptionError(root.shown(str(error))) from None
        except OSError as error:
            named = error.filename if isinstance(error.filename, str) else "a file"
            raise OptionError(root.shown(f"cannot read {named}: {error.strerror}.")) from None
        except (MemoryError, RecursionError):
            raise OptionError("this needs more memory than there is. Name fewer battles at once.") from None


OF_TWO = ("battles", "anyway", "picked_from", "score", "bounds", "cluster", "slot")
TOOLS = {
    spec.name: spec
    for spec in (
        ToolSpec(
            "rate",
            "Rate models",
            "A leaderboard with intervals and rank ranges from files of pairwise battles; of scores, a board of means. "
            "Models whose rank ranges overlap cannot be told apart.",
            RateArguments,
            rate_tool,
            _offered(
                BoardOptions,
                *("method", "ties", "control", "cluster", "level", "only_connected", "score", "bounds", "missing"),
            ),
        ),
        ToolSpec(
            "compare",
            "Compare two models or runs",
            "Is the new one better than the old one, by how much (rating points, interval), how sure, and on which "
            "prompts. Two models: give `battles`. Two run folders or ratings files: give their paths as new and old.",
            CompareArguments,
            compare_tool,
            _offered(CompareOptions, *OF_TWO, "level"),
        ),
        ToolSpec(
            "gate",
            "Gate a change",
            "May the new one replace the old one: `better`, `not_worse` (within the margin), `worse`, or `unknown` "
            "(more prompts are needed). Report `unknown` as such, never as a pass.",
            TwoArguments,
            gate_tool,
            _offered(GateOptions, *OF_TWO, "margin", "alpha", "by", "pool_dimensions"),
        ),
        ToolSpec(
            "plan",
            "Plan how many prompts",
            "How many prompts, verdicts or votes it takes to tell models apart: from assumptions, or from the battles "
            "of a pilot.",
            PlanArguments,
            plan_tool,
            _offered(
                PlanOptions,
                *("battles", "cluster", "slot", "top", "differences", "margin", "power", "alpha", "people"),
            ),
        ),
        ToolSpec(
            "judge_check",
            "Check a judge against people",
            "How well a judge's recorded verdicts agree with people's labels on the same pairs: accuracy in both "
            "orders, agreement, kappa, and how often the order or the length decides. Asks no model.",
            JudgeCheckArguments,
            judge_check_tool,
        ),
        ToolSpec(
            "run_status",
            "Look at a run",
            "What a folder of `tiltyard run` or `tiltyard place` holds: whether it is finished, judgments, failures, "
            "cost, the pilot's go or no-go, and batches that are still open.",
            RunStatusArguments,
            run_status_tool,
        ),
    )
}
"""Every tool by name."""


INSTRUCTIONS = """\
Tiltyard answers which model is better, and how sure that is, from pairwise battles (two models, one prompt, a winner).
File names are relative to the folder that the server was started with; nothing outside of it is read, and no model is
asked. Differences are in rating points (400 points: 10 to 1). Always pass on the interval with a number, and say so
when two models cannot be told apart: `compare` and `gate` answer in one sentence that can be quoted."""


def mcp_command(
    root: Annotated[
        Path, typer.Option("--root", metavar="DIR", help="Only files below this folder are read.")
    ] = Path(),
) -> None:
    """Serve rate, compare, gate, plan, judge check and run status to agents, by the Model Context Protocol over stdio.

    It reads files below --root, and asks no model. An agent starts it: see `docs/how-to/use-with-agents.md`.
    """
    if find_spec("mcp") is None:
        raise MissingExtra("tiltyard mcp", "mcp")
    files = FileRoot.at(root)
    if sys.stdin.isatty():
        note(f"tiltyard mcp: waiting for an agent on standard input; files below {files.folder}")
    import anyio

    anyio.run(_serve, files)


async def _serve(root: FileRoot) -> None:
    from mcp.server.stdio import stdio_server

    server = make_server(root)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def make_server(root: FileRoot) -> Server[Any]:
    """The server over the files of one folder; one tool at a time works, so that answers do not share memory."""
    import anyio
    import mcp_types as types
    from mcp.server import Server

    one_at_a_time = anyio.CapacityLimiter(1)

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(name) for name in TOOLS])

    async def call_tool(_context: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        def work() -> ToolAnswer:
            if asked.name not in TOOLS:
                raise TiltyardError(f"there is no tool {asked.name!r}. There are {', '.join(TOOLS)}.")
            return TOOLS[asked.name].answer(root, asked.arguments or {})

        try:
            answer = await anyio.to_thread.run_sync(work, limiter=one_at_a_time)
        except TiltyardError as error:
            return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)
        return types.CallToolResult(
            content=[types.TextContent(text=answer.text)], structured_content=answer.values, is_error=False
        )

    def _described(name: str) -> types.Tool:
        spec = TOOLS[name]
        return types.Tool(
            name=name,
            title=spec.title,
            description=spec.description,
            input_schema=spec.schema(),
            annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        )

    return Server(
        "tiltyard",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
