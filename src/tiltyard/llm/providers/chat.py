"""The chat-completions format: a `Request` as a body, a completion as a `Reply`. It knows no SDK and no network."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from tiltyard.llm.providers.wording import encodable, one_line
from tiltyard.llm.records import Reply, Stop, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tiltyard.llm.records import Request

_TOP_LOGPROBS = 20
_STOPS = {"length": Stop.LENGTH, "content_filter": Stop.REFUSAL}
_CODES = {"batch_expired": "expired", "batch_cancelled": "canceled"}
_POINTLESS = frozenset({400, 404, 413, 422})

choice_words: dict[str, Callable[[Sequence[str]], dict[str, Any]]] = {
    "structured_outputs": lambda choices: {"structured_outputs": {"choice": list(choices)}},
    "guided_choice": lambda choices: {"guided_choice": list(choices)},
    "grammar": lambda choices: {"grammar": "root ::= " + " | ".join(json.dumps(choice) for choice in choices)},
}
"""How servers are told to allow nothing but a few words, by the name of the parameter."""


def chat_request(
    request: Request, *, budget: str, logprobs: bool = False, guided_choice: str | None = None
) -> dict[str, Any]:
    """The body of a chat completion. `budget` is the server's word for the most tokens to write."""
    system = [("system", request.system)] if request.system else []
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [{"role": role, "content": words} for role, words in [*system, *request.messages]],
        budget: request.max_tokens,
    }
    if logprobs and request.choices:
        body |= {"logprobs": True, "top_logprobs": _TOP_LOGPROBS}
        if guided_choice:
            body |= choice_words[guided_choice](request.choices)
    return body | request.options


def chat_reply(completion: dict[str, Any], choices: Sequence[str] = (), *, batched: bool = False) -> Reply:
    """A completion as a reply. A completion without a choice is an error, not an empty answer."""
    usage, model = _usage(completion.get("usage") or {}), completion.get("model")
    if not completion.get("choices"):
        return Reply(error="errored: no choices", usage=usage, model=model, batched=batched)
    first = completion["choices"][0]
    message = first.get("message") or {}
    declined = message.get("refusal")
    tokens = (first.get("logprobs") or {}).get("content") or []
    return Reply(
        text=encodable(message.get("content") or declined or ""),
        stop=Stop.REFUSAL if declined else _STOPS.get(first.get("finish_reason"), Stop.END),
        usage=usage,
        model=model,
        batched=batched,
        choice_probabilities=choice_probabilities(tokens, choices) if choices else None,
    )


def batch_reply(line: dict[str, Any]) -> Reply:
    """One line of a batch's output or error file; without a completion, `text` holds the provider's own words."""
    response = line.get("response") or {}
    status, body = response.get("status_code", 0), response.get("body") or {}
    if status == 200:
        return chat_reply(body, batched=True)
    problem = line.get("error") or body.get("error") or {}
    code = problem.get("code") or ""
    if code in _CODES:
        return Reply(error=_CODES[code], batched=True)
    kind = problem.get("type") or code or f"status {status}"
    words = one_line(str(problem.get("message") or kind))
    return Reply(text=words, error=f"errored: {kind}", final=status in _POINTLESS, batched=True)


def choice_probabilities(tokens: Sequence[dict[str, Any]], choices: Sequence[str]) -> dict[str, float] | None:
    """How likely each choice was, given that it was one of them; None where the server did not say.

    Read from the alternatives to the first token that is more than blank. A token stands for a choice if it spells it,
    or if it begins this choice and no other (`T` begins `TIE`).
    """
    for token in tokens:
        if not token["token"].strip():
            continue
        shares = dict.fromkeys(choices, 0.0)
        for alternative in token.get("top_logprobs") or [token]:
            choice = _choice_of(alternative["token"].strip(), choices)
            if choice is not None:
                shares[choice] += math.exp(alternative["logprob"])
        total = math.fsum(shares.values())
        return {choice: share / total for choice, share in shares.items()} if total > 0 else None
    return None


def _choice_of(token: str, choices: Sequence[str]) -> str | None:
    if token in choices:
        return token
    begun = [choice for choice in choices if token and choice.startswith(token)]
    return begun[0] if len(begun) == 1 else None


def _usage(usage: dict[str, Any]) -> Usage:
    """OpenAI counts cached tokens among the prompt's; ours stand apart."""
    details = usage.get("prompt_tokens_details") or {}
    read, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
    return Usage(
        input_tokens=max(0, (usage.get("prompt_tokens") or 0) - read - written),
        output_tokens=usage.get("completion_tokens") or 0,
        cache_creation_input_tokens=written,
        cache_read_input_tokens=read,
    )
