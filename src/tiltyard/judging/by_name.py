"""The judge that a name means: `anthropic/…`, `openai/…`, `local/…`, `scripted/FILE` or `recorded/FILE`."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tiltyard.errors import OptionError, Refused
from tiltyard.judging.language_model import AskingParts, JudgeSettings, LanguageModelJudge
from tiltyard.judging.reading import MIN_CHOICE_MASS
from tiltyard.judging.recorded import RecordedJudge
from tiltyard.llm.keys import load_env
from tiltyard.llm.provider import parse_model_name
from tiltyard.llm.providers import make_provider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from typing import Any

    from tiltyard.judging.judge import Judge
    from tiltyard.judging.language_model import Orders
    from tiltyard.judging.questions import ReplyForm
    from tiltyard.llm.records import Reply, Request


def judge_by_name(
    judge_model: str,
    *,
    folder: Path,
    asking: AskingParts,
    base_url: str | None = None,
    max_tokens: int = 1024,
    max_attempts: int = 3,
    options: Mapping[str, Any] | None = None,
    reply: ReplyForm = "reasoned",
    orders: Orders = "both",
    min_choice_mass: float = MIN_CHOICE_MASS,
    silent: bool = False,
    look_in: Sequence[Path] = (Path(),),
) -> Judge:
    """A language model whose verdicts and batches are kept in `folder`, or a file of recorded verdicts.

    Files and `.env` are looked for in the folders of `look_in`, in order. A `silent` judge is for runs that ask
    nothing: it needs neither key nor SDK, and knows what its cache holds. `orders` is for language models: a file has
    the orders that were recorded.
    """
    name = parse_model_name(judge_model)
    if name.provider == "recorded":
        return RecordedJudge(_find(name.model, look_in))
    provider = (
        _Silent(name.provider)
        if silent
        else make_provider(name, base_url=base_url, env=load_env(look_in), folders=look_in)
    )
    settings = JudgeSettings(
        model=name.model,
        name=str(name),
        max_tokens=max_tokens,
        max_attempts=max_attempts,
        options=options or {},
        reply=reply,
        orders=orders,
        min_choice_mass=min_choice_mass,
    )
    return LanguageModelJudge(provider, settings, folder=folder, asking=asking)


class _Silent:
    """Stands in for a provider that nothing will be asked of."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def ask(self, request: Request) -> Reply:
        """Never."""
        raise Refused(f"{self.name}/{request.model} is not to be asked in this run.")

    async def aclose(self) -> None:
        """Nothing to let go of."""


def _find(given: str, look_in: Sequence[Path]) -> Path:
    places = list(dict.fromkeys(folder / given for folder in look_in))
    for place in places:
        if place.exists():
            return place
    raise OptionError(f"recorded/{given}: there is no {' and no '.join(map(str, places))}. Check the path.")


@asynccontextmanager
async def closing_judge(judge: Judge) -> AsyncIterator[Judge]:
    """The judge while it is needed; its connections are closed afterwards, whatever happens."""
    try:
        yield judge
    finally:
        if isinstance(judge, LanguageModelJudge):
            await judge.aclose()
