"""Down to the words: a prompt once, every answer to it once, and each judgment on it with both judge texts.

A page shows one of these at a time: the battle or prompt that its address names. For a battle, the style sheet hides
the answers and judgments that have no part in it, so no text has to stand on the page twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.pages.markup import Html, el, join, link, number, shortened
from tiltyard.report.sections.battles import badge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltyard.judging.records import Judgment, Verdict
    from tiltyard.llm.records import Usage
    from tiltyard.report.bouts import Bout
    from tiltyard.report.run import Question
    from tiltyard.report.site import Here


def prompt_index(here: Here) -> Html:
    """Every prompt by its source, each a link to all that was answered and judged."""
    groups: dict[str, list[Question]] = {}
    for question in here.run.questions.values():
        groups.setdefault(question.source or "no source", []).append(question)
    parts = [
        el(
            "details",
            el("summary", el("b", source), el("span", number(len(group)), " prompts", class_="aside")),
            el("ul", *[_index_line(here, question) for question in group]),
            class_="card",
            id=f"s{place}",
        )
        for place, (source, group) in enumerate(groups.items())
    ]
    return el("section", el("h2", "Prompts"), *parts, id="prompts")


def _index_line(here: Here, question: Question) -> Html:
    return el("li", link(here.prompt(question.prompt_id), question.prompt_id), " ", el("bdi", shortened(question.text)))


def prompt_view(here: Here, prompt_id: str) -> Html:
    """One prompt: its text, all answers, all judgments."""
    run, site = here.run, here.site
    question = run.questions[prompt_id]
    about = [word for word in (question.source, question.subject) if word]
    answers = [
        _answer(site.entrants[name], name, run.answers[prompt_id, name])
        for name in run.entrants
        if (prompt_id, name) in run.answers
    ]
    return el(
        "article",
        el("p", link(here.section("prompts"), "Prompts"), *[f" / {word}" for word in about], class_="up"),
        el("h3", prompt_id),
        words(question.text, "question", "Prompt"),
        *_expected(question),
        el("div", *answers, class_="answers"),
        *[_bout(here, bout) for bout in site.by_prompt[prompt_id]],
        class_="view prompt",
        id=f"p{site.prompts[prompt_id]}",
    )


def words(value: str, class_: str, label: str | None = None) -> Html:
    """Somebody's text exactly as it is: never markup, its own writing direction, its own line breaks."""
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


def _expected(question: Question) -> list[Html]:
    known = (("Gold answer", question.gold_answer), ("Expected", question.expected_behavior))
    return [
        el("div", el("b", what), " ", el("span", value, dir="auto", class_="words"), class_="gold")
        for what, value in known
        if value
    ]


def _answer(place: int, name: str, answer: str) -> Html:
    return el(
        "div",
        el("h4", name, " ", el("small", number(len(answer)), " characters")),
        words(answer, "response", f"Answer of {name}"),
        class_=f"answer x{place}",
    )


def _bout(here: Here, bout: Bout) -> Html:
    site = here.site
    judgment = here.run.judgment(bout)
    numbers = [site.entrants[name] for name in bout.entrants]
    return el(
        "section",
        el("span", class_=f"mark x{numbers[0]} x{numbers[1]}", id=f"b{bout.number}"),
        el("h4", bout.dimension, ": ", join(bout.entrants, " against "), " ", badge(bout)),
        el("div", *_verdicts(bout, judgment), class_="verdicts"),
        _ways_on(here, bout),
        class_="bout",
    )


def _verdicts(bout: Bout, judgment: Judgment) -> Sequence[Html]:
    if not judgment.raw:
        return [el("p", "No verdict: this match was not judged.", class_="note")]
    return [_verdict(bout, place, verdict) for place, verdict in enumerate(judgment.raw)]


def _verdict(bout: Bout, place: int, verdict: Verdict) -> Html:
    first = bout.entrant_b if verdict.position_swap else bout.entrant_a
    said = el("b", bout.word(place))
    spoken = f" (“{verdict.verdict}”)" if verdict.verdict.readable else ""
    trouble = [el("p", verdict.error, class_="error words", dir="auto")] if verdict.error else []
    return el(
        "div",
        el("h5", f"{first} shown first: ", said, spoken),
        *trouble,
        words(verdict.reasoning, "reasoning", f"The judge, {first} shown first"),
        el("p", _origin(bout, verdict), class_="origin"),
        class_="verdict",
    )


def _tokens(usage: Usage | None) -> Html | str:
    if usage is None:
        return "tokens not stated by the provider"
    tokens = join([number(usage.input_tokens), " + ", number(usage.output_tokens), " tokens"])
    cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
    return join([tokens, ", ", number(cached), " through the provider’s cache"]) if cached else tokens


def _origin(bout: Bout, verdict: Verdict) -> Html:
    """Where the words come from: judge, rubric, time, tokens, and the line of the file."""
    parts: list[str] = [verdict.judge_model, f"rubric {verdict.rubric_version}", verdict.timestamp]
    parts.append(_tokens(verdict.usage))
    if verdict.attempts > 1:
        parts.append(f"asked {verdict.attempts} times")
    if verdict.score_a is not None:
        parts.append(join(["preference for the first shown ", number(verdict.score_a, 3)]))
    parts.append(f"{bout.file} line {bout.line.number}")
    return join([part for part in parts if part], " · ")


def _ways_on(here: Here, bout: Bout) -> Html:
    before, after = here.site.neighbours[bout.number]
    ways = [
        link(here.pair(bout.dimension, *bout.entrants), "all battles of the two"),
        link(here.prompt(bout.prompt_id), "everything on this prompt"),
    ]
    if before is not None:
        ways.insert(0, link(here.bout(before), "← previous", rel="prev"))
    if after is not None:
        ways.append(link(here.bout(after), "next →", rel="next"))
    return el("p", *ways, class_="ways")
