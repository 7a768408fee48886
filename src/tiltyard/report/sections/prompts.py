"""Prompts: how each entrant fared on each, and what was asked, answered and judged.

A prompt is on the page once, every answer to it once, and each judgment on it with both judge texts. A page shows one
of these at a time: the battle or prompt that its address names. For a battle, the style sheet hides unrelated answers
and judgments, so no text has to be on the page twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tiltyard.bank import Prompt
from tiltyard.judging.records import Judgment, Verdict
from tiltyard.llm.provider import Usage
from tiltyard.pages.figures import plural
from tiltyard.pages.markup import Html, el, join, link, number, shortened
from tiltyard.report.grid import GridCell, GridColumn, GridRow, grid, kinds_of, most_telling, room_for, spread
from tiltyard.report.judged import JudgedBattle
from tiltyard.report.run import Dimension, Run
from tiltyard.report.sections.battles import badge
from tiltyard.report.sections.board import order
from tiltyard.report.site_map import Here


def results_section(here: Here) -> Html:
    """A grid of prompts × entrants for each dimension; those after the first are folded."""
    dimensions = here.run.dimensions
    kinds = kinds_of(here.run.prompts)
    grids = [_grid(here, dimension, kinds) for dimension in dimensions]
    if len(grids) > 1:
        grids = [
            el("details", el("summary", el("b", dimension.name)), one, class_="card", open=place == 0)
            for place, (dimension, one) in enumerate(zip(dimensions, grids, strict=True))
        ]
    return el("section", el("h2", "Prompt by prompt"), *grids, id="results")


def _grid(here: Here, dimension: Dimension, kinds: Mapping[str, str]) -> Html:
    """Every prompt with a settled judgment; first those on which the entrants differ most."""
    settled = here.run.battles.of_kind(lambda battle: battle.dimension == dimension.name and battle.settled)
    judged = settled.grouped(lambda battle: battle.prompt_id)
    if not judged:
        return el("p", "No judgment was settled.", class_="note")
    names = order(here, dimension)
    rows = [_row(here, prompt, battles, names, kinds.get(prompt)) for prompt, battles in judged.items()]
    rows.sort(key=spread, reverse=True)
    room = room_for(len(names) * len(here.run.dimensions))
    shown = most_telling(rows, {row.prompt: (spread(row),) for row in rows}, room)
    said = ""
    if len(shown) < len(rows):
        said = (
            f"{plural(len(rows) - len(shown), 'prompt')} on which the entrants differ least are left out, to keep the "
            "page usable; they are listed under Prompts."
        )
    columns = [GridColumn(name, f"where {name} lost") for name in names]
    return grid(columns, shown, label=f"{dimension.name}, prompt by prompt", left_out=said)


def _row(here: Here, prompt: str, battles: Sequence[JudgedBattle], names: Sequence[str], kind: str | None) -> GridRow:
    """A prompt; a cell of a single battle leads to that battle, any other to everything on the prompt."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    last: dict[str, JudgedBattle] = {}
    for battle in battles:
        for name in battle.entrants:
            result = "tied" if battle.winner is None else "won" if battle.winner == name else "lost"
            counts.setdefault(name, Counter())[result] += 1
            last[name] = battle
    everything = here.prompt(prompt)
    alone = {name for name in last if counts[name].total() == 1}
    return GridRow(
        prompt,
        tuple(_cell(counts[name]) for name in names),
        here.run.prompts[prompt].text,
        kind,
        everything,
        tuple(here.battle(last[name]) if name in alone else everything for name in names),
    )


def _cell(count: Counter[str]) -> GridCell | None:
    n = count.total()
    return GridCell((count["won"] + 0.5 * count["tied"]) / n, count["won"], count["lost"], count["tied"]) if n else None


def prompt_index(here: Here) -> Html:
    """Every prompt by its source, each a link to all that was answered and judged."""
    groups: dict[str, list[Prompt]] = {}
    for prompt in here.run.prompts.values():
        groups.setdefault(prompt.source or "no source", []).append(prompt)
    parts = [
        el(
            "details",
            el("summary", el("b", source), el("span", number(len(group)), " prompts", class_="aside")),
            el("ul", *[_index_line(here, prompt) for prompt in group]),
            class_="card",
            id=f"s{place}",
        )
        for place, (source, group) in enumerate(groups.items())
    ]
    return el("section", el("h2", "Prompts"), *parts, id="prompts")


def _index_line(here: Here, prompt: Prompt) -> Html:
    return el("li", link(here.prompt(prompt.prompt_id), prompt.prompt_id), " ", el("bdi", shortened(prompt.text)))


def prompt_view(here: Here, prompt_id: str) -> Html:
    """One prompt: its text, all answers, all judgments."""
    run, site_map = here.run, here.site_map
    prompt = run.prompts[prompt_id]
    about = [word for word in (prompt.source, prompt.subject) if word]
    answers = [
        answer_block(site_map.entrants[name], name, run.answers[prompt_id, name], pictures(run, prompt_id, name))
        for name in run.entrants
        if (prompt_id, name) in run.answers
    ]
    return el(
        "article",
        el("p", link(here.section("prompts"), "Prompts"), *[f" / {word}" for word in about], class_="up"),
        el("h3", prompt_id),
        words(prompt.text, "question", "Prompt"),
        pictures(run, prompt_id),
        *expected(prompt),
        el("div", *answers, class_="answers"),
        *[_battle(here, battle) for battle in site_map.by_prompt[prompt_id]],
        class_="view prompt",
        id=f"p{site_map.prompts[prompt_id]}",
    )


def words(value: str, class_: str, label: str | None = None) -> Html:
    """A text shown verbatim: never as markup, with its own writing direction and line breaks."""
    if not value:
        return el("div", "(empty)", class_=f"{class_} words none")
    return el(
        "div",
        value,
        class_=f"{class_} words",
        dir="auto",
        tabindex="0" if label else None,
        aria_label=label,
        role="group" if label else None,
    )


def expected(prompt: Prompt) -> list[Html]:
    """The gold answer and the expected behavior of a prompt, where it has them."""
    known = (("Gold answer", prompt.gold_answer), ("Expected", prompt.expected_behavior))
    return [
        el("div", el("b", what), " ", el("span", value, dir="auto", class_="words"), class_="gold")
        for what, value in known
        if value
    ]


def pictures(run: Run, prompt_id: str, entrant: str | None = None) -> Html:
    """The images of a prompt, or of somebody's answer to it; nothing without any."""
    urls = run.pictures.get((prompt_id, entrant), ())
    whose = "the prompt" if entrant is None else f"the answer of {entrant}"
    images = [el("img", src=url, alt=f"Image {n} of {whose}", loading="lazy") for n, url in enumerate(urls, start=1)]
    return el("div", *images, class_="pictures") if images else Html("")


def image_policy(run: Run | None) -> str:
    """What a page may load for the images of a run: those in it, and nothing where there are none."""
    return "img-src data:" if run is not None and run.pictures else ""


def answer_block(place: int, name: str, answer: str, images: Html) -> Html:
    """One answer under the name of its entrant, which has this number."""
    return el(
        "div",
        el("h4", name, " ", el("small", number(len(answer)), " characters")),
        words(answer, "response", f"Answer of {name}"),
        images,
        class_=f"answer x{place}",
    )


def _battle(here: Here, battle: JudgedBattle) -> Html:
    site_map = here.site_map
    judgment = here.run.judgment(battle)
    numbers = [site_map.entrants[name] for name in battle.entrants]
    return el(
        "section",
        el("span", class_=f"mark x{numbers[0]} x{numbers[1]}", id=f"b{battle.number}"),
        el("h4", battle.dimension, ": ", join(battle.entrants, " against "), " ", badge(battle)),
        el("div", *verdict_blocks(battle, judgment), class_="verdicts"),
        _ways_on(here, battle),
        class_="battle",
    )


def verdict_blocks(battle: JudgedBattle, judgment: Judgment) -> Sequence[Html]:
    """What the judge said in each order."""
    if not judgment.raw:
        return [el("p", "No verdict: this match was not judged.", class_="note")]
    return [_verdict(battle, place, verdict) for place, verdict in enumerate(judgment.raw)]


def _verdict(battle: JudgedBattle, place: int, verdict: Verdict) -> Html:
    first = battle.entrant_b if verdict.position_swap else battle.entrant_a
    said = el("b", battle.word(place))
    spoken = f" (“{verdict.verdict}”)" if verdict.verdict.readable else ""
    trouble = [el("p", verdict.error, class_="error words", dir="auto")] if verdict.error else []
    return el(
        "div",
        el("h5", *_who(battle, verdict), f"{first} shown first: ", said, spoken),
        *trouble,
        words(verdict.reasoning, "reasoning", f"The judge, {first} shown first"),
        el("p", _origin(battle, verdict), class_="origin"),
        class_="verdict",
    )


def _who(battle: JudgedBattle, verdict: Verdict) -> list[str]:
    """The judge of a panel, and which repeat it was; nothing where there is one judge that was asked once."""
    several = len(battle.judges) > 1
    again = f", time {verdict.repeat}" if isinstance(verdict.repeat, int) else ""
    return [f"{verdict.judge_model if several else 'asked again'}{again}: "] if several or again else []


def _tokens(usage: Usage | None) -> Html | str:
    if usage is None:
        return "tokens not reported by the provider"
    tokens = join([number(usage.input_tokens), " + ", number(usage.output_tokens), " tokens"])
    cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
    return join([tokens, ", ", number(cached), " through the provider’s cache"]) if cached else tokens


def _origin(battle: JudgedBattle, verdict: Verdict) -> Html:
    """The source of a verdict: judge, rubric, time, tokens, and the line of the file."""
    parts: list[str] = [verdict.judge_model, f"rubric {verdict.rubric_version}", verdict.timestamp]
    parts.append(_tokens(verdict.usage))
    if verdict.attempts > 1:
        parts.append(f"asked {verdict.attempts} times")
    if verdict.grade:
        parts.append(f"grade {verdict.grade}")
    if verdict.score_a is not None:
        parts.append(join(["preference for the first shown ", number(verdict.score_a, 3)]))
    parts.append(f"{battle.file} line {battle.line.number}")
    return join([part for part in parts if part], " · ")


def _ways_on(here: Here, battle: JudgedBattle) -> Html:
    before, after = here.site_map.neighbours(battle)
    ways = [
        link(here.pair(battle.dimension, *battle.entrants), "all battles of this pair"),
        link(here.prompt(battle.prompt_id), "everything on this prompt"),
    ]
    if before is not None:
        ways.insert(0, link(here.battle(before), "← previous", rel="prev"))
    if after is not None:
        ways.append(link(here.battle(after), "next →", rel="next"))
    return el("p", *ways, class_="ways")
