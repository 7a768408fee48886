"""The live arena: matchmaking lanes, the vote ledger and its store, projections, integrity. No pages.

`tiltyard.arena.store` needs the `[arena]` extra.
"""
