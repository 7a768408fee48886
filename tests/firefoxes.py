"""A real Firefox for tests, driven by Marionette, the protocol that Firefox itself speaks (Playwright cannot)."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.forked import PATIENCE_SECONDS
from tests.missing import needs

PREFERENCES = {
    "marionette.port": 0,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.max_script_run_time": 0,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "app.normandy.enabled": False,
    "services.settings.server": "data:,",
    "ui.prefersReducedMotion": 1,
    # No page at the start and no process kept ready for the next one: a quarter of what a start takes.
    "browser.startup.page": 0,
    "browser.startup.homepage": "about:blank",
    "browser.newtabpage.enabled": False,
    "browser.newtabpage.preload": False,
    "browser.aboutwelcome.enabled": False,
    "dom.ipc.processPrelaunch.enabled": False,
}
CLICK = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}}


class Firefox:
    """One browser and its tab. Its commands are those of Firefox's `remote/marionette/driver.sys.mjs`."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        self._input = self._socket.makefile("rb")
        self._number = 0
        self._read()  # it says hello
        self.ask("WebDriver:NewSession", capabilities={"alwaysMatch": {"unhandledPromptBehavior": "ignore"}})
        self.ask("WebDriver:SetTimeouts", script=10_000, pageLoad=10_000)

    def ask(self, command: str, **parameters: Any) -> Any:
        """The answer to one command; what Firefox refuses is an error."""
        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        self._socket.sendall(b"%d:%b" % (len(message), message))
        _, _, error, result = self._read()
        if error is not None:
            raise RuntimeError(f"{command}: {error['error']}: {error['message']}")
        return result.get("value", result) if isinstance(result, dict) else result

    def _read(self) -> Any:
        length = b""
        while (letter := self._input.read(1)) != b":":
            if not letter:
                raise ConnectionError("Firefox has ended")
            length += letter
        return json.loads(self._input.read(int(length)))

    def close(self) -> None:
        self._input.close()
        self._socket.close()

    def go(self, url: str) -> None:
        self.ask("WebDriver:Navigate", url=url)

    def run(self, script: str, *values: Any, sandbox: str | None = None) -> Any:
        """What a script of the shown page or frame returns; in a sandbox, the page's own code cannot mislead it."""
        return self.ask("WebDriver:ExecuteScript", script=script, args=values, sandbox=sandbox)

    def browser(self, script: str) -> Any:
        """What a script of the browser itself returns."""
        self.ask("Marionette:SetContext", value="chrome")
        try:
            return self.ask("WebDriver:ExecuteScript", script=script, args=[])
        finally:
            self.ask("Marionette:SetContext", value="content")

    def wait(self, script: str, seconds: float = PATIENCE_SECONDS) -> Any:
        """What a script returns once that is true."""
        end = time.monotonic() + seconds
        while not (result := self.run(script)):
            assert time.monotonic() < end, f"never true in Firefox: {script}"
            time.sleep(0.05)
        return result

    def act(self, kind: dict[str, Any], *actions: dict[str, Any]) -> None:
        """What a hand does: a click, a key, a turn of the wheel."""
        self.ask("WebDriver:PerformActions", actions=[{**kind, "actions": list(actions)}])

    def click(self, x: float, y: float) -> None:
        """A click at a point of the window."""
        move = {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0}
        self.act(CLICK, move, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0})

    def click_on(self, selector: str) -> None:
        """A click on the middle of an element, scrolled into sight."""
        box = self.run(
            "const one = document.querySelector(arguments[0]); one.scrollIntoView({ block: 'center' });"
            "const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]",
            selector,
        )
        self.click(*box)

    def screenshot(self) -> bytes:
        return base64.b64decode(self.ask("WebDriver:TakeScreenshot", full=False, hash=False))

    def console(self) -> list[str]:
        """Errors and warnings of pages since this was last asked."""
        return list(
            self.browser(
                "const found = Services.console.getMessageArray().filter((one) => one instanceof Ci.nsIScriptError"
                " && /^http/.test(one.sourceName)).map((one) => `${one.sourceName}: ${one.errorMessage}`);"
                "Services.console.reset(); return found"
            )
        )


@contextmanager
def firefox() -> Iterator[Firefox]:
    """A Firefox with a profile of its own."""
    found = shutil.which("firefox-esr") or shutil.which("firefox")
    if found is None:
        needs("firefox")
    with TemporaryDirectory() as profile:
        lines = (f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items())
        Path(profile, "user.js").write_text("\n".join(lines))
        command = [
            found,
            "--headless",
            "--no-remote",
            "--marionette",
            "--remote-allow-system-access",
            "--profile",
            profile,
        ]
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            file, end = Path(profile, "MarionetteActivePort"), time.monotonic() + PATIENCE_SECONDS
            while not (file.exists() and file.read_text().strip()):
                assert running.poll() is None, "Firefox did not start"
                assert time.monotonic() < end, "Firefox did not open its port"
                time.sleep(0.05)
            with closing(Firefox(int(file.read_text()))) as tab:
                yield tab
        finally:
            running.terminate()
            with suppress(subprocess.TimeoutExpired):
                running.wait(10)
            running.kill()
            running.wait()
