"""A process that serves and votes until it is killed or told to stop, and says what was acknowledged.

`python -m tests.arena.voting_process URL NAME CLIENTS SECONDS`: prints `ready`, then after each acknowledged vote
`matchup voter choice`, each line in one write. A vote that could not be confirmed is sent again: that must be safe.
"""

from __future__ import annotations

import os
import sys
import threading
import time

import numpy as np

from tests.arena.engines import CHOICES, any_matchup
from tiltyard.arena import Arena
from tiltyard.arena.store import Store
from tiltyard.errors import StoreError


def main(url: str, name: str, clients: int, seconds: float) -> None:
    arena = Arena(Store.open(url), chooser=any_matchup, rng=np.random.default_rng(sum(name.encode())))
    os.write(1, b"ready\n")
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=client, args=(arena, f"{name}-{number}", end)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    arena.close()


def client(arena: Arena, voter: str, end: float) -> None:
    rng = np.random.default_rng(sum(voter.encode()))
    voted = False
    while time.monotonic() < (end if voted else end + 60):  # on a starved machine, too, everybody votes
        try:
            served = arena.serve(voter)
        except StoreError:
            time.sleep(0.05)
            continue
        choice = CHOICES[rng.integers(4)]
        while time.monotonic() < end + 60:
            try:
                arena.vote(served.matchup_id, voter, choice)
            except StoreError:
                time.sleep(0.05)
                continue
            os.write(1, f"{served.matchup_id} {voter} {choice}\n".encode())
            voted = True
            break


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
