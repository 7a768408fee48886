"""What an operator or an outsider checks: the log against its tables, and witness files, which are made here too."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.arena.audit import verify
    from tiltyard.arena.audit.verify import Verification
    from tiltyard.arena.audit.witnessing import state_head, witness_lines

__getattr__ = names_on_demand(__name__)
