"""A tournament's settings: the YAML file, checked once, as one frozen object."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from tiltyard.data.bank import PILOT_SEED, PILOT_SIZE
from tiltyard.errors import ConfigError, OptionError
from tiltyard.judge.llm import TIMEOUT_SECONDS, Price
from tiltyard.judge.verdicts import (
    PanelMember,
    RoundGoal,
    RoundSettings,
    ScaleName,
    Scoring,
    check_form,
    make_scoring,
    panel_name,
)
from tiltyard.stats import K_MAX


class RoundsSection(msgspec.Struct, frozen=True, kw_only=True):
    """Adaptive rounds: what they go on for, and how large they are. Without `until`, everything is judged at once."""

    until: str | None = None
    """`top` (who is best), `order` (every pair), `width:80` (no interval wider than 80 points from end to end),
    `budget` (with a budget in USD), `budget:5000` (calls, shared by the dimensions), or `all`: no rounds."""
    opponents: int | None = None
    """How many opponents an entrant meets on a prompt in each round; – means a third of the others, one to three."""
    prompts: int | None = None
    """New prompts in each round; – means so many that two thirds of the rounds see them all."""
    maximum: int = 6
    """The most rounds. The error rate is divided over this many looks, so fix it before the first verdict."""
    level: float = 0.95
    """Confidence level of the decision, in each dimension."""
    seed: int = 0
    """Draws the order of the prompts and varies the opponents."""


def round_settings(rounds: RoundsSection, until: str | None) -> RoundSettings | None:
    """How rounds go, with the goal of the command line before the file's; None if everything is judged."""
    sizes = msgspec.structs.asdict(rounds)
    asked = until or sizes.pop("until") or "all"
    sizes.pop("until", None)
    settings = RoundSettings(goal=RoundGoal.parse("order" if asked == "all" else asked), **sizes)
    return None if asked == "all" else settings


Mode = Literal["pilot", "headline"]
Task = Literal["pairs", "scores", "both"]


class Entrant(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant. `model` and what follows are only needed to generate its answers."""

    entrant_id: str
    """The contestant's id: the name on every board and of its response file. Two or more."""
    model: str | None = None
    """Who answers for `tiltyard generate`: `provider/model`."""
    system: str = ""
    """System text sent before every prompt of the bank."""
    max_tokens: int = 1024
    """How long an answer may be."""
    seed: int | None = None
    """Seed from which a seed for each prompt is derived."""
    send_seed: bool = False
    """Whether that seed is sent to the provider; some refuse it."""
    options: dict[str, Any] = {}
    """Further parameters for the provider, sent unchanged (`temperature`, …)."""
    base_url: str | None = None
    """Address of the entrant's server, for `local/…`."""
    headers: dict[str, str] = {}
    """Further headers for its server, such as a gateway. An entrant that is asked at `judge.base_url` gets
    `judge.headers`."""
    images: bool | None = None
    """Whether the model takes images; – means if its provider is known to (`anthropic`, `openai`, `gemini`)."""


class PromptSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the bank is, and how a pilot is drawn from it: `pilot_strata` sets the number of prompts per source."""

    bank_path: str
    """The prompt bank (JSON Lines)."""
    pilot_size: int = PILOT_SIZE
    """How many prompts a pilot judges."""
    pilot_seed: int = PILOT_SEED
    """Seed of the pilot's draw: the same bank gives the same pilot everywhere."""
    pilot_strata: dict[str, int] | None = None
    """Number of prompts per source; by default in proportion, by largest remainder."""


class CacheSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where answers and verdicts are kept between runs."""

    responses_dir: str
    """Folder of `responses_<entrant>.jsonl`."""
    judgments_dir: str
    """Folder of verdicts and of the journal of batches; kept between runs."""


class JudgeSection(msgspec.Struct, frozen=True, kw_only=True):
    """Who judges, and how it is asked. `batch` None means in batches if the provider supports them."""

    model: str | None = None
    """The judge of both modes: `provider/model`, or a function of yours, `python:mypackage.judges:strict`."""
    task: Task = "pairs"
    """What is judged: `pairs` of answers, `scores` of each answer alone, or `both`."""
    pilot_model: str | None = None
    """The judge of `--mode pilot`; only needed there, and not with `model` or `--judge-model`."""
    headline_model: str | None = None
    """The judge of `--mode headline`; only needed there, and not with `model` or `--judge-model`."""
    panel: tuple[str | PanelMember, ...] = ()
    """Several judges instead of one: names, or mappings of `model` and settings of its own. They judge `--mode
    headline`, and `--mode pilot` unless `pilot_model` is given."""
    combine: Literal["majority", "weight", "rows"] = "majority"
    """How the votes of a panel become battles: `majority`, `weight` (by estimated reliability), or `rows` (every
    judge's own judgment is a battle)."""
    repeats: int = 1
    """How many times every question is asked, in each order; the verdict that a judge gives most often counts."""
    max_tokens: int = 1024
    """Token limit of the first attempt; doubled after a truncated reply."""
    max_attempts: int = 3
    """How often a question is asked before it counts as failed, over all runs."""
    batch: bool | None = None
    """Ask in batches, at half price; – means if the provider supports them."""
    max_batch: int | None = None
    """Requests per batch; – means as many as the provider allows."""
    concurrency: int = 16
    """Concurrent direct calls; fewer after a 429."""
    poll_initial_seconds: float = 30.0
    """First pause between two polls of a batch."""
    poll_max_seconds: float = 300.0
    """Longest pause between two polls."""
    budget_usd: float | None = None
    """Stop before this much is spent."""
    base_url: str | None = None
    """Address of the judge's server, for `local/…`, `vllm/…` and others of one's own."""
    headers: dict[str, str] = {}
    """Further headers for the judge's server, such as a gateway. `${NAME}` in a value is that variable of the
    environment or of `.env`. They go to judges that are asked at `base_url`; without one, to every judge."""
    timeout_seconds: float = TIMEOUT_SECONDS
    """How long one request may take in all. Then it has failed; the next run asks again."""
    requests_per_minute: float | None = None
    """Direct calls per minute, at most, for each judge."""
    tokens_per_minute: float | None = None
    """Tokens of direct calls and their replies per minute, at most, for each judge."""
    prices_path: str | None = None
    """A price file whose models replace or extend the built-in table."""
    prices: dict[str, Price] = {}
    """Prices by model, stated here; they count before every price file."""
    reply: Literal["reasoned", "label", "choice", "json", "tool"] = "reasoned"
    """`reasoned`, `label`, `choice`, `json` or `tool`: a few sentences and a verdict line; or only the label, with its
    probabilities if the server gives them; or the letter of an option, for judges too small for instructions; or a JSON
    object, by the provider's JSON schemas; or the same object as a tool call."""
    grades: bool = False
    """Whether a verdict says by how much an answer is better (`A>>B`, `A>B`, `A=B`, `B>A`, `B>>A`), which becomes a
    soft score. Needs `reply` `reasoned`, `json` or `tool`."""
    images: bool | None = None
    """Whether the judge takes images; – means if its provider is known to (`anthropic`, `openai`, `gemini`). `true`
    for a `local/…` judge that sees images."""
    transcript_characters: int = 20_000
    """The most characters of an agent's transcript that the judge is shown; what is cut is said in the text."""
    min_choice_mass: float = 0.5
    """Minimum total probability of the allowed words, if the server gives probabilities. Below it a `label` or `choice`
    is noise and `unparsed`, not a verdict. The setting itself is not sent."""
    options: dict[str, Any] = {}
    """Further parameters for the provider, sent unchanged."""

    def model_of(self, mode: Mode) -> str | None:
        named = (self.pilot_model if mode == "pilot" else self.headline_model) or self.model
        return named or (panel_name([member.model for member in self.members]) if self.panel else None)

    @property
    def named(self) -> tuple[str | None, ...]:
        return (self.model, self.pilot_model, self.headline_model, *(member.model for member in self.members))

    @property
    def members(self) -> tuple[PanelMember, ...]:
        return tuple(PanelMember(model=one) if isinstance(one, str) else one for one in self.panel)


class EloSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Permutation Elo."""

    n_perms: int = 500
    """Shuffles of permutation Elo; at least 2."""
    shuffle_seed: int = 0
    """Seed of the shuffles, and of the resamples of the sampling interval."""
    initial_rating: float = 1400.0
    """Where every entrant starts."""
    default_k: float = 16.0
    """Points at stake, for the primary result."""
    k_factor_sweep: tuple[float, ...] = (1.0, 4.0, 8.0, 16.0, 32.0)
    """Further K values on the same shuffles."""


class OpponentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who meets whom. By default everyone meets everyone."""

    baseline: str | None = None
    """An entrant that all others are judged against, and nobody else: n − 1 pairs a prompt instead of n(n − 1)/2, and
    a table of win rates against it."""


class RubricSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a dimension's rubric is, and how its answers are scored, where `judge.task` asks for scores."""

    path: str
    """The rubric of a dimension. Dimensions are judged in this order."""
    scale: ScaleName | None = None
    """What a score may be: `1-10` (which – means), `1-5`, `0-1` or `pass-fail`."""
    criteria: dict[str, float] | tuple[str, ...] = ()
    """What is scored separately, in one question: names with weights that sum to 1, which give a mean score too; or a
    list of names, which are not averaged."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a tournament file says. Dimensions are judged in the order of `rubrics`."""

    entrants: tuple[Entrant, ...]
    """The contestants, two or more."""
    prompts: PromptSettings
    """The bank and the pilot."""
    caches: CacheSettings
    """Where answers and verdicts are kept."""
    rubrics: dict[str, RubricSettings]
    """Where the rubric of each dimension is; dimensions are judged in this order."""
    judge: JudgeSection = JudgeSection()
    """Who judges, and how it is asked."""
    elo: EloSettings = EloSettings()
    """Permutation Elo."""
    opponents: OpponentSettings = OpponentSettings()
    """Who meets whom: everyone everyone, or all others one baseline."""
    rounds: RoundsSection = RoundsSection()
    """Adaptive rounds, which stop when a question is answered."""
    canaries: bool = False
    """Judge pairs with a known answer along with the rest; they are excluded from every rating."""
    calibrate: str | None = None
    """People's labels on a random draw of the judged matchups (battles, or a filled-in label sheet): they correct the
    boards. Where answers are scored alone, people's scores on a random draw of prompts."""
    title: str = ""
    """What the report is called; without it, it has the names of the entrants."""
    note: str = ""
    """A sentence that every reader should see first; shown in the manifest and at the top of the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A config with its paths resolved, and warnings about the file."""

    config: Config
    path: Path
    bank_path: Path
    responses_dir: Path
    judgments_dir: Path
    rubric_paths: dict[str, Path]
    prices_path: Path | None = None
    labels_path: Path | None = None
    warnings: tuple[str, ...] = ()

    @property
    def scoring(self) -> dict[str, Scoring]:
        if self.config.judge.task == "pairs":
            return {}
        return {name: make_scoring(one.scale or "1-10", one.criteria) for name, one in self.config.rubrics.items()}

    @property
    def entrant_ids(self) -> tuple[str, ...]:
        return tuple(entrant.entrant_id for entrant in self.config.entrants)


def load_setup(path: str | Path, *, mode: Mode | None = None) -> Setup:
    """Read a tournament file and find what it names: relative paths from its folder, then from the working folder.

    Everything that is wrong with the file is said at once.

    Parameters:
        path: The tournament file (YAML).
        mode: The mode whose judge the file must name; None needs no judge.
    """
    path = Path(path)
    raw = _read_yaml(path)
    problems: list[str] = []
    sections: dict[str, Any] = {}  # those that are well-formed
    kinds = get_type_hints(Config, include_extras=True)
    for field in msgspec.structs.fields(Config):
        wrong = list(wrong_values(raw.get(field.name, msgspec.UNSET), kinds[field.name], field.name, field.required))
        if not wrong and field.name in raw:
            sections[field.name] = msgspec.convert(raw[field.name], kinds[field.name], strict=False)
        elif not wrong:
            sections[field.name] = field.default
        problems += wrong
    problems += _wrong_settings(sections, mode)
    places = _find_files(sections, path, problems)
    if len(problems) == 1:
        raise ConfigError(f"{path}: {problems[0]}")
    if problems:
        raise ConfigError(f"{path}: {len(problems)} settings are missing or wrong. Correct them:", problems)
    config = msgspec.convert(raw, Config, strict=False)
    return Setup(config=config, path=path, warnings=tuple(_unknown_keys(raw, Config)), **places)


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no tournament file {path}. Check the path.") from None
    except IsADirectoryError:
        there = sorted(path.glob("*.yaml"), key=lambda file: (file.name != "tournament.yaml", file.name))
        hint = f", such as {there[0]}" if there else ""
        raise ConfigError(f"{path} is a folder. Name the tournament file in it{hint}.") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}. Check the path and its rights.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a tournament file, which is YAML text in UTF-8.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise ConfigError(f"{where}: not YAML: {getattr(error, 'problem', None) or error}.") from None
    except (ValueError, RecursionError) as error:  # an impossible date or number, nesting that is too deep, …
        raise ConfigError(f"{path}: holds a value that cannot be read: {error}. Correct it, or quote it.") from None
    if not isinstance(raw, dict):
        raise ConfigError(
            f"{path} is not a tournament file, which is YAML with entrants, prompts, caches, judge, elo and rubrics."
        )
    return raw


def _find_files(sections: Mapping[str, Any], path: Path, problems: list[str]) -> dict[str, Any]:
    """Where the files and folders are that the file names; what is not there is among the problems."""
    bases = (path.parent, Path())

    def find(given: str, key: str) -> Path:
        tried = list(dict.fromkeys(base / given for base in bases))
        for place in tried:
            if place.exists():
                return place
        problems.append(f"{key} is {given!r}, found neither at {' nor at '.join(map(str, tried))}.")
        return tried[0]

    files: dict[str, Any] = {}
    home = bases[0]
    if "prompts" in sections:
        given = sections["prompts"].bank_path
        files["bank_path"] = find(given, "prompts.bank_path")
        # The folder relative to which the bank was found: new folders are created there too.
        home = next((base for base in bases if base / given == files["bank_path"]), home)
    for name in ("responses_dir", "judgments_dir") if "caches" in sections else ():
        given = getattr(sections["caches"], name)
        files[name] = next((base / given for base in bases if (base / given).is_dir()), home / given)
    rubrics = sections.get("rubrics", {})
    files["rubric_paths"] = {name: find(rubric.path, f"rubrics.{name}.path") for name, rubric in rubrics.items()}
    prices = sections["judge"].prices_path if "judge" in sections else None
    files["prices_path"] = None if prices is None else find(prices, "judge.prices_path")
    labels = sections.get("calibrate")
    files["labels_path"] = None if labels is None else find(labels, "calibrate")
    return files


def _unknown_keys(value: Any, kind: Any, name: str = "") -> Iterator[str]:
    """A warning for every key that means nothing, so that a misspelt option is not silently ignored."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        known, before = get_type_hints(kind), f"{name}." if name else ""
        for key, inner in (value or {}).items() if isinstance(value, Mapping) or value is None else ():
            if key in known:
                yield from _unknown_keys(inner, known[key], f"{before}{key}")
                continue
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {before}{close[0]}?" if close else ""
            yield f"the setting {before}{key} means nothing here and is ignored{hint}"
    elif _holds_structs(kind):
        for place, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            at = f"{name}.{place}" if isinstance(value, Mapping) else f"{name}[{place}]"
            yield from _unknown_keys(inner, get_args(kind)[isinstance(value, Mapping)], at)


_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of an HTTP header."""
N_PERMS_MAX = 1_000_000
"""The most shuffles of permutation Elo: with that many, the shuffle error is a thousandth of a rating's spread."""


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
    return (
        [word for part in get_args(kind) for word in _choices(part)] if get_origin(kind) in (UnionType, Union) else []
    )


def _holds_structs(kind: Any) -> bool:
    return any(isinstance(part, type) and issubclass(part, msgspec.Struct) for part in get_args(kind))


def _shown(value: Any) -> str:
    text = "empty" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _in_words(message: str) -> str:
    words = {"object": "mapping", "array": "list", "str": "text", "int": "whole number", "float": "number"}
    for name, word in words.items():
        message = message.replace(f"`{name}`", f"`{word}`").replace(f"`{name} |", f"`{word} |")
    message = message.replace(" | null`", "`")
    return message[:1].lower() + message[1:].replace("`$.", "`").replace("`$[...]`", "a value of it")


def _wrong_settings(sections: Mapping[str, Any], mode: Mode | None) -> Iterator[str]:
    """What the values of well-formed sections may not be. Checked before anything is asked: judging costs money."""
    ids = [entrant.entrant_id for entrant in sections.get("entrants", ())]
    rubrics = sections.get("rubrics")
    if "entrants" in sections and len(ids) < 2:
        yield f"a tournament needs two entrants or more, the file has {len(ids)}."
    for name in sorted({name for name in ids if ids.count(name) > 1}):
        yield f"entrant_id {name!r} is listed twice. Ids must differ."
    if rubrics is not None and not rubrics:
        yield "no rubric is given. Add one dimension under `rubrics`."
    for name in dict.fromkeys((*ids, *(rubrics or ()))):
        if not name or name.startswith(".") or any(letter in name for letter in "/\\:\0"):
            yield f"{name!r} cannot be part of a file name. Use letters, digits, - and _."
    baseline = sections["opponents"].baseline if "opponents" in sections else None
    if baseline is not None and "entrants" in sections and baseline not in ids:
        close = difflib.get_close_matches(baseline, ids, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Name one of {', '.join(ids)}, or add it to `entrants`."
        yield f"opponents.baseline is {baseline!r}, which is no entrant. {hint}"
    if "elo" in sections:
        yield from wrong_elo(sections["elo"])
    if "prompts" in sections:
        pilot = sections["prompts"]
        if pilot.pilot_size < 1:
            yield f"prompts.pilot_size is {pilot.pilot_size}: a pilot has at least 1 prompt."
        if pilot.pilot_seed < 0:
            yield f"prompts.pilot_seed is {pilot.pilot_seed}: a seed is 0 or more."
        for source, places in (pilot.pilot_strata or {}).items():
            if places < 0:
                yield f"prompts.pilot_strata.{source} is {places}: the places of a source are 0 or more."
    if "judge" in sections:
        yield from _wrong_judge(sections["judge"], mode)
        yield from _wrong_scores(sections)
    for place, entrant in enumerate(sections.get("entrants", ())):
        yield from _wrong_headers(f"entrants[{place}].headers", entrant.headers)
    if "rounds" in sections:
        try:
            round_settings(sections["rounds"], None)
        except OptionError as error:
            yield f"rounds: {error}"


def _wrong_scores(sections: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong about scores; settings that only scores have, or only pairs, are refused for the other."""
    judge = sections["judge"]
    for name, rubric in (sections.get("rubrics") or {}).items():
        if judge.task == "pairs":
            if rubric.scale or rubric.criteria:
                yield f"rubrics.{name} has a scale or criteria, and judge.task is pairs: set it to scores or both."
            continue
        try:
            scoring = make_scoring(rubric.scale or "1-10", rubric.criteria)
            for form in (judge.reply, *(member.reply for member in judge.members if member.reply)):
                scoring.check(form)
        except OptionError as error:
            yield f"rubrics.{name}: {error}"
    if judge.task == "pairs":
        return
    if "rounds" in sections and sections["rounds"].until not in (None, "all"):
        yield "rounds.until chooses pairs to judge: with judge.task scores or both, leave it out."
    if judge.task == "scores":
        if judge.grades:
            yield "judge.grades is about pairs, and judge.task is scores: leave it out."
        if judge.combine != "majority":
            yield "judge.combine is about pairs: the scores of several judges are averaged. Leave it out."
        if "opponents" in sections and sections["opponents"].baseline is not None:
            yield "opponents.baseline is about pairs, and judge.task is scores: leave it out."


def _wrong_headers(where: str, headers: Mapping[str, str]) -> Iterator[str]:
    for header, value in headers.items():
        if not _HEADER.fullmatch(header):
            yield f"{where} has {header!r}, which is no name of a header: use letters, digits and -, such as X-Team."
        elif not (value.isascii() and value.isprintable()):
            yield f"{where}.{header} holds characters that no header has: use printable ASCII on one line."


def wrong_elo(elo: EloSettings) -> Iterator[str]:
    """What settings of permutation Elo may not be, a sentence each."""
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


def _wrong_judge(judge: JudgeSection, mode: Mode | None) -> Iterator[str]:
    names = [member.model for member in judge.members]
    if judge.repeats < 1:
        yield f"judge.repeats is {judge.repeats}: a question is asked at least once."
    if len(names) == 1:
        yield f"judge.panel has one judge, {names[0]}: name two or more, or make it the headline_model."
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"judge.panel lists {name} twice. To ask a judge several times, set judge.repeats."
    if judge.model and (judge.panel or (judge.pilot_model and judge.headline_model)):
        other = "judge.panel" if judge.panel else "judge.pilot_model and judge.headline_model"
        yield f"judge.model and {other} both say who judges. Remove one of them."
    if names and judge.headline_model:
        yield "judge.panel and judge.headline_model both say who judges in --mode headline. Remove one of them."
    try:
        check_form(judge.reply, judge.grades, judge.options)
    except OptionError as error:
        yield str(error)
    for name in ("timeout_seconds", "requests_per_minute", "tokens_per_minute"):
        value = getattr(judge, name)
        if value is not None and not 0 < value < math.inf:
            yield f"judge.{name} is {value:g}: it must be a number above 0."
    yield from _wrong_headers("judge.headers", judge.headers)
    for place, member in enumerate(judge.members):
        yield from _wrong_headers(f"judge.panel[{place}].headers", member.headers or {})
    if mode is not None and not judge.model_of(mode):
        yield f"judge.{mode}_model is missing: name who judges in --mode {mode}, or pass --judge-model."
