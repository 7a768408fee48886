"""Rate a file of battles in Python: read, rate, query the board, compare methods.

Run it from the top folder of a clone: python examples/rate_in_python.py
"""

from pathlib import Path

import tiltyard as ty

HERE = Path(__file__).parent


def main() -> None:
    """Print a board and what you can read from it."""
    # A table holds columns, not records. Any file of battles works; a bad row is an error with its line and what to do.
    table = ty.read_battles(HERE / "birds.jsonl")
    print(f"{table.n_battles:,.0f} battles of {len(table.models)} models")

    # Bradley–Terry with ties by Davidson's model; the intervals treat votes on one question as dependent.
    board = ty.rate(table)
    print(board)

    # A board is a list of entries, best first; look one up by name.
    heron = board["heron"]
    print(f"heron: {heron.rating:.0f}, between {heron.ci_low:.0f} and {heron.ci_high:.0f}")
    print(f"heron's place: {heron.rank_low} to {heron.rank_high}")

    # A difference in rating gives the chance of winning a decisive battle.
    gap = board["osprey"].rating - heron.rating
    print(f"osprey should win {1 / (1 + 10 ** (-gap / 400)):.0%} of its decisive battles against heron")

    # Other methods on the same battles. Each is a class with its parameters; `fit` takes the battles.
    shuffled = ty.PermutationElo(n_perms=100).fit(table)
    live = ty.Glicko2().fit(table)
    for name, other in (("Elo over shuffles", shuffled), ("Glicko-2", live)):
        print(f"{name}: Kendall's tau with Bradley–Terry {other.changes_since(board).kendall_tau:.2f}")

    # One board for each topic.
    for topic, part in ty.rate_by(HERE / "birds.jsonl", "category", ci="none").boards.items():
        print(f"{topic}: {', '.join(part.models[:3])}, …")


if __name__ == "__main__":
    main()
