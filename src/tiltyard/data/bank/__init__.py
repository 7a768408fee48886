"""What was asked and what was answered: prompts, responses, their files, and stratified subsets."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.data.bank.answer_files import (
        AnswerCollection,
        AnswerFile,
        collect_answers,
        read_answer_file,
        read_prompt_file,
    )
    from tiltyard.data.bank.images import Image, ImageFinder, count_images, is_image_type
    from tiltyard.data.bank.prompts import (
        PILOT_SEED,
        PILOT_SIZE,
        EarlierTurn,
        PlainValue,
        Prompt,
        convert,
        largest_remainder,
        read_objects,
        read_prompts,
        read_text_prompts,
        show_turns,
        stratified_subset,
    )
    from tiltyard.data.bank.responses import (
        LEAST_CHARACTERS,
        STYLE,
        AnswerKind,
        AnswerStyles,
        Response,
        answer_path,
        append_responses,
        for_people,
        measure_style,
        read_responses,
        read_steps,
        render_transcript,
        require_text,
        responses_path,
    )

__all__ = [
    "PILOT_SEED", "PILOT_SIZE", "AnswerKind", "Prompt", "Response", "append_responses", "largest_remainder",
    "read_prompts", "read_responses", "responses_path", "stratified_subset",
]

__getattr__ = names_on_demand(__name__)
