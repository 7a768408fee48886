"""Conversations of several turns as one text."""

from collections.abc import Sequence


def show_turns(texts: Sequence[str]) -> str:
    """The texts of one side of a conversation, one labelled `Turn N:` block each; a single text stays as it is.

    Used for the user's messages and for a model's replies alike, so that a judge sees both sides in one form.
    """
    if len(texts) == 1:
        return texts[0]
    return "\n\n".join(f"Turn {number}:\n{text}" for number, text in enumerate(texts, start=1))
