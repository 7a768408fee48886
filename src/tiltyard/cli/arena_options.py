"""What the commands of `tiltyard arena` share: options, the policy file, and the required extra."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from tiltyard.arena.policy import Policy

DbOption = Annotated[
    str,
    typer.Option(
        "--db", metavar="URL", envvar="TILTYARD_DB", help="sqlite:///path or postgresql://user@host/database."
    ),
]
DEFAULT_DB = "sqlite:///arena.db"
PolicyOption = Annotated[
    Path | None, typer.Option("--policy", help="Settings that differ from the defaults (YAML or JSON).")
]
OutOption = Annotated[Path | None, typer.Option("--out", help="Write to this file instead of the screen.")]


def read_policy_file(path: Path | None) -> Policy:
    """The policy of a file over the defaults; without a file, the defaults."""
    from tiltyard.arena.policy import Policy, read_policy

    if path is None:
        return Policy()
    import yaml

    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise OptionError(f"cannot read the policy {path}: {str(error).splitlines()[0]}.") from None
    if not isinstance(values, dict):
        raise OptionError(f"{path}: a policy is a list of settings and values, as --print-policy shows them.")
    return read_policy(values)


def read_text_file(path: Path) -> str:
    """The text of a file, as UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read {path}: {error}. Name a text file in UTF-8.") from None


def policy_text(policy: Policy) -> str:
    """Every setting of a policy, as a file of them is written."""
    import msgspec
    import yaml

    return str(yaml.safe_dump(msgspec.to_builtins(policy), sort_keys=False)).rstrip()


def changed_text(before: Policy, now: Policy) -> str:
    """The settings in which a policy differs from the one before it; empty if there are none."""
    import msgspec
    import yaml

    old = msgspec.to_builtins(before)
    changed: dict[str, Any] = {}
    for name, value in msgspec.to_builtins(now).items():
        if isinstance(value, dict):
            value = {inner: setting for inner, setting in value.items() if setting != old[name].get(inner)}
        if value != old[name] and value != {}:
            changed[name] = value
    return str(yaml.safe_dump(changed, sort_keys=False)).rstrip() if changed else ""


def need_arena() -> None:
    """Raise a one-line error if the extra is not installed."""
    from importlib.util import find_spec

    from tiltyard.errors import MissingExtra

    if find_spec("psycopg") is None or find_spec("uvicorn") is None:
        raise MissingExtra("the live arena", "arena")


def shown_url(url: str) -> str:
    """A URL without its password."""
    from tiltyard.arena.store.database import checked_url, without_secrets

    return without_secrets(checked_url(url))
