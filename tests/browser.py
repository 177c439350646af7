"""A real browser for tests of pages: Chromium without a window, spoken to through a pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests import supervisor


def program() -> str | None:
    """Chromium, under the names that systems give it; None where it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page of a browser, by the DevTools protocol.

    Args:
        chromium: the program.
    """

    def __init__(self, chromium: str):
        self.folder = Path(tempfile.mkdtemp(prefix="bsjoin-browser-"))
        supervisor.watch(self.folder)
        ours, theirs = os.pipe(), os.pipe()  # what it reads, what it writes
        self._write, self._read = ours[1], theirs[0]
        # A shell gives them the numbers 3 and 4, which Chromium expects.
        move = 'exec "$0" "$@" 3<&$IN 4>&$OUT'.replace("$IN", str(ours[0]))
        self._process = subprocess.Popen(
            [
                "bash", "-c", move.replace("$OUT", str(theirs[1])), chromium, "--headless=new",
                "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--disable-background-networking", "--remote-debugging-pipe", "--mute-audio",
                f"--user-data-dir={self.folder}", "about:blank",
            ],
            pass_fds=(ours[0], theirs[1]), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        supervisor.watch(self.folder, self._process.pid, signal.SIGKILL)
        os.close(ours[0])
        os.close(theirs[1])
        self._number, self._given, self._session = 0, b"", ""
        self.told: list[str] = []
        """What the page has written to the console, and its errors."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            answer = self._next(end)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)
        raise TimeoutError(method)

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._given:
            if not select.select([self._read], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self._read, 1 << 20)
            assert more, "the browser has ended"
            self._given += more
        line, _, self._given = self._given.partition(b"\0")
        return json.loads(line)

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.told.append(json.dumps(event["params"]))
        elif event.get("method") == "Log.entryAdded":
            self.told.append(event["params"]["entry"]["text"])

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def open(self, url: str, ready: str = "true") -> None:
        """Open a page, and wait for what says that it is ready."""
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && ({ready})")

    def wait(self, condition: str, seconds: float = 20) -> None:
        """Wait until an expression in the page is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, (condition, self.run("document.body.innerText"))
            time.sleep(0.05)

    def look(self, width: int = 1200, scheme: str = "light", **features: str) -> None:
        """Set the width of the window, the colours, and other media features."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        wanted = {"prefers-color-scheme": scheme, **features}
        named = [{"name": name, "value": value} for name, value in wanted.items()]
        self.call("Emulation.setEmulatedMedia", features=named)

    def key(self, name: str) -> None:
        """Press a key."""
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        parts: dict[str, Any] = {"key": name, "code": "Space" if name == " " else name}
        parts["windowsVirtualKeyCode"] = codes[name]
        text = {"Enter": {"text": "\r"}, " ": {"text": " "}}.get(name, {})
        self.call("Input.dispatchKeyEvent", type="keyDown", **parts, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **parts)

    def picture(self, file: Path) -> None:
        """Write the whole page as PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """End the browser."""
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self.folder, ignore_errors=True)
        supervisor.forget(self.folder)
