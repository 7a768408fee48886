"""One small file per provider, and `make_provider`, which imports only the one it needs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from tiltyard.errors import MissingExtra, OptionError
from tiltyard.llm.keys import fill_in_headers, find_key, load_env
from tiltyard.llm.presets import PRESETS
from tiltyard.llm.provider import TIMEOUT_SECONDS
from tiltyard.llm.providers import in_process
from tiltyard.llm.providers.scripted import read_script

if TYPE_CHECKING:
    from tiltyard.llm.provider import ModelName, Provider
    from tiltyard.llm.providers.http import MakerProvider

__all__ = ["make_provider"]

_CLASSES = {"anthropic": "AnthropicProvider", "openai": "OpenAIProvider", "gemini": "GeminiProvider"}
"""The makers, each with the class in its module."""


def make_provider(
    name: ModelName,
    *,
    base_url: str | None = None,
    env: Mapping[str, str] | None = None,
    folders: Sequence[Path] = (Path(),),
    guided_choice: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Provider:
    """The provider for a model name, ready to be asked; a `BatchProvider` if it also takes batches.

    Keys and addresses come from `env`, by default the environment and the `.env` of each of the `folders`, which are
    also searched for scripts.

    Parameters:
        name: The model's name, parsed.
        base_url: The server's address; wins over `ANTHROPIC_BASE_URL`, `OPENAI_BASE_URL`, `GEMINI_BASE_URL` and
            the variables in `PRESETS`. Without any address, `local/smollm2-135m` is a model in this process.
        env: Where keys and addresses are looked up; None is the environment and the `.env` files.
        folders: Where `.env` files and scripts are searched for.
        guided_choice: See `CompatibleProvider`.
        headers: Further headers of every request, for a gateway; a value may name variables of `env`: `${NAME}`.
        timeout_seconds: How long one request may take in all.
    """
    if name.provider == "scripted":
        tried = [folder / name.model for folder in folders]
        for path in tried:
            if path.is_file():
                return read_script(path)
        raise OptionError(f"There is no script at {' or '.join(str(path) for path in tried)}.")
    if name.provider not in (*_CLASSES, *PRESETS):
        askable = ", ".join(f"{one}/…" for one in (*_CLASSES, *PRESETS))
        raise OptionError(f"{name} is not a model that can be asked. Give {askable} or scripted/….")
    variables = load_env(folders) if env is None else env
    limits = _Limits(headers=fill_in_headers(headers or {}, variables), timeout_seconds=timeout_seconds)
    try:
        if name.provider in PRESETS:
            return _compatible(name, base_url, variables, guided_choice, limits)
        if guided_choice is not None:
            raise OptionError(f"guided_choice is for local/… models, not for {name}. Leave it out.")
        module = importlib.import_module(f"{__name__}.{name.provider}")
    except ImportError as error:
        if (error.name or "").startswith("tiltyard"):
            raise
        raise MissingExtra(f"Asking {name}", "gemini" if name.provider == "gemini" else "judge") from None
    maker: type[MakerProvider] = getattr(module, _CLASSES[name.provider])
    variable = next((one for one in maker.key_variables if variables.get(one, "").strip()), maker.key_variables[0])
    key = find_key(variable, variables, needed_for=str(name))
    address = next(filter(None, (variables.get(one) for one in maker.address_variables)), None)
    provider: Any = maker(api_key=key, base_url=base_url or address, **limits)
    return cast("Provider", provider)


class _Limits(TypedDict):
    """What every provider on the network takes besides its key and address."""

    headers: Mapping[str, str]
    timeout_seconds: float


def _compatible(
    name: ModelName, base_url: str | None, env: Mapping[str, str], guided_choice: str | None, limits: _Limits
) -> Provider:
    preset = PRESETS[name.provider]
    address = base_url or env.get(preset.address_variable) or preset.base_url
    if not address and name.provider == "local" and name.model in in_process.PACKAGES:
        return in_process.InProcessProvider(name.model, guided_choice=guided_choice)
    if not address:
        how = f"set {preset.address_variable} in the environment or in .env, or give a base_url."
        if preset.name == "local":
            how = (
                "give a base_url such as http://localhost:8000/v1. (Only "
                f"local/{' and local/'.join(in_process.PACKAGES)} runs without one, in this process.)"
            )
        raise OptionError(f"{name} needs the address of its server: {how}")
    from tiltyard.llm.providers import openai

    key = env.get(preset.key_variable, "").strip() or None
    if preset.needs_key:
        key = find_key(preset.key_variable, env, needed_for=str(name))
    version = env.get(preset.version_variable) if preset.version_variable else None
    return openai.CompatibleProvider(
        base_url=address, api_key=key, guided_choice=guided_choice, preset=preset, version=version, **limits
    )
