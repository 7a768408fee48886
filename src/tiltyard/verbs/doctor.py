"""`arena doctor`: a look over a deployment."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import date
from pathlib import Path

from tiltyard.arena import Arena
from tiltyard.errors import StoreError, TiltyardError
from tiltyard.web import checkup
from tiltyard.web.checkup import CheckupLine
from tiltyard.web.settings import check_web_address, secrets_of


def findings(db: str, url: str | None, backups: Path | None) -> list[CheckupLine]:
    """The lines of all checks that can be made with what was given."""
    address = None if url is None else check_web_address(url)
    now, secret = time.time(), secrets_of()[0]
    try:
        with Arena.open(db) as arena:
            lines = [*checkup.check_store(arena.store, arena.read(lambda state: state.policy), now)]
            lines += checkup.check_secrets(arena.store)
            with suppress(StoreError):  # named by now
                secret = secret or arena.store.outside.secrets(date.today())
    except (TiltyardError, OSError) as error:
        lines = [checkup.repair("database", str(error), "Check its disk, the rights of its folder, and --db.")]
        lines += checkup.check_secrets(None)
    if backups is not None:
        lines.append(checkup.check_backups(backups, now))
    else:
        lines.append(checkup.look("backups", "not checked", "Name their folder: --backups DIR"))
    if address is not None:
        lines += checkup.check_site(address, secret.partition(",")[0])
    else:
        lines.append(checkup.look("site", "not checked", "Name the address that visitors use: --url URL"))
    return lines
