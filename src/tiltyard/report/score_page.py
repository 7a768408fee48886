"""The self-contained page of a comparison of scores: the sentence, the parts, and the prompts that decide it."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.decisions import Difference
from tiltyard.decisions.words import as_html
from tiltyard.pages.escaping import Html
from tiltyard.pages.html import page
from tiltyard.report.page import own_file


def score_page(answers: Sequence[Difference]) -> str:
    """The page of two models by one metric or several."""
    first = answers[0]
    sections = [(one.scores.metric if one.scores is not None else "", Html(as_html(one))) for one in answers]
    title = f"{first.new} against {first.old}"
    return page("report/scores.html", title=title, style=own_file("style.css"), first=first, sections=sections)
