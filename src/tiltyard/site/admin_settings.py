"""The administrator's settings: phase, blindness, limits, and the whole policy in groups, each setting explained.

What a setting means is read from the policy's own source, where it stands below each field: pages and manual agree.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tiltyard.arena import PHASES, Limits, Policy, TextsPublic
from tiltyard.arena import events as e
from tiltyard.errors import OptionError
from tiltyard.site import admin_views
from tiltyard.site.admin import HOME, admin_page, append, desk, followed, posted, redirect
from tiltyard.site.bodies import choice_of
from tiltyard.site.reports import written
from tiltyard.site.site import site_of

UNITS = {
    "_per_minute": "a minute",
    "_per_hour": "an hour",
    "_per_day": "a day",
    "_seconds": "seconds",
    "_minutes": "minutes",
    "_hours": "hours",
    "_days": "days",
    "_votes": "votes",
    "_decisive": "decisive votes",
    "_matchups": "matchups",
    "_prompts": "prompts",
    "_places": "places",
    "_bytes": "bytes",
    "_characters": "characters",
    "deviation": "points",
    "deviation_min": "points",
    "deviation_max": "points",
    "rating": "points",
    "_baseline": "points",
}
"""Units by how the name of a setting ends."""

SECTION = re.compile(r"\s*\((§[^()]*|[^()]*ours)\)\s*$")
"""Where the policy's text says it, at the end of an explanation."""

OTHERS = "matching"
"""The group of the settings that are in no group of the policy."""


class SettingLine(msgspec.Struct, frozen=True):
    """One setting: its name, its value with a unit, what it means, and whether it differs from the default."""

    name: str
    value: str
    unit: str
    meaning: str
    source: str
    """The section of the policy's text, or `ours`."""
    changed: bool


class SettingGroup(msgspec.Struct, frozen=True):
    """Settings that belong together."""

    name: str
    about: str
    lines: tuple[SettingLine, ...]


@cache
def explanations(kind: type[msgspec.Struct]) -> Mapping[str, str]:
    """What each field of a part of the policy means; what the part is about under an empty name."""
    (node,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(node, ast.ClassDef)
    result = {"": " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())}
    for field, text in pairwise(node.body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            result[field.target.id] = " ".join(str(text.value.value).split())
    return result


def policy_groups(policy: Policy) -> list[SettingGroup]:
    """Every setting in the group it has in the policy; those without one first."""
    groups, single = [], []
    for field in msgspec.structs.fields(Policy):
        value, usual = getattr(policy, field.name), getattr(Policy(), field.name)
        if field.name == "limits":
            continue  # they have a form of their own
        if not isinstance(value, msgspec.Struct):
            single.append(_line(field.name, value, usual, explanations(Policy).get(field.name, "")))
            continue
        help_of = explanations(type(value))
        lines = tuple(
            _line(f"{field.name}.{name}", getattr(value, name), getattr(usual, name), help_of.get(name, ""))
            for name in value.__struct_fields__
        )
        groups.append(SettingGroup(field.name.replace("_", " "), help_of[""], lines))
    return [SettingGroup(OTHERS, "Who is served with whom, and what pages show.", tuple(single)), *groups]


def _line(name: str, value: object, usual: object, meaning: str) -> SettingLine:
    source = SECTION.search(meaning)
    text, unit = written(msgspec.to_builtins(value)), unit_of(name, value)
    return SettingLine(name, text, unit, SECTION.sub("", meaning), source[1] if source else "", value != usual)


def unit_of(name: str, value: object) -> str:
    """What a number counts, by its setting's name; empty if it says so itself."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "")


LIMIT_GROUPS = {
    "session_": ("One visitor", "A session: one browser with its cookie."),
    "address_": ("One address", "Everybody who comes from one address, such as an office or a class."),
    "": ("Networks and the rest", "The wider networks around an address, and limits for everybody."),
}
"""Limits by how their names begin; the last group has all others."""


def limit_groups(limits: Limits) -> list[tuple[str, str, list[tuple[str, int, str, str]]]]:
    """The limits by whom they bind: title, explanation, and each with its value, unit and meaning."""
    help_of, values = explanations(type(limits)), msgspec.structs.asdict(limits)
    groups: dict[str, list[tuple[str, int, str, str]]] = {who: [] for who in LIMIT_GROUPS}
    for name, value in values.items():
        who = next(who for who in LIMIT_GROUPS if name.startswith(who))
        groups[who].append((name, value, unit_of(name, value), SECTION.sub("", help_of.get(name, ""))))
    return [(*LIMIT_GROUPS[who], lines) for who, lines in groups.items() if lines]


async def settings_page(request: Request) -> Response:
    """Phase, limits and the whole policy."""
    site = site_of(request)
    policy, phase = await site.engine.read(lambda state: (state.policy, state.phase))
    context = {
        "phase": phase,
        "texts_public": policy.texts_public,
        "limits": limit_groups(policy.limits),
        "enforced": site.settings.rate_limit,
        "groups": policy_groups(policy),
    }
    return admin_page(request, "settings", context)


async def change_phase(request: Request) -> Response:
    """Move the arena to another phase."""
    form = await posted(request)
    phase = form.get("phase", "")
    if phase not in map(str, PHASES):
        raise OptionError(f"there is no phase {phase[:20]!r}; the phases are 1 to {PHASES[-1]}.")
    await append(request, [e.PhaseChanged(phase=int(phase))])
    await followed(request)
    return redirect(f"{HOME}/settings", "phase")


async def change_limits(request: Request) -> Response:
    """Change the rate limits; the rest of the policy stays."""
    form = await posted(request)
    return await _change_policy(request, "limits", limits=admin_views.limits_from(form))


async def change_texts_public(request: Request) -> Response:
    """Change when answers are public; the rest of the policy stays."""
    form = await posted(request)
    return await _change_policy(request, "texts", texts_public=choice_of(form, "texts_public", *get_args(TextsPublic)))


async def _change_policy(request: Request, done: str, **changes: Any) -> Response:
    policy = await site_of(request).engine.read(lambda state: state.policy)
    await append(request, [e.SettingsChanged(policy=msgspec.structs.replace(policy, **changes))])
    await followed(request)
    return redirect(f"{HOME}/settings", done)


ROUTES = [
    *desk("/settings", "settings", settings_page),
    *desk("/settings/phase", "settings", change=change_phase),
    *desk("/settings/limits", "settings", change=change_limits),
    *desk("/settings/texts", "settings", change=change_texts_public),
]
