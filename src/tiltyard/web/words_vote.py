"""The English text of the vote page, of its answers, and of everything that can go wrong on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "start.title": "Vote on AI answers",
    "start.heading": "Which AI answers better? You decide.",
    "start.what": (
        "You see one prompt and two answers, and say which is better; you learn who wrote them only after your vote. "
        "All votes together make the leaderboard."
    ),
    "start.button": "Start voting",
    "start.board": "See the leaderboard",
    "start.note": (
        "No account, no name: a random cookie keeps your votes together. Nothing is stored before you start, and you "
        "can have the link deleted at any time."
    ),
    "vote.title": "Which answer is better?",
    "vote.heading": "Which answer is better?",
    "vote.how": "Two models answered the same prompt. You learn which ones once your vote is final.",
    "vote.prompt": "Prompt",
    "vote.answer_a": "Answer A",
    "vote.answer_b": "Answer B",
    "vote.expand": "Show in full",
    "vote.show": "Show",
    "vote.show_both": "Both",
    "vote.show_a": "A",
    "vote.show_b": "B",
    "vote.your_choice": "Your vote",
    "vote.choose_a": "A is better",
    "vote.choose_b": "B is better",
    "vote.choose_tie": "Tie",
    "vote.choose_both_bad": "Both bad",
    "vote.skip": "Skip",
    "vote.keys": "Keys",
    "vote.keys_note": "They work while the page has the focus, not while you type or scroll sideways in an answer.",
    "vote.key_a": "A is better",
    "vote.key_b": "B is better",
    "vote.key_tie": "tie",
    "vote.key_both_bad": "both bad",
    "vote.key_skip": "skip",
    "vote.key_next": "next pair",
    "vote.key_show": "show the names",
    "vote.key_undo": "undo",
    "vote.key_help": "this list",
    "vote.empty_answer": "This answer is empty.",
    "vote.plain": "Shown as plain text, because it is very long.",
    "vote.image": "image: {said}",
    "vote.image_unnamed": "image",
    "vote.ready": "New pair. Prompt and answers A and B are shown.",
    "vote.sending": "Saving …",
    "vote.not_saved": "It could not be sent, and nothing was counted. Your connection may be down; try again.",
    "held.title": "Your vote is saved",
    "held.heading_a": "You chose A",
    "held.heading_b": "You chose B",
    "held.heading_tie": "You called it a tie",
    "held.heading_both_bad": "You found both bad",
    "held.note": "Your vote is saved. You can undo it for {seconds} s, or until you see the names.",
    "held.over": "Your vote is saved, and the time to undo it is over.",
    "held.announce": "Your vote is saved. The names come in {seconds} seconds. U undoes it, Enter shows them now.",
    "held.show": "Show the names",
    "held.undo": "Undo",
    "held.next": "Next pair",
    "undone.title": "Your vote is undone",
    "undone.text": "It counts for nothing. This pair does not come back, and its names stay unknown.",
    "result.title": "Your vote is counted",
    "result.heading_a": "You chose {name}",
    "result.heading_b": "You chose {name}",
    "result.heading_tie": "You called it a tie",
    "result.heading_both_bad": "You found both bad",
    "result.saved": "Your vote is on record, and final.",
    "result.chosen": "your choice",
    "result.rating_now": "rating now",
    "result.moved": "{change} by your vote",
    "result.unmoved": "not moved by your vote",
    "result.model_page": "About {name}",
    "result.others": "How others voted on these two",
    "result.others_none": "Nobody else has voted on these two so far. Yours is the first vote.",
    "result.others_one": "1 other vote, over all prompts.",
    "result.others_many": "{total} other votes, over all prompts.",
    "result.for": "{name} better",
    "result.ties": "tie",
    "result.both_bad": "both bad",
    "result.next": "Next pair",
    "result.compare": "Compare the two",
    "error.title": "That did not work",
    "error.again": "Go to a new pair",
    "error.board": "See the leaderboard",
    "error.bad_request.heading": "That request cannot be read",
    "error.bad_request.text": "Something in it is missing or malformed. Go back, reload the page and try again.",
    "error.stale_form.heading": "This form is out of date",
    "error.stale_form.text": (
        "It was made for another visit, or your browser refuses cookies. Nothing was counted. Reload the page and try "
        "again."
    ),
    "error.foreign_origin.heading": "That came from another site",
    "error.foreign_origin.text": "Votes are only taken from this site's own pages. Nothing was counted.",
    "error.not_found.heading": "There is nothing here",
    "error.not_found.text": "The address is wrong, or what it named is gone.",
    "error.not_yours.heading": "There is no such pair for you",
    "error.not_yours.text": "It belongs to another visit, or never existed. Nothing was counted.",
    "error.method_not_allowed.heading": "That is not how this address is used",
    "error.method_not_allowed.text": "Go back and use the page's own buttons.",
    "error.choice_differs.heading": "You have voted on this pair already",
    "error.choice_differs.text": ("Your first vote stands, and this one was not counted. A vote cannot be changed."),
    "error.gone.heading": "This pair is closed",
    "error.gone.text": "It was skipped, undone, or left too long. Nothing was counted; there is a new one for you.",
    "error.no_vote.heading": "You have not voted on this pair yet",
    "error.no_vote.text": "Its names are shown after your vote.",
    "error.too_late.heading": "It is too late for that",
    "error.too_late.text": (
        "A vote can be undone for a few seconds and only until its names are shown; a pair is skipped before the vote."
    ),
    "error.too_large.heading": "That is too much at once",
    "error.too_large.text": "The request is larger than anything this site asks for.",
    "error.unsupported_media_type.heading": "That is in a form that is not understood here",
    "error.unsupported_media_type.text": "Use the page's own buttons.",
    "error.too_many.heading": "Slow down a little",
    "error.too_many.text": (
        "There is a limit to how much one visitor, or one address, may do in a while. Nothing was counted this time; "
        "wait a moment, then go on."
    ),
    "error.nothing_to_serve.heading": "There is no pair to show",
    "error.nothing_to_serve.text": "No two models here have answered the same prompt yet. Please come back later.",
    "error.busy.heading": "Very busy just now",
    "error.busy.text": (
        "More people are here than the arena can serve at once, so this request was not begun: if it was a vote, send "
        "it again in a few seconds. Votes that were confirmed before stand."
    ),
    "error.unavailable.heading": "The arena cannot write just now",
    "error.unavailable.text": (
        "Its database did not confirm that anything was saved, so nothing is shown as counted. Try again in a moment; "
        "sending the same vote twice counts it once."
    ),
    "error.internal.heading": "Something broke on our side",
    "error.internal.text": "It is noted. If you were voting, look again: the page says whether your vote was counted.",
}
