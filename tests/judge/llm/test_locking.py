"""One asker per folder at a time."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.judge.llm.clock import run_virtually
from tests.judge.llm.providers_in_memory import DirectProvider, Kept, asks
from tiltyard.judge.llm import AskingParts, PriceTable, ask_all
from tiltyard.judge.llm.journal import folder_lock


def test_the_second_waits_says_so_once_and_then_goes_on(tmp_path: Path) -> None:
    notices: list[str] = []
    order: list[str] = []

    async def hold(name: str, seconds: float) -> None:
        async with folder_lock(tmp_path / "new", notice=notices.append, sleep=asyncio.sleep):
            order.append(f"{name} begins")
            await asyncio.sleep(seconds)
            order.append(f"{name} ends")

    async def work(now):
        await asyncio.gather(hold("first", 10.0), hold("second", 1.0))

    run_virtually(work)
    assert order == ["first begins", "first ends", "second begins", "second ends"]
    assert len(notices) == 1
    assert f"process {os.getpid()} is asking in" in notices[0]


def test_an_error_lets_go_of_the_lock(tmp_path: Path) -> None:
    async def work(now):
        with pytest.raises(ZeroDivisionError):
            async with folder_lock(tmp_path, notice=print, sleep=asyncio.sleep):
                raise ZeroDivisionError
        async with folder_lock(tmp_path, notice=pytest.fail, sleep=asyncio.sleep):
            pass

    run_virtually(work)


def test_asks_are_not_looked_at_before_the_folder_is_ours(tmp_path: Path) -> None:
    """Two calls for the same asks: the second reads the cache when its turn comes, and finds everything in it."""
    cache = Kept()
    provider = DirectProvider()

    def missing():
        have = set(cache.ended)
        yield from (ask for ask in asks(10) if ask.key not in have)

    async def work(now):
        calls = [
            ask_all(missing(), provider, cache, AskingParts(prices=PriceTable.load(), now=now), folder=tmp_path)
            for _ in range(2)
        ]
        return await asyncio.gather(*calls)

    first, second = run_virtually(work)
    assert (first.all.done, second.all.sent) == (10, 0)
    assert provider.asked.total() == 10
