"""An arena's policy as a file of settings: read, written, and what changed in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from tiltyard.arena import Policy as Policy
from tiltyard.arena import read_policy
from tiltyard.errors import OptionError


def read_policy_file(path: Path | None) -> Policy:
    """The policy of a file over the defaults; without a file, the defaults."""
    if path is None:
        return Policy()
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise OptionError(f"cannot read the policy {path}: {str(error).splitlines()[0]}.") from None
    if not isinstance(values, dict):
        raise OptionError(f"{path}: a policy is a list of settings and values, as --print-policy shows them.")
    return read_policy(values)


def policy_text(policy: Policy) -> str:
    """Every setting of a policy, as a file of them is written."""
    return str(yaml.safe_dump(msgspec.to_builtins(policy), sort_keys=False)).rstrip()


def changed_text(before: Policy, now: Policy) -> str:
    """The settings in which a policy differs from the one before it; empty if there are none."""
    old = msgspec.to_builtins(before)
    changed: dict[str, Any] = {}
    for name, value in msgspec.to_builtins(now).items():
        if isinstance(value, dict):
            value = {inner: setting for inner, setting in value.items() if setting != old[name].get(inner)}
        if value != old[name] and value != {}:
            changed[name] = value
    return str(yaml.safe_dump(changed, sort_keys=False)).rstrip() if changed else ""
