"""The verbs of an arena's log: verify it, back it up, publish its head, write its witness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from tiltyard.arena import HeadFile, clock, kept_heads, new_key, parse_heads, read_named, trusted_keys
from tiltyard.arena.audit import Verification, state_head, witness_lines
from tiltyard.arena.audit import verify as checking
from tiltyard.arena.store import NewHead, Store, open_store, public_head, record_head
from tiltyard.errors import OptionError, TiltyardError
from tiltyard.files import json_line, write_bytes, write_private
from tiltyard.render import day, plural
from tiltyard.verbs.arena import shown_url


def verify(
    db: str,
    heads: Sequence[str],
    keys: Sequence[str],
    since: Path | None,
    note: Callable[[str], None],
    *,
    rebuild: bool = False,
) -> tuple[list[str], TiltyardError | None]:
    """Read the log once, recompute what follows from it and compare: what agrees, and what does not."""
    kept, trusted = kept_heads(heads), trusted_keys(keys)
    if rebuild:
        checking.rebuild(db)
        note("the table of matchups was written anew from the log")
    result = checking.verify(db, kept, trusted, None if since is None else _signed_head(since))
    lines = [f"{result.events:,} events, {result.votes:,} counted votes", f"head: {result.head}"]
    lines += map(str, result.problems)
    if any(problem.table == "head" for problem in result.problems):
        return lines, TiltyardError(
            f"{shown_url(db)}: the log is not the one whose heads were kept: it was cut or rewritten. "
            "Restore a backup whose log contains them."
        )
    if not result.clean:
        more = f" (and {result.more_problems} more)" if result.more_problems else ""
        return lines, TiltyardError(
            f"{shown_url(db)}: {len(result.problems)}{more} tables or rows are not as the log says. If the log "
            "itself is intact, --rebuild writes the matchups anew."
        )
    return [*lines, *_agreement(result, len(kept))], None


def _agreement(result: Verification, kept: int) -> Iterator[str]:
    """What agrees with what, and whom one has to trust for the rest."""
    log = "the log and all that follows from it agree"
    if result.since:
        log += f" since event {result.since:,}; what came before was not read again"
    yield f"{log}: matchups, checkpoints, texts, files"
    if result.published:
        last, first = result.published[0], result.published[-1]
        signed = Counter(one.file.key for one in result.published if one.file is not None)
        by = "".join(f", {number:,} signed by {key}" for key, number in signed.items())
        when = day(last.at) if first is last else f"{day(first.at)} to {day(last.at)}"
        heads = plural(len(result.published), "published head")
        yield f"{heads} ({when}){by}: rows, boards, signatures and times agree with the log"
    if kept:
        heads = "the head" if kept == 1 else f"all {kept} heads"
        yield f"the public rows lead to {heads} given: up to there nothing was changed since"
    else:
        yield "whoever holds the database could have written all of it: only a head kept elsewhere can tell (--head)"


def _signed_head(path: Path) -> HeadFile:
    """The signed head of a file, with the digest of the state that is kept there."""
    for file in parse_heads(read_named(f"@{path}"), str(path)):
        if isinstance(file, HeadFile) and file.signature and isinstance(file.stated.state, str):
            if wrong := file.wrong():
                raise OptionError(f"{path}: {wrong}.")
            return file
    raise OptionError(f"{path} is no signed head. `tiltyard arena head --sign KEY --out FILE` writes one.")


def backup(db: str, out: Path) -> str:
    """Copy an arena in SQLite to one file while it is in use; the head of the copy."""
    with closing(open_store(db)) as store:
        store.database.copy(out)
    with closing(Store.open(f"sqlite:///{out}")) as copied:
        return str(public_head(copied, clock()))


def publish_head(db: str, sign: Path | None, out: Path | None, title: str, next_key: str | None) -> NewHead:
    """Publish the head of the public rows in the arena's history of heads, and in a file, signed by a key."""
    named = trusted_keys([next_key]) if next_key is not None else []
    if len(named) > 1 or (named and sign is None):
        raise OptionError("--next-key is one public key, and the present key vouches for it: give --sign too.")
    pem = None if sign is None else sign.read_bytes()
    with closing(Store.open(db)) as store:
        new = state_head(store, clock(), title=title, pem=pem, next_key="".join(named))
        if out is not None:  # first: a head that could not be written is not in the history either
            write_bytes(out, json_line(new.file), new_folder=False)
        record_head(store, new, clock())
    return new


def make_key(path: Path) -> str:
    """Write a new private key, readable by its owner alone; the public one."""
    if path.exists():
        raise OptionError(f"{path} is there already. A key overwrites nothing: name another file.")
    pem, public = new_key()
    write_private(path, pem)
    return public


@contextmanager
def witness(db: str, title: str) -> Iterator[Iterable[bytes]]:
    """The public rows, from which anybody recomputes head and board without the database."""
    with closing(Store.open(db)) as store:
        yield witness_lines(store, clock(), title)
