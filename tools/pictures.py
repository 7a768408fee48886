"""Make the manual's pictures anew: the site, a report and a chart, all from the examples. `python tools/pictures.py`.

It needs the extras [arena] and [plot], Playwright and a chromium. The arena's votes are simulated, its models made up.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

import msgspec
from PIL import Image

import tiltyard as ty
from tiltyard.arena.rules.events import Event, MatchupServed
from tiltyard.arena.simulation import RecordingArena, SimulationSettings, keep_log, simulate
from tiltyard.arena.simulation.ledger import FIRST_DAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
NAMES = (
    *("Avocet", "Bittern", "Cormorant", "Dunlin", "Egret", "Fulmar"),
    *("Gannet", "Heron", "Kestrel", "Lapwing", "Merlin", "Plover"),
)
MAKERS = (("Aerie Labs", "Apache-2.0"), ("Saltmarsh", "proprietary"), ("Northern Shore", "MIT"))
VOTES, PROMPTS, SEED = 3000, 8, 3
MOST_BYTES = 200_000
DAY = 86_400_000_000
STARTED_SECONDS = 120


def main() -> None:
    """Make every picture, into docs/images."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        draw_chart(IMAGES / "rating-plot.png")
        run = judge_tournament(folder)
        database = fill_arena(folder)
        with chromium() as browser, served(database) as address:
            shoot(browser, run.joinpath("report.html").as_uri(), "report", height=900)
            shoot(browser, compare_versions(folder).as_uri(), "compare", height=600)
            shoot(browser, address, "vote", height=640)
            shoot(browser, address, "vote-phone-dark", width=390, height=720, dark=True)
            shoot(browser, address, "vote-result", height=760, votes=True)
            shoot(browser, f"{address}/leaderboard", "leaderboard", height=860)
            shoot(browser, f"{address}/leaderboard", "leaderboard-phone-dark", width=390, height=1000, dark=True)
            shoot(browser, f"{address}/history", "history", height=1000)
            shoot(browser, f"{address}/models/model-003", "model", height=1000)
            shoot(browser, f"{address}/validity", "validity", height=1000)
        tiltyard("demo", "--kind", "voxel", "--out", str(folder / "builds"))
        with chromium() as browser, served(f"sqlite:///{folder}/builds/arena.db") as address:
            shoot_builds(browser, address, "vote-builds")
            shoot_builds(browser, address, "vote-builds-phone-dark", width=390, height=760, dark=True)
    for path in sorted(IMAGES.glob("*.png")):
        if path.stat().st_size > MOST_BYTES:
            raise SystemExit(f"{path.name} has {path.stat().st_size:,} bytes: more than {MOST_BYTES:,}.")


def draw_chart(path: Path) -> None:
    """The board of the README as a chart."""
    ty.rate(ROOT / "examples" / "birds.jsonl").plot(path)


def compare_versions(folder: Path) -> Path:
    """The README's comparison as a page."""
    page = folder / "compare.html"
    tiltyard("compare", "v2", "v1", "--in", str(ROOT / "examples" / "versions" / "today.jsonl"), "--out", str(page))
    return page


def judge_tournament(folder: Path) -> Path:
    """The demo's headline run; its folder."""
    tiltyard("demo", "--out", str(folder / "demo"))
    return folder / "demo" / "headline"


def fill_arena(folder: Path) -> str:
    """The address of an arena with simulated votes, and with names, prompts and answers that can be read."""
    database = f"sqlite:///{folder}/arena.db"
    simulate_votes(database)
    models = [
        {"model": f"model-{place:03d}", "display_name": name} | dict(zip(("provider", "licence"), maker, strict=True))
        for place, (name, maker) in enumerate(zip(NAMES, cycle(MAKERS), strict=False))
    ]
    (folder / "models.json").write_text(json.dumps(models), encoding="utf-8")
    bank, answers = readable_texts()
    write_rows(folder / "bank.jsonl", bank)
    (folder / "responses").mkdir()
    for model in models:
        place = int(model["model"][-3:])
        said = answers[place % len(answers)]
        rows = [
            {"entrant_id": model["model"], **answer, "response_text": styled(answer["response_text"], place)}
            for answer in said
        ]
        write_rows(folder / "responses" / f"responses_{model['model']}.jsonl", rows)
    added = ("--prompts", "bank.jsonl", "--responses", "responses", "--models", "models.json")
    tiltyard("arena", "import", "--db", database, *(part if part[0] == "-" else str(folder / part) for part in added))
    return database


def styled(text: str, place: int) -> str:
    """The answer as this model writes it: no two give the same, and a pair that was skipped would come again."""
    first, *more = re.split(r"(?<=[.;:?!]) ", text)
    match place // 3:
        case 0:
            return text
        case 1:
            return f"**{first}** {' '.join(more)}\n\nShall I say more?"
        case 2:
            return f"{text}\n\n> Ask a second source where it matters."
        case _:
            return "\n".join(f"- {part}" for part in ("In short:", first, *more))


def simulate_votes(database: str) -> None:
    """An arena whose simulated votes are of the last ten days, so that its weekly report is about this week."""
    settings = SimulationSettings(models=len(NAMES), prompts=PROMPTS, votes=VOTES, in_flight=8, seed=SEED)
    engine = RecordingArena(settings.seed)
    simulate(settings, engine)
    slower = 10 * DAY / engine.events[-1].at
    begin = int(time.time() * 1e6) - FIRST_DAY - 10 * DAY
    keep_log([moved(event, begin, slower) for event in engine.events], database)


def moved(event: Event, begin: int, slower: float) -> Event:
    """The same event in an arena that begins then (microseconds) and takes so many times as long."""
    body = event.body
    if isinstance(body, MatchupServed):
        body = msgspec.structs.replace(body, expires_at=begin + int(body.expires_at * slower))
    return Event(begin + int(event.at * slower), body)


def readable_texts() -> tuple[list[dict[str, str]], list[list[dict[str, str]]]]:
    """The prompts of the example tournament under the simulation's ids, and its entrants' answers to them."""
    folder = ROOT / "examples" / "tournament"
    prompts = read_rows(folder / "bank.jsonl")
    ids = {prompt["prompt_id"]: f"prompt-{place:03d}" for place, prompt in enumerate(prompts)}
    bank = [{**prompt, "prompt_id": ids[prompt["prompt_id"]]} for prompt in prompts]
    answers = [
        [{"prompt_id": ids[row["prompt_id"]], "response_text": row["response_text"]} for row in read_rows(path)]
        for path in sorted((folder / "responses").glob("*.jsonl"))
    ]
    return bank, answers


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    """A JSON Lines file of these rows."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def tiltyard(*words: str) -> None:
    """Run a command as a user would."""
    subprocess.run([sys.executable, "-m", "tiltyard", *words], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - ours


@contextmanager
def served(database: str) -> Iterator[str]:
    """The address of a site over the arena, for as long as the block lasts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["arena", "serve", "--db", database, "--port", str(port)]
    server = subprocess.Popen([sys.executable, "-m", "tiltyard", *words])  # noqa: S603 - ours
    try:
        address, end = f"http://127.0.0.1:{port}", time.monotonic() + STARTED_SECONDS
        while not answers_at(address):
            if time.monotonic() > end or server.poll() is not None:
                raise SystemExit("the site did not start")
            time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait()


def answers_at(address: str) -> bool:
    """Whether a site answers there."""
    try:
        with urlopen(f"{address}/healthz") as answer:  # noqa: S310 - our own server
            return bool(answer.status == 200)
    except URLError:
        return False


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        raise SystemExit("no chromium: install Debian's package `chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield browser
        browser.close()


def shoot(
    browser: Browser,
    url: str,
    name: str,
    *,
    width: int = 1280,
    height: int = 800,
    dark: bool = False,
    votes: bool = False,
) -> None:
    """A picture of a page on a screen of this size; or, with `votes`, of the result of a vote there."""
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
    page.goto(url, timeout=120_000)
    start = page.get_by_role("button", name="Start voting")
    if start.count():
        start.click()
        page.wait_for_selector(".ballot")
        page.mouse.move(0, 0)
        page.wait_for_timeout(1000)  # a pair takes no vote in its first moment
    if votes:
        page.keyboard.press("a")
        page.get_by_role("button", name="Show the names").click()
        page.wait_for_selector(".revealed")
        page.keyboard.press("2")
        page.wait_for_timeout(1500)  # until the new ratings have come in
    kept(page, name)


def shoot_builds(
    browser: Browser, url: str, name: str, *, width: int = 1280, height: int = 800, dark: bool = False
) -> None:
    """A picture of a pair of builds."""
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
    page.emulate_media(reduced_motion="reduce")
    page.goto(url, timeout=120_000)
    page.get_by_role("button", name="Start voting").click()
    page.wait_for_selector(".pair:not(:has(.view[data-state=loading])) .view", timeout=120_000)
    page.evaluate("document.querySelector('.asked').scrollIntoView()" if width < 600 else "0")
    page.wait_for_timeout(1000)
    kept(page, name)


def kept(page: Page, name: str) -> None:
    """The picture of a page, in 256 colors: half the size, and nobody sees the difference."""
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path, timeout=120_000)
    page.close()
    with Image.open(path) as taken:
        taken.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
