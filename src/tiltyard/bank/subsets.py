"""Stratified subsets of a bank: a pilot that looks like the whole."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.errors import BankError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tiltyard.bank.prompts import Prompt

PILOT_SIZE = 50
PILOT_SEED = 20260427
"""The seed's own: a pilot of the same bank is the same fifty prompts everywhere."""


def largest_remainder(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """`total` places divided in proportion to `sizes` (Hamilton's method): 24, 69 and 50 get 8, 24 and 18 of 50.

    Equal remainders go to the larger stratum, then to the first.
    """
    whole = sum(sizes.values())
    shares = {name: size * total / whole for name, size in sizes.items()}
    places = {name: int(share) for name, share in shares.items()}
    order = sorted(sizes, key=lambda name: (places[name] - shares[name], -sizes[name]))
    for name in order[: total - sum(places.values())]:
        places[name] += 1
    return places


def stratified_subset(
    prompts: Sequence[Prompt],
    *,
    size: int = PILOT_SIZE,
    seed: int = PILOT_SEED,
    strata: Mapping[str, int] | None = None,
) -> list[Prompt]:
    """A seeded subset in the bank's order, with each source's share of places, or the places given in `strata`."""
    sizes = Counter(prompt.source for prompt in prompts)
    if strata is None:
        if size > len(prompts):
            raise BankError(f"a pilot of {size} prompts cannot be drawn from a bank of {len(prompts)}. Ask for fewer.")
        strata = largest_remainder(sizes, size)
    for source, wanted in strata.items():
        if wanted > sizes[source]:
            raise BankError(f"the pilot wants {wanted} prompts of source {source!r}, the bank has {sizes[source]}.")
    rng = np.random.default_rng(seed)
    chosen: set[int] = set()
    for source in sorted(strata):
        places = [place for place, prompt in enumerate(prompts) if prompt.source == source]
        chosen.update(places[pick] for pick in rng.choice(len(places), strata[source], replace=False).tolist())
    return [prompt for place, prompt in enumerate(prompts) if place in chosen]
