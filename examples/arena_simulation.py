"""Try an arena before anybody visits it: simulated voters, known strengths, and the real matchmaking.

How many votes does an arena of ten models need until its order is right? And what do voters who always vote for one
model gain? Needs the extra: pip install '.[arena]'.

Run it: python examples/arena_simulation.py
"""

from tiltyard.arena.simulation import Attack, SimulationSettings, simulate


def main() -> None:
    """Let a small crowd vote, honestly and not."""
    for votes in (100, 300, 900):
        result = simulate(SimulationSettings(models=10, prompts=8, votes=votes, in_flight=5, seed=1))
        print(
            f"{votes:5,} votes: Kendall's tau to the truth {result.kendall_tau:.2f}, "
            f"{result.in_tolerance} of {result.models} models served within tolerance, {result.established} established"
        )

    # Some voters always prefer the same model, and are honest otherwise.
    rigged = simulate(
        SimulationSettings(models=10, prompts=8, votes=900, in_flight=5, seed=1, attack=Attack("rigging", 0.1))
    )
    print(
        f"{rigged.attack.votes} rigged votes took {rigged.attack.target} from place {rigged.attack.rank_honest_votes}"
    )
    print(f"to {rigged.attack.rank_undefended}; with flagged sessions left out, to {rigged.attack.rank_defended}")


if __name__ == "__main__":
    main()
