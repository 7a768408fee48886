"""Making a judge from its name: `anthropic/…`, `gemini/…`, `ollama/…`, `local/…`, `scripted/FILE`, `recorded/FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tiltyard.errors import OptionError, Refused
from tiltyard.judging.judge import Judge
from tiltyard.judging.language_model import JudgeSettings, LanguageModelJudge
from tiltyard.judging.panel import panel_members
from tiltyard.judging.recorded import RecordedJudge
from tiltyard.llm.asking import AskingParts
from tiltyard.llm.keys import load_env
from tiltyard.llm.provider import Reply, Request, parse_model_name
from tiltyard.llm.providers import make_provider


def judge_by_name(
    settings: JudgeSettings,
    *,
    folder: Path,
    asking: AskingParts,
    base_url: str | None = None,
    look_in: Sequence[Path] = (Path(),),
    silent: bool = False,
) -> Judge:
    """The judge that `settings.model` names: a language model, or a file of recorded verdicts.

    A language model keeps its verdicts and batches in `folder`. Files and `.env` are looked up in the folders of
    `look_in`, in order. A `silent` judge is for runs that ask nothing: it needs neither key nor SDK, and only reads its
    cache. A file of recorded verdicts uses only the name from the settings.
    """
    if panel_members(settings.model):
        raise OptionError(f"{settings.model}: only tournaments are judged by a panel. Name one judge.")
    name = parse_model_name(settings.model)
    if name.provider == "recorded":
        return RecordedJudge(_find(name.model, look_in))
    provider = (
        SilentProvider(name.provider)
        if silent
        else make_provider(
            name,
            base_url=base_url,
            env=load_env(look_in),
            folders=look_in,
            headers=asking.headers,
            timeout_seconds=asking.settings.timeout_seconds,
        )
    )
    known = replace(settings, model=name.model, name=str(name))
    return LanguageModelJudge(provider, known, folder=folder, asking=asking)


class SilentProvider:
    """Stands in for a provider in a run that asks nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def ask(self, request: Request) -> Reply:
        """Always refused."""
        raise Refused(f"{self.name}/{request.model} is not asked anything in this run.")

    async def aclose(self) -> None:
        """Does nothing: there is no connection to close."""


def _find(given: str, look_in: Sequence[Path]) -> Path:
    places = list(dict.fromkeys(folder / given for folder in look_in))
    for place in places:
        if place.exists():
            return place
    raise OptionError(f"recorded/{given}: there is no {' and no '.join(map(str, places))}. Check the path.")
