"""Addresses on the site."""

from __future__ import annotations

from urllib.parse import quote, urlencode


def model_address(model: str, prompt: str | None = None) -> str:
    """A model's page; with a prompt, at its answer to it."""
    asked = f"?{urlencode({'prompt': prompt})}#answer" if prompt is not None else ""
    return f"/models/{quote(model, safe='')}{asked}"


def compare_address(a: str, b: str, prompt: str | None = None) -> str:
    """Two models compared; with a prompt, at their answers to it."""
    asked = {"a": a, "b": b} | ({} if prompt is None else {"prompt": prompt})
    return f"/compare?{urlencode(asked)}{'' if prompt is None else '#answers'}"


def share_address(model: str) -> str:
    """The picture of a model that is shown where its page is shared."""
    return f"/share/models/{quote(model, safe='')}.png"
