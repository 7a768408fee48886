"""The page about the bank: how many prompts are served, fresh or retired, and how much of the answers is known."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tiltyard.arena.following.snapshots import Snapshot
from tiltyard.arena.rotation import OFTEN, BankExposure, bank_exposure
from tiltyard.web.pages import CHECKED, prepared
from tiltyard.web.rendering import render
from tiltyard.web.site import Site, site_of


async def bank(request: Request) -> Response:
    """How much of the bank is exposed. No prompt, answer or model is named."""
    site = site_of(request)
    facts = site.facts()

    def make(snapshot: Snapshot) -> bytes:
        result = exposure_of(site)
        view = {"bank": result, "groups": named_groups(result), "often": OFTEN, "rules": snapshot.policy.bank}
        return render("bank.html", facts, view, here="validity").encode()

    return await prepared(request, ("bank.html", facts), make, "text/html", CHECKED)


def exposure_of(site: Site) -> BankExposure:
    """How much of the bank is known, up to what is published."""
    return site.observatory.look(lambda state, _: bank_exposure(state), "bank exposure")


def named_groups(exposure: BankExposure) -> list[dict[str, Any]]:
    """How many answers were named how often, in groups: the last one has no end."""
    ends = [start - 1 for start, _ in exposure.named_groups[1:]]
    groups = zip(exposure.named_groups, [*ends, None], strict=True)
    return [{"at_least": start, "at_most": end, "answers": answers} for (start, answers), end in groups]


def bank_values(site: Site, snapshot: Snapshot) -> dict[str, Any]:
    """What the page shows, as plain values."""
    result, rules = exposure_of(site), snapshot.policy.bank
    return {
        "seq": snapshot.seq,
        "votes": result.votes,
        "prompts": {
            "on": result.prompts_on,
            "fresh": result.prompts_fresh,
            "resting": result.prompts_resting,
            "reserved": result.prompts_reserved,
            "retired": result.prompts_retired,
        },
        "answers": {
            "on": result.answers,
            "never_named": result.answers_never_named,
            "often_named": result.answers_often_named,
            "often": OFTEN,
            "exposed_share": result.exposed,
            "median_named": result.median_named,
            "most_named": result.most_named,
            "self_naming": result.answers_telling,
            "withheld": result.answers_withheld,
            "named_by_a_vote": result.named_by_a_vote,
            "named": named_groups(result),
        },
        "learning": [
            {"share": share, "votes": one_block, "votes_from_50_blocks": many}
            for share, one_block, many in result.learning
        ],
        "rules": {name: getattr(rules, name) for name in rules.__struct_fields__},
    }


ROUTES = [
    Route("/bank", bank),
]
