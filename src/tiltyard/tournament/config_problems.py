"""What is wrong with a tournament file, in sentences that name the setting and say what to do."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from tiltyard.errors import ConfigError, OptionError
from tiltyard.judging.reply_forms import check_form
from tiltyard.ratings.elo import K_MAX
from tiltyard.tournament.round_settings import wrong_rounds

if TYPE_CHECKING:
    from tiltyard.tournament.config import EloSettings, Entrant, JudgeSection, Mode, PromptSettings

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of an HTTP header."""
N_PERMS_MAX = 1_000_000
"""The most shuffles of permutation Elo: with that many, the shuffle error is a thousandth of a rating's spread."""


class Problems(list[str]):
    """What is wrong with a file, collected."""

    def refuse(self, path: Path) -> None:
        """Raise everything that was found as one error: one problem on its line, several as a list."""
        if len(self) == 1:
            raise ConfigError(f"{path}: {self[0]}")
        if self:
            raise ConfigError(f"{path}: {len(self)} settings are missing or wrong. Correct them:", self)


def wrong_values(value: Any, kind: Any, name: str, required: bool) -> Iterator[str]:
    """A sentence for every setting below `name` that is missing or of the wrong kind."""
    if value is msgspec.UNSET:
        if required:
            yield f"{name} is missing."
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if not isinstance(value, Mapping):
            yield f"{name} is {_shown(value)}: expected a mapping with {', '.join(kind.__struct_fields__[:3])}."
            return
        kinds = get_type_hints(kind, include_extras=True)
        for key in value if kind.__struct_config__.forbid_unknown_fields else ():
            if key not in kinds:
                yield f"{name}.{key} means nothing here; there are {', '.join(kind.__struct_fields__)}."
        for field in msgspec.structs.fields(kind):
            given = value.get(field.name, msgspec.UNSET)
            yield from wrong_values(given, kinds[field.name], f"{name}.{field.name}", field.required)
    elif get_origin(kind) is tuple and _holds_structs(kind) and isinstance(value, list):
        for place, item in enumerate(value):
            yield from wrong_values(item, get_args(kind)[0], f"{name}[{place}]", True)
    elif get_origin(kind) is dict and _holds_structs(kind) and isinstance(value, Mapping):
        for key, item in value.items():
            yield from wrong_values(item, get_args(kind)[1], f"{name}.{key}", True)
    else:
        try:
            msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as error:
            allowed = _choices(kind)
            what = f"expected {' or '.join(allowed)}" if allowed else _in_words(str(error))
            # Values of headers may be secrets.
            yield f"{name}: {what}." if name.endswith(".headers") else f"{name} is {_shown(value)}: {what}."


def _choices(kind: Any) -> list[str]:
    """The words that a setting allows; none if it is not a choice of words."""
    if get_origin(kind) is Literal:
        return [str(word) for word in get_args(kind)]
    return [word for part in get_args(kind) for word in _choices(part)] if get_origin(kind) is UnionType else []


def _holds_structs(kind: Any) -> bool:
    return any(isinstance(part, type) and issubclass(part, msgspec.Struct) for part in get_args(kind))


def _shown(value: Any) -> str:
    text = "empty" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _in_words(message: str) -> str:
    """A message of the decoder in the terms of the file."""
    words = {"object": "mapping", "array": "list", "str": "text", "int": "whole number", "float": "number"}
    for name, word in words.items():
        message = message.replace(f"`{name}`", f"`{word}`").replace(f"`{name} |", f"`{word} |")
    message = message.replace(" | null`", "`")
    return message[:1].lower() + message[1:].replace("`$.", "`").replace("`$[...]`", "a value of it")


def check_values(sections: Mapping[str, Any], problems: Problems, mode: Mode | None) -> None:
    """What the values of well-formed sections may not be. Checked before anything is asked: judging costs money."""
    entrants, rubrics = sections.get("entrants"), sections.get("rubrics")
    ids = [entrant.entrant_id for entrant in entrants or ()]
    if entrants is not None and len(ids) < 2:
        problems.append(f"a tournament needs two entrants or more, the file has {len(ids)}.")
    for name in sorted({name for name in ids if ids.count(name) > 1}):
        problems.append(f"entrant_id {name!r} is listed twice. Ids must differ.")
    if rubrics is not None and not rubrics:
        problems.append("no rubric is given. Add one dimension under `rubrics`.")
    for name in dict.fromkeys((*ids, *(rubrics or ()))):
        if not name or name.startswith(".") or any(letter in name for letter in "/\\\0"):
            problems.append(f"{name!r} cannot be part of a file name. Use letters, digits, - and _.")
    if entrants is not None and "opponents" in sections:
        problems += _wrong_baseline(sections["opponents"].baseline, ids)
    checks: dict[str, Callable[[Any], Iterator[str]]] = {
        "elo": _wrong_elo,
        "prompts": _wrong_pilot,
        "judge": _wrong_panel,
        "entrants": _wrong_entrant_headers,
        "rounds": wrong_rounds,
    }
    for section, wrong in checks.items():
        if section in sections:
            problems += wrong(sections[section])
    if "judge" in sections:
        problems += _wrong_form(sections["judge"])
        problems += _wrong_limits(sections["judge"])
    if mode is not None and "judge" in sections and not sections["judge"].model_of(mode):
        problems.append(f"judge.{mode}_model is missing: name who judges in --mode {mode}, or pass --judge-model.")


def _wrong_form(judge: JudgeSection) -> Iterator[str]:
    """Reject a form of reply that cannot be asked for in this way."""
    try:
        check_form(judge.reply, judge.grades, judge.options)
    except OptionError as error:
        yield str(error)


def _wrong_limits(judge: JudgeSection) -> Iterator[str]:
    """Reject limits that let nothing through, and headers that no server accepts."""
    for name in ("timeout_seconds", "requests_per_minute", "tokens_per_minute"):
        value = getattr(judge, name)
        if value is not None and not 0 < value < math.inf:
            yield f"judge.{name} is {value:g}: it must be a number above 0."
    yield from _wrong_headers("judge.headers", judge.headers)
    for place, member in enumerate(judge.members):
        yield from _wrong_headers(f"judge.panel[{place}].headers", member.headers or {})


def _wrong_entrant_headers(entrants: Sequence[Entrant]) -> Iterator[str]:
    for place, entrant in enumerate(entrants):
        yield from _wrong_headers(f"entrants[{place}].headers", entrant.headers)


def _wrong_headers(where: str, headers: Mapping[str, str]) -> Iterator[str]:
    for header, value in headers.items():
        if not _HEADER.fullmatch(header):
            yield f"{where} has {header!r}, which is no name of a header: use letters, digits and -, such as X-Team."
        elif not (value.isascii() and value.isprintable()):
            yield f"{where}.{header} holds characters that no header has: use printable ASCII on one line."


def _wrong_baseline(baseline: str | None, ids: Sequence[str]) -> Iterator[str]:
    """Reject a baseline that is no entrant."""
    if baseline is not None and baseline not in ids:
        close = difflib.get_close_matches(baseline, ids, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Name one of {', '.join(ids)}, or add it to `entrants`."
        yield f"opponents.baseline is {baseline!r}, which is no entrant. {hint}"


def _wrong_elo(elo: EloSettings) -> Iterator[str]:
    """Reject settings that permutation Elo cannot use."""
    if not 2 <= elo.n_perms <= N_PERMS_MAX:
        yield (
            f"elo.n_perms is {elo.n_perms}: at least 2 are needed for an error of the mean, "
            f"and more than {N_PERMS_MAX:,} tell nothing new."
        )
    if elo.shuffle_seed < 0:
        yield f"elo.shuffle_seed is {elo.shuffle_seed}: a seed is 0 or more."
    if not math.isfinite(elo.initial_rating):
        yield f"elo.initial_rating is {elo.initial_rating}: it must be a finite number, such as 1400."
    for key, k in (("default_k", elo.default_k), *(("k_factor_sweep", k) for k in elo.k_factor_sweep)):
        if not 0 < k < math.inf:
            yield f"elo.{key} holds {k:g}: K is the most a rating can move, a positive number."
        elif k > K_MAX:
            yield f"elo.{key} holds {k:g}: above {K_MAX:g} Elo does not settle. Take a smaller K; 4 to 32 is usual."


def _wrong_pilot(prompts: PromptSettings) -> Iterator[str]:
    """Reject settings with which no pilot can be drawn."""
    if prompts.pilot_size < 1:
        yield f"prompts.pilot_size is {prompts.pilot_size}: a pilot has at least 1 prompt."
    if prompts.pilot_seed < 0:
        yield f"prompts.pilot_seed is {prompts.pilot_seed}: a seed is 0 or more."
    for source, places in (prompts.pilot_strata or {}).items():
        if places < 0:
            yield f"prompts.pilot_strata.{source} is {places}: the places of a source are 0 or more."


def _wrong_panel(judge: JudgeSection) -> Iterator[str]:
    """Reject a panel that cannot judge."""
    names = [member.model for member in judge.members]
    if judge.repeats < 1:
        yield f"judge.repeats is {judge.repeats}: a question is asked at least once."
    if len(names) == 1:
        yield f"judge.panel has one judge, {names[0]}: name two or more, or make it the headline_model."
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"judge.panel lists {name} twice. To ask a judge several times, set judge.repeats."
    if names and judge.headline_model:
        yield "judge.panel and judge.headline_model both say who judges in --mode headline. Remove one of them."
