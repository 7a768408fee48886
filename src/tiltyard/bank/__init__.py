"""What was asked and what was answered: prompts, responses, their files, and stratified subsets."""

from tiltyard.bank.prompts import Prompt, read_prompts
from tiltyard.bank.responses import Response, append_responses, read_responses, responses_path
from tiltyard.bank.subsets import PILOT_SEED, PILOT_SIZE, largest_remainder, stratified_subset

__all__ = [
    "PILOT_SEED",
    "PILOT_SIZE",
    "Prompt",
    "Response",
    "append_responses",
    "largest_remainder",
    "read_prompts",
    "read_responses",
    "responses_path",
    "stratified_subset",
]
