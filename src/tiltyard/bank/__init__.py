"""What was asked and what was answered: prompts, responses, their files, and stratified subsets."""

from tiltyard.bank.prompts import PILOT_SEED, PILOT_SIZE, Prompt, largest_remainder, read_prompts, stratified_subset
from tiltyard.bank.responses import AnswerKind, Response, append_responses, read_responses, responses_path

__all__ = [
    "PILOT_SEED",
    "PILOT_SIZE",
    "AnswerKind",
    "Prompt",
    "Response",
    "append_responses",
    "largest_remainder",
    "read_prompts",
    "read_responses",
    "responses_path",
    "stratified_subset",
]
