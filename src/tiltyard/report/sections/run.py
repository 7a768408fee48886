"""The bottom of the page: cost, canaries and the manifest in full; any value of a JSON file as markup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tiltyard.judging.panel import judge_in_words
from tiltyard.judging.run_folder import read_object
from tiltyard.pages.markup import Html, el, join, number, pairs, table
from tiltyard.report.site_map import Here
from tiltyard.tournament.artifacts import JUDGE_PROMPTS
from tiltyard.tournament.rounds import ROUNDS_FILE

FIRST = (
    "mode",
    "judge_model",
    "entrants",
    "dimensions",
    "bank_size",
    "selected_prompt_count",
    "started_at",
    "finished_at",
    "n_perms",
    "shuffle_seed",
    "pilot_seed",
    "versions",
    "rubric_versions",
    "dropped",
    "results",
)
"""What the manifest says first; the rest follows in its own order."""


def usage_section(here: Here) -> Html:
    """Tokens and money as `usage.json` has them."""
    usage = here.run.usage
    if usage is None:
        body = el("p", "The run folder has no usage.json, so the cost is unknown.", class_="note")
    elif isinstance(usage.get("dimensions"), dict) and isinstance(usage.get("total"), dict):
        body = _usage_table(usage)
    else:
        body = facts(usage)
    return el("section", el("h2", "Cost and tokens"), body, id="usage")


COLUMNS = {
    "cache_creation_input_tokens": "cache writes",
    "cache_read_input_tokens": "cache reads",
    "cost_usd": "US $",
    "replies_without_usage": "no usage",
    "verdicts_usd": "US $, all verdicts",
}


VERDICTS = "verdicts_usd"
"""The column of what the run's verdicts cost, whichever command asked for them."""


def _usage_table(usage: Mapping[str, Any]) -> Html:
    """Usage of the last command by dimension, the total, and of a panel what each judge has of it.

    After earlier commands, the last column says what all verdicts cost.
    """
    columns = list(usage["total"])
    by_judge: dict[str, Any] = usage.get("judges", {})
    judges = {f"by {name}": _summed(rows.values(), columns) for name, rows in by_judge.items()}
    kept = [verdicts_cost([row]) for row in usage["dimensions"].values()]
    kept += [verdicts_cost(rows.values()) for rows in (usage["dimensions"], *by_judge.values())]
    head: list[str | tuple[str, str]] = ["", *((COLUMNS.get(key, words(key)), "num") for key in columns)]
    rows = [*usage["dimensions"].items(), (el("b", "total"), usage["total"]), *judges.items()]
    body = [[name, *(_amount(key, row.get(key)) for key in columns)] for name, row in rows]
    if usage["total"].get("cache_hits"):
        head.append((COLUMNS[VERDICTS], "num"))
        body = [[*row, _amount(VERDICTS, cost)] for row, cost in zip(body, kept, strict=True)]
    shown = ("dimensions", "total", "judge_model", "judges")
    rest = {key: value for key, value in usage.items() if key not in shown}
    return join([table(head, body), facts(rest) if rest else ""])


def _summed(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> dict[str, Any]:
    """One judge's usage over all dimensions; an amount that is unknown in one of them is unknown."""
    total: dict[str, Any] = dict.fromkeys(columns, 0)
    failed: Counter[str] = Counter()
    for row in rows:
        failed.update(row.get("failed") or {})
        for key in columns:
            value = row.get(key)
            if key != "failed":
                total[key] = None if value is None or total[key] is None else total[key] + value
    return total | ({"failed": dict(failed)} if "failed" in columns else {})


def verdicts_cost(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """What the verdicts of some rows cost together; None if one has no price."""
    costs: list[Any] = [(row.get("verdicts") or {}).get("cost_usd") for row in rows]
    return None if None in costs else float(sum(costs))


def _amount(key: str, value: Any) -> Html:
    if value is None:
        return el("span", "unknown", class_="none")
    if isinstance(value, Mapping) and value:
        return el("span", ", ".join(f"{count} {what}" for what, count in value.items()), class_="word")
    return number(value, 2) if key in ("cost_usd", VERDICTS) else scalar(value)


def gate_section(here: Here) -> Html:
    """A pilot's gate: go or no-go for the headline run, and every check behind it."""
    checks = (here.run.manifest.get("results") or {}).get("gate")
    if not checks:
        return Html("")
    passed = all(check.get("passed") for check in checks)
    rows = [[_word(check, "check"), _passed(check), _word(check, "detail")] for check in checks]
    word = "Go: every check of the pilot passed." if passed else "No-go: see what failed."
    return el("section", el("h2", "Go or no-go"), el("p", el("b", word)), table(["check", "", ""], rows), id="gate")


def rounds_section(here: Here) -> Html:
    """Adaptive rounds: what they decided, why they stopped, what was saved, and every round; empty without them."""
    path = here.run.folder / ROUNDS_FILE
    if not here.run.manifest.get("until") or not path.is_file():
        return Html("")
    told = read_object(path)
    rule = (
        f"The matchups of each round were chosen from the verdicts so far, until {told['until']}: confidence level "
        f"{100 * told['level']:g} % in each dimension, divided over {told['planned_looks']} planned looks. Intervals "
        f"on the boards are at {round(100 * told['interval_level'], 1):g} %."
    )
    parts = [_dimension_rounds(name, row) for name, row in told["dimensions"].items()]
    return el("section", el("h2", "Adaptive rounds"), el("p", rule, class_="note"), *parts, id="rounds")


def _dimension_rounds(name: str, row: Mapping[str, Any]) -> Html:
    """The rounds of one dimension."""
    saved = (
        f"{row['calls']:,} calls; judging everything takes {row['calls_of_full_design']:,}: "
        f"{100 * row['saved']:.0f} % saved. Stopped after {row['looks']} rounds: {row['stopped']}."
    )
    columns = {
        "round": "round",
        "cases": "pairs judged",
        "failed": "failed",
        "told_apart": "pairs told apart",
        "open_pairs": "pairs open",
        "contenders": "could be best",
        "widest": "widest interval",
    }
    rows = [
        [_amount(key, one.get(key)) if key != "widest" else number(one.get(key), 0) for key in columns]
        for one in row["rounds"]
    ]
    head: list[str | tuple[str, str]] = [(title, "num") for title in columns.values()]
    return join([el("h3", name), el("p", el("b", row["decision"]), ". ", saved), table(head, rows)])


def _word(check: Mapping[str, Any], key: str) -> str:
    return str(check.get(key, ""))


def _passed(check: Mapping[str, Any]) -> Html:
    return Html("passed") if check.get("passed") else el("b", "failed")


def canary_section(here: Here) -> Html:
    """How the judge did on pairs with a known answer, if the run had some."""
    canaries: Any = (here.run.manifest.get("results") or {}).get("canaries")
    if not canaries:
        return Html("")
    return el(
        "section",
        el("h2", "Canaries"),
        el("p", CANARIES_EXPLAINED, class_="note"),
        *[_canaries_of(dimension, found) for dimension, found in canaries.items()],
        id="canaries",
    )


CANARIES_EXPLAINED = (
    "Pairs with a clearly better answer, judged along with the others and left out of every rating. One is missed if "
    "the judge chose the bad answer in one of the orders, or if a verdict cannot be read; a tie misses it where the "
    "rubric measures answers by a reference answer."
)


def _canaries_of(dimension: str, found: Mapping[str, Any]) -> Html:
    """How many of each kind were right in a dimension, and every missed one with what the judge said."""
    columns = ("asked", "right", "fooled", "undecided", "failed")
    kinds = [[str(row["kind"]), *(number(row[name]) for name in columns)] for row in found["kinds"]]
    missed = [[one["canary"], one["answer"]] for one in found["missed"]]
    parts = [
        el("h3", dimension),
        el("p", number(found["right"]), " of ", number(found["asked"]), " right, ", number(len(missed)), " missed."),
        table(["kind", *((name, "num") for name in columns)], kinds),
    ]
    if missed:
        parts.append(table(["missed", "what the judge chose"], missed))
    return el("section", *parts)


def judge_prompt_section(here: Here) -> Html:
    """The rubric of each dimension and everything that the judge is sent around the material, folded."""
    path = here.run.folder / JUDGE_PROMPTS
    dimensions = read_object(path).get("dimensions") if path.is_file() else None
    if not dimensions:
        return Html("")
    note = "In full; words in braces stand for the material. The answers are shown in one order, then in the other."
    parts = [_judge_prompts(name, found) for name, found in dimensions.items()]
    return el("section", el("h2", "What the judge is sent"), el("p", note, class_="note"), *parts, id="asked")


def _judge_prompts(dimension: str, found: Mapping[str, Any]) -> Html:
    texts = [(f"rubric, version {found['rubric_version']}", found["rubric"])]
    for sent in found["sent"]:
        who = f", to {', '.join(sent['judges'])}" if len(found["sent"]) > 1 else ""
        texts += [(f"system text{who}", sent["system"]), (f"user text{who}", sent["user"])]
    folded = [
        el("details", el("summary", title), el("pre", text, class_="words"), class_="card") for title, text in texts
    ]
    return el("section", el("h3", dimension), *folded)


def _shown(key: str, value: Any) -> Any:
    """The results without those that have their own section, and a panel by the names of its judges."""
    if key == "judge_model":
        return judge_in_words(str(value))
    if key != "results" or not isinstance(value, dict):
        return value
    return {name: part for name, part in value.items() if name not in ("canaries", "gate", "panel", "calibration")}


def run_section(here: Here, found: list[str]) -> Html:
    """The full manifest, and whether the numbers agree with the verdicts."""
    manifest = here.run.manifest
    keys = [key for key in FIRST if key in manifest]
    keys += [key for key in manifest if key not in FIRST]
    checked = (
        "Recounted from the verdicts while this page was made: decisive matches, every pair, every board’s wins, "
        "losses and ties, and every mean over shuffles. "
    )
    checked += f"{len(found)} disagree; see the top." if found else "All agree with the files."
    return el(
        "section",
        el("h2", "The run"),
        el("p", checked, class_="note"),
        pairs([(words(key), fact(key, _shown(key, manifest[key]))) for key in keys], class_="facts manifest"),
        id="run",
    )


WORDS = {"usd": "US $", "sha256": "SHA-256", "cost": "cost", "n_perms": "permutations"}
FEW = 12


def words(key: str) -> str:
    """A key as words."""
    return WORDS.get(key, " ".join(WORDS.get(part, part) for part in str(key).split("_")))


def facts(value: Any) -> Html:
    """A value of any depth: a scalar as text, records as a table, a mapping as a description list."""
    if isinstance(value, Mapping) and value:
        return _mapping(value)
    if isinstance(value, list | tuple) and value:
        if all(isinstance(item, Mapping) for item in value):
            return _records([("", item) for item in value])
        return _list([facts(item) for item in value])
    return scalar(value)


def fact(key: str, value: Any) -> Html:
    """The value of a key: a seed is shown as digits without separators, everything else as usual."""
    return scalar(str(value)) if "seed" in key else facts(value)


def scalar(value: Any) -> Html:
    """One value: a number with its exact value, text verbatim, None as a dash."""
    if value is None or value == {} or value == [] or value == "":
        return el("span", "–", class_="none")
    if isinstance(value, bool):
        return Html("yes" if value else "no")
    if isinstance(value, int):
        return number(value)
    if isinstance(value, float):
        return el("data", f"{value:,.6g}", value=repr(value))
    return el("span", str(value), class_="word")


def _mapping(value: Mapping[str, Any]) -> Html:
    rows = [item for item in value.values() if isinstance(item, Mapping)]
    if len(rows) == len(value) and len(rows) > 1 and all(_flat(row) for row in rows):
        return _records(list(value.items()))
    return pairs([(words(key), fact(key, item)) for key, item in value.items()], class_="facts nested")


def _flat(row: Mapping[str, Any]) -> bool:
    return not any(
        isinstance(item, Mapping) and any(isinstance(i, Mapping) for i in item.values()) for item in row.values()
    )


def _records(rows: list[tuple[str, Mapping[str, Any]]]) -> Html:
    """Rows of one table whose columns are all keys that appear."""
    columns = list(dict.fromkeys(key for _, row in rows for key in row))
    named = any(name for name, _ in rows)
    head: list[str | tuple[str, str]] = [""] if named else []
    head += [(words(key), "num" if _numeric(rows, key) else "") for key in columns]
    body = [([name] if named else []) + [_cell(row.get(key)) for key in columns] for name, row in rows]
    return table(head, body)


def _cell(value: Any) -> Html:
    """A value in a cell; a small mapping goes on one line."""
    if isinstance(value, Mapping) and value:
        return join([join([words(key), " ", facts(item)]) for key, item in value.items()], ", ")
    return facts(value)


def _numeric(rows: list[tuple[str, Mapping[str, Any]]], key: str) -> bool:
    values = [row[key] for _, row in rows if row.get(key) is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _list(items: list[Html]) -> Html:
    shown = join(items, ", ")
    if len(items) <= FEW:
        return shown
    return el("details", el("summary", number(len(items)), " values"), shown)
