"""`tiltyard mcp`: a Model Context Protocol server, so that agents can rate, compare, gate and plan."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import __version__
from tiltyard.cli.mcp_tools import TOOLS, FileRoot, ToolAnswer
from tiltyard.cli.output import note
from tiltyard.errors import MissingExtra, TiltyardError

if TYPE_CHECKING:
    from mcp.server import Server

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
