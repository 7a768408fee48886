"""The live arena: matchmaking lanes, the vote log and its store, boards, integrity. No pages.

`tiltyard.arena.store` needs the `[arena]` extra.
"""
