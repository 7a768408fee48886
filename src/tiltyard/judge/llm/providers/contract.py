"""The contract of every provider, as checks that anyone can run against their own.

    asyncio.run(check_provider(MyProvider(), model="my-model"))

The checks send real requests: a handful of short ones, and one batch of three.
"""

from __future__ import annotations

import asyncio

import msgspec

from tiltyard.errors import Refused
from tiltyard.judge.llm.provider import BatchProvider, BatchState, Provider, Reply, Request, Stop

_SIZE = 3
_AWKWARD = (
    'Say a few words about «naïve façade», "quotes", \\back\\slashes\\, 日本語 and 🦦.\nThen stop.\r\n\tThank you.'
)


class ContractBroken(AssertionError):
    """A provider does not do what the runners rely on: the message says what."""


def _hold(holds: bool, broken: str) -> None:
    if not holds:
        raise ContractBroken(broken)


async def check_provider(provider: Provider, *, model: str) -> None:
    """Check that a provider answers as the runners expect; raises `ContractBroken` if it does not."""
    _hold(bool(provider.name) and "/" not in provider.name, f"name {provider.name!r} is not a word without a slash")
    request = Request(model=model, system="You answer in a few sentences.", user=_AWKWARD, max_tokens=200)
    reply = await provider.ask(request)
    _check_answer(reply, batched=False)
    _hold(reply.stop in {Stop.END, Stop.LENGTH}, f"an ordinary answer stopped with {reply.stop}")
    together = await asyncio.gather(*(provider.ask(request) for _ in range(8)))
    _hold(all(one.error is None for one in together), "eight requests at once did not all get an answer")
    again = await provider.ask(msgspec.structs.replace(request, earlier=((_AWKWARD, reply.text),)))
    _hold(again.error is None and bool(again.text), f"no answer to the second turn of a conversation: {again.error}")
    short = await provider.ask(Request(model=model, system="", user="Count from one to fifty, in words.", max_tokens=1))
    _hold(short.stop is Stop.LENGTH, f"an answer cut off after one token says it stopped with {short.stop}")


async def check_batch_provider(
    provider: Provider, *, model: str, poll_seconds: float = 1.0, most_polls: int = 1000
) -> None:
    """Check that a provider takes batches as the runners expect; raises `ContractBroken` if it does not."""
    if not isinstance(provider, BatchProvider):
        raise ContractBroken("this provider has not all methods of a BatchProvider")
    requests = [
        (f"contract-{number}", Request(model=model, system="Be brief.", user=f"{number}: {_AWKWARD}", max_tokens=200))
        for number in range(_SIZE)
    ]
    _check_limits(provider, requests[0][1])
    batch_id = await provider.submit(requests, "contract")
    listed = [state async for state in provider.recent_batches()]
    _check_list(listed, batch_id)
    for _ in range(most_polls):
        if (await provider.state(batch_id)).ended:
            break
        await asyncio.sleep(poll_seconds)
    else:
        raise ContractBroken(f"batch {batch_id} did not end within {most_polls} looks")
    await _check_results(provider, batch_id, {custom_id for custom_id, _ in requests})
    try:
        await provider.state("batch_that_never_was")
    except Refused:
        return
    raise ContractBroken("a batch that never was is not Refused")


def _check_answer(reply: Reply, *, batched: bool) -> None:
    _hold(reply.error is None and bool(reply.text), f"no answer to an ordinary request: {reply.error}")
    _hold(reply.batched is batched, f"`batched` is {reply.batched}: the price would be wrong")
    if reply.usage is not None:  # None says that the tokens are not stated; a count of 0 would say that it was free
        _hold(reply.usage.output_tokens > 0, "an answer without output tokens: its price is unknown")
        _hold(reply.usage.input_tokens >= 0, "input tokens below zero: cached tokens were taken off twice")


def _check_limits(provider: BatchProvider, request: Request) -> None:
    limits, size = provider.batch_limits, provider.encoded_size(request)
    _hold(limits.requests > 0 and limits.bytes > 0, "a batch that holds nothing")
    _hold(size >= len(request.user.encode()), f"encoded_size is {size}: less than the words that are sent")
    longer = provider.encoded_size(msgspec.structs.replace(request, earlier=((_AWKWARD, _AWKWARD),)))
    _hold(longer >= size + 2 * len(_AWKWARD.encode()), "encoded_size leaves earlier turns out: they are not sent")


def _check_list(listed: list[BatchState], batch_id: str) -> None:
    matching = [state for state in listed if state.batch_id == batch_id]
    _hold(
        len(matching) == 1,
        f"recent_batches shows the new batch {len(matching)} times: it cannot be found after a crash",
    )
    _hold(matching[0].size in {None, _SIZE}, f"a batch of {_SIZE} is listed with {matching[0].size}")
    _hold(matching[0].tag in {None, "contract"}, f"the tag came back as {matching[0].tag!r}")
    times = [state.created_at for state in listed]
    _hold(times == sorted(times, reverse=True), "recent_batches is not newest first")


async def _check_results(provider: BatchProvider, batch_id: str, sent: set[str]) -> None:
    for attempt in ("first", "second"):
        replies = {custom_id: reply async for custom_id, reply in provider.results(batch_id)}
        _hold(set(replies) == sent, f"the {attempt} reading of the results has the ids {sorted(replies)}")
        for reply in replies.values():
            _check_answer(reply, batched=True)
