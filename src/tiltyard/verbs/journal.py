"""`journal`: the batches of a judge or of an entrant, with their states."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tiltyard.llm import forget_batch as forget_batch
from tiltyard.llm import list_batches
from tiltyard.pages import Table, plural
from tiltyard.verbs.rendered import Rendered


def journal(folder: str | Path) -> Rendered:
    """The batches in a journal, with their states.

    Parameters:
        folder: The folder of batches.jsonl: a verdict cache, or `asking_<entrant>`.
    """
    batches = list_batches(Path(folder))
    heads, rows = ["batch", "provider", "model", "requests", "created", "state"], []
    for batch in batches:
        created = datetime.fromtimestamp(batch.created_at, UTC).strftime("%Y-%m-%d %H:%M")
        state = f"{batch.state} ({batch.why})" if batch.why else batch.state
        rows.append([batch.name, batch.provider, batch.model, f"{batch.requests:,}", created, state])
    lines = Table.of(heads, rows, left=len(heads)).text(ruled=False)
    still = sum(batch.state == "open" for batch in batches)
    lines.append(f"{still} of {plural(len(batches), 'batch')} {'is' if still == 1 else 'are'} open")
    return Rendered(batches, "\n".join(lines))
