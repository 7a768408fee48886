"""Records with other values, whatever kind of record they are."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

Record = TypeVar("Record")


def replace(record: Record, **changes: Any) -> Record:
    """The same record with other values: a struct, or a dataclass."""
    of: Any = record
    made: Record = (msgspec.structs if isinstance(of, msgspec.Struct) else dataclasses).replace(of, **changes)
    return made
