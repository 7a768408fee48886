"""A real browser for the tests: headless Chromium, driven through its debugging pipe with the standard library."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def chromium() -> str | None:
    """Where Chromium is, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Tab:
    """One page: goes to an address, says what is rendered, and remembers what the browser complained about."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out, self._in = to_browser, from_browser
        self._buffer = b""
        self._sent = 0
        self._session: str | None = None
        self._arrived: list[str] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask the browser for something and wait for its answer."""
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._next()
            if answer.get("id") == self._sent:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has gone")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, what: dict[str, Any]) -> None:
        self._arrived.append(event)
        if event == "Runtime.exceptionThrown":
            self.complaints.append(what["exceptionDetails"]["text"])
        elif event == "Runtime.consoleAPICalled":
            self.complaints.append(f"console.{what['type']}")
        elif event == "Log.entryAdded":
            self.complaints.append(what["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])

    def screen(self, width: int, height: int, *, dark: bool = False, media: str = "") -> None:
        """Set the size of the window, the reader's preference for dark pages, and the medium (`print`)."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def scripts(self, on: bool) -> None:
        """Turn JavaScript on or off."""
        self.call("Emulation.setScriptExecutionDisabled", value=not on)

    def open(self, path: Path, anchor: str = "") -> None:
        """Go to a file and wait until it is loaded; from about:blank, so that the same file is loaded anew."""
        for url in ("about:blank", path.resolve().as_uri() + (f"#{anchor}" if anchor else "")):
            self._arrived.clear()
            self.call("Page.navigate", url=url)
            while "Page.loadEventFired" not in self._arrived:
                self._next()

    def shown(self) -> str:
        """The text that is laid out on the page: what is hidden is not in it. Works with JavaScript off too."""
        snapshot = self.call("DOMSnapshot.captureSnapshot", computedStyles=[])
        strings = snapshot["strings"]
        return "\n".join(
            strings[index] for document in snapshot["documents"] for index in document["layout"]["text"] if index >= 0
        )

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, for tests with JavaScript on."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """A screenshot, of the window or of the whole page."""
        options: dict[str, Any] = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options = {"captureBeyondViewport": True, "clip": {**size, "scale": 1}}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **options)["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """A browser with a fresh profile, ended when the block ends. It reads commands from its file 3 and answers on 4."""
    binary = chromium()
    if binary is None:
        raise RuntimeError("chromium is not installed")
    its_input, to_browser = os.pipe()
    from_browser, its_output = os.pipe()
    its_ends = [_moved_up(its_input), _moved_up(its_output)]
    hand_over = (
        f"import os, sys; os.dup2({its_ends[0]}, 3); os.dup2({its_ends[1]}, 4); os.execv(sys.argv[1], sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", hand_over, binary, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=its_ends,
    )
    for end in its_ends:
        os.close(end)
    try:
        yield Tab(to_browser, from_browser)
    finally:
        process.kill()
        process.wait(60)
        os.close(to_browser)
        os.close(from_browser)


def _moved_up(descriptor: int) -> int:
    """The same file under a number that is neither 3 nor 4."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 20)
    os.close(descriptor)
    return moved
