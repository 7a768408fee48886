"""Small puzzles that cost a visitor's browser a moment and a flood of sessions a machine: no third party, no picture.

A puzzle is a random text that this site signed for one voter and a time. It is solved by a number: the SHA-256 of
`text:number` must begin with as many zero bits as the policy says. Whoever cannot compute, because the browser runs no
scripts, waits instead. A puzzle is good for one solution, and void once a later one was paid with: nobody can fetch
several and wait once; nor with several cookies, because the waits of one network come one after the other.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from tiltyard.arena.units import SECOND
from tiltyard.arena.visitor_rules import EntryRules
from tiltyard.web.cookies import derived_key
from tiltyard.web.failures import Failure

GOOD_SECONDS = 900
"""How long a puzzle can be solved; longer than anybody has to wait."""

SHAPE = re.compile(r"([0-9]{1,18})\.([A-Za-z0-9_-]{16})\.([0-9a-f]{32})\Z", re.ASCII)
NUMBER = re.compile(r"[0-9]{1,20}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Puzzle:
    """What a visitor has to solve: `text`, the zero `bits`, or how many seconds to wait instead."""

    text: str
    bits: int
    wait_seconds: int


@dataclass(frozen=True, slots=True)
class SolvedPuzzle:
    """A puzzle that may be used once; after `expires_at` nobody can use it anyway. Times are microseconds.

    `waited`: nothing was computed for it.
    """

    name: str
    made_at: int
    expires_at: int
    waited: bool = False


class Puzzles:
    """Makes puzzles, and checks solutions. Nothing is stored until one is solved."""

    def __init__(self, secret: str) -> None:
        self._key = derived_key(secret, "puzzle")

    def make(self, voter: str, rules: EntryRules, now: int) -> Puzzle:
        """A puzzle for this voter."""
        begun = f"{now}.{secrets.token_urlsafe(12)}"
        return Puzzle(f"{begun}.{self._signature(begun, voter)}", rules.puzzle_bits, rules.puzzle_wait_seconds)

    def check(self, text: str, number: str, voter: str, rules: EntryRules, now: int) -> SolvedPuzzle:
        """The solved puzzle; a wrong, foreign or old one is refused. Without a number, the wait must be over."""
        result = SHAPE.match(text)
        if result is None or not hmac.compare_digest(result[3], self._signature(f"{result[1]}.{result[2]}", voter)):
            raise _refused("the puzzle was not made for this visit. Ask for another.")
        made_at = int(result[1])
        age = (now - made_at) // SECOND
        if not 0 <= age <= GOOD_SECONDS:
            raise _refused("the puzzle is too old. Ask for another.")
        solved = NUMBER.match(number) is not None and zero_bits(f"{text}:{number}") >= rules.puzzle_bits
        if not solved and age < rules.puzzle_wait_seconds:
            left = rules.puzzle_wait_seconds - age
            raise _refused(f"the puzzle is not solved. Solve it, or come back in {left} seconds.")
        expires_at = made_at + (GOOD_SECONDS + 1) * SECOND
        return SolvedPuzzle(f"puzzle:{result[2]}", made_at, expires_at, waited=not solved)

    def _signature(self, begun: str, voter: str) -> str:
        return hmac.digest(self._key, f"{begun}\n{voter}".encode(), "sha256").hex()[:32]


def zero_bits(text: str) -> int:
    """How many zero bits the SHA-256 of a text begins with."""
    return 256 - int.from_bytes(hashlib.sha256(text.encode()).digest(), "big").bit_length()


def _refused(message: str) -> Failure:
    return Failure(403, "puzzle_unsolved", message)
