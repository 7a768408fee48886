"""Do two boards disagree, or do they only differ? Two halves of the same votes, compared.

Run it from the top folder of a clone: python examples/compare_boards.py
"""

from pathlib import Path

import tiltyard as ty

BATTLES = Path(__file__).parent / "birds.jsonl"
HALF = 1_760_360_000  # votes before and after this second


def main() -> None:
    """Compare the board of the earlier votes with that of the later ones."""
    earlier = ty.rate(BATTLES, where=f"timestamp < {HALF}")
    later = ty.rate(BATTLES, where=f"timestamp >= {HALF}")
    print(f"{earlier.n_battles:,.0f} earlier votes, {later.n_battles:,.0f} later ones")

    comparison = later.changes_since(earlier)
    print(f"Kendall's tau {comparison.kendall_tau:.2f}, Spearman's rho {comparison.spearman_rho:.2f}")

    for change in comparison.changes:
        before, after = earlier[change.model], later[change.model]
        # Two rank ranges that do not overlap contradict each other. A changed place alone is often luck.
        contradiction = before.rank_high < after.rank_low or after.rank_high < before.rank_low
        verdict = "contradicts" if contradiction else "is compatible with"
        print(
            f"{change.model:10} place {before.rank} → {after.rank}: "
            f"{after.rank_low}–{after.rank_high} {verdict} {before.rank_low}–{before.rank_high}"
        )


if __name__ == "__main__":
    main()
