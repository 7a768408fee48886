"""One small file per provider, and `make_provider`, which imports only the one it needs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tiltyard.errors import MissingExtra, OptionError
from tiltyard.judge.llm.keys import fill_in_headers, find_key, load_env
from tiltyard.judge.llm.presets import PRESETS
from tiltyard.judge.llm.provider import TIMEOUT_SECONDS, registered
from tiltyard.judge.llm.providers import in_process
from tiltyard.judge.llm.providers.scripted import read_script

if TYPE_CHECKING:
    from tiltyard.judge.llm.provider import ModelName, Provider
    from tiltyard.judge.llm.providers.http import MakerProvider

__all__ = ["ProviderHook", "ProviderSettings", "make_provider"]

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
    variables = load_env(folders) if env is None and name.provider != "scripted" else env or {}
    settings = ProviderSettings(
        base_url=base_url,
        env=variables,
        folders=tuple(folders),
        guided_choice=guided_choice,
        headers=fill_in_headers(headers or {}, variables),
        timeout_seconds=timeout_seconds,
    )
    try:
        return _hook(name)(name, settings)
    except ImportError as error:
        if (error.name or "").startswith("tiltyard") or name.provider not in _HOOKS:
            raise
        raise MissingExtra(f"Asking {name}", "gemini" if name.provider == "gemini" else "judge") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """Where a provider finds its server, and how it is asked."""

    base_url: str | None
    env: Mapping[str, str] = field(repr=False)
    folders: tuple[Path, ...]
    guided_choice: str | None
    headers: Mapping[str, str] = field(repr=False)
    timeout_seconds: float


ProviderHook = Callable[["ModelName", ProviderSettings], "Provider"]
"""Makes the provider of a model. Another package registers one as an entry point of the group `tiltyard.providers`;
`tiltyard.judge.llm.providers.contract` checks what it makes."""


def _hook(name: ModelName) -> ProviderHook:
    """What makes the provider of a model: built in, or registered by another package."""
    if name.provider in _HOOKS:
        return _HOOKS[name.provider]
    plug_in = registered().get(name.provider)
    if plug_in is None:
        askable = ", ".join(f"{one}/…" for one in (*_CLASSES, *PRESETS))
        raise OptionError(f"{name} is not a model that can be asked. Give {askable} or scripted/….")
    try:
        hook: ProviderHook = plug_in.load()
    except Exception as error:
        raise OptionError(
            f"{name}: the provider that {plug_in.value} registers cannot be loaded: {type(error).__name__}: {error}."
        ) from None
    return hook


def _scripted(name: ModelName, settings: ProviderSettings) -> Provider:
    tried = [folder / name.model for folder in settings.folders]
    for path in tried:
        if path.is_file():
            return read_script(path)
    raise OptionError(f"There is no script at {' or '.join(str(path) for path in tried)}.")


def _maker(name: ModelName, settings: ProviderSettings) -> Provider:
    if settings.guided_choice is not None:
        raise OptionError(f"guided_choice is for local/… models, not for {name}. Leave it out.")
    variables = settings.env
    maker: type[MakerProvider] = getattr(
        importlib.import_module(f"{__name__}.{name.provider}"), _CLASSES[name.provider]
    )
    variable = next((one for one in maker.key_variables if variables.get(one, "").strip()), maker.key_variables[0])
    key = find_key(variable, variables, needed_for=str(name))
    address = next(filter(None, (variables.get(one) for one in maker.address_variables)), None)
    provider: Any = maker(
        api_key=key,
        base_url=settings.base_url or address,
        headers=settings.headers,
        timeout_seconds=settings.timeout_seconds,
    )
    return cast("Provider", provider)


def _compatible(name: ModelName, settings: ProviderSettings) -> Provider:
    preset, env = PRESETS[name.provider], settings.env
    address = settings.base_url or env.get(preset.address_variable) or preset.base_url
    if not address and name.provider == "local" and name.model in in_process.PACKAGES:
        return in_process.InProcessProvider(name.model, guided_choice=settings.guided_choice)
    if not address:
        how = f"set {preset.address_variable} in the environment or in .env, or give a base_url."
        if preset.name == "local":
            how = (
                "give a base_url such as http://localhost:8000/v1. (Only "
                f"local/{' and local/'.join(in_process.PACKAGES)} runs without one, in this process.)"
            )
        raise OptionError(f"{name} needs the address of its server: {how}")
    from tiltyard.judge.llm.providers import openai

    key = env.get(preset.key_variable, "").strip() or None
    if preset.needs_key:
        key = find_key(preset.key_variable, env, needed_for=str(name))
    version = env.get(preset.version_variable) if preset.version_variable else None
    return openai.CompatibleProvider(
        base_url=address,
        api_key=key,
        guided_choice=settings.guided_choice,
        preset=preset,
        version=version,
        headers=settings.headers,
        timeout_seconds=settings.timeout_seconds,
    )


_HOOKS: dict[str, ProviderHook] = {
    "scripted": _scripted,
    **dict.fromkeys(_CLASSES, _maker),
    **dict.fromkeys(PRESETS, _compatible),
}
"""What makes each provider that is built in."""
