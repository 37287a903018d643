"""A real headless Chromium, driven over the DevTools protocol through two pipes: pages, clicks, downloads, pictures."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support import require

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
DEADLINE = 30.0
Answer = dict[str, Any]


class Browser:
    """A running Chromium with one tab; notes requests, messages of the console and errors of the page."""

    def __init__(self, profile: Path, width: int, height: int) -> None:
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if program is None:
            require("chromium", "chromium is not installed")
        to_browser, self.write_fd = os.pipe()
        self.read_fd, from_browser = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
        placed = ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash"]
        self.process = subprocess.Popen(
            [*placed, program, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(to_browser, from_browser),
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.last_id, self.session = b"", 0, ""
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.events: list[Answer] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Answer:
        """Call a method of the protocol and return its answer; events that come first are noted."""
        self.last_id += 1
        message: Answer = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + DEADLINE
        while True:
            answer = self._next(end - time.monotonic())
            if answer.get("id") == self.last_id:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: Answer = answer["result"]
                return result
            self._note(answer)

    def open(self, url: str) -> float:
        """Load a page; return the seconds until it and its charts are there."""
        self.requests.clear()
        self.errors.clear()
        begin = time.monotonic()
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")
        if self.value("!!document.querySelector('.figure')"):
            self.wait(
                "document.querySelectorAll('.figure').length === document.querySelectorAll('.main-svg').length / 3"
            )
        return time.monotonic() - begin

    def value(self, expression: str) -> Any:
        """The JSON value of an expression of JavaScript; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, expression: str) -> Any:
        """The first truthy value of an expression; fails after the deadline."""
        end = time.monotonic() + DEADLINE
        while True:
            value = self.value(expression)
            if value:
                return value
            if time.monotonic() > end:
                pytest.fail(f"waited {DEADLINE:g} s for {expression}")
            time.sleep(0.02)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Send an event of the mouse: mouseMoved, mousePressed or mouseReleased."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the left button, move, release."""
        self.mouse("mouseMoved", *begin)
        self.mouse("mousePressed", *begin, button="left", clickCount=1)
        for part in (0.3, 0.7, 1.0):
            between = [begin[axis] + part * (end[axis] - begin[axis]) for axis in (0, 1)]
            self.mouse("mouseMoved", *between, button="left", buttons=1)
        self.mouse("mouseReleased", *end, button="left", clickCount=1)

    def allow_downloads(self, directory: Path) -> None:
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(directory))

    def resize(self, width: int, height: int, is_phone: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=is_phone
        )

    def picture(self, path: Path) -> None:
        """Write what the tab shows as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def pdf(self) -> bytes:
        """The page as it would be printed on A4."""
        answer = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        return base64.b64decode(answer["data"])

    def close(self) -> None:
        """End the browser and all its processes."""
        with suppress(OSError, AssertionError):
            self.session = ""
            os.write(self.write_fd, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.write_fd)
        os.close(self.read_fd)

    def _next(self, seconds: float) -> Answer:
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            readable, _, _ = select.select([self.read_fd], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self.read_fd, 1 << 20) if readable else b""
            assert data, "Chromium does not answer, or has exited"
            self.buffer += data
        text, _, self.buffer = self.buffer.partition(b"\0")
        answer: Answer = json.loads(text)
        return answer

    def _note(self, event: Answer) -> None:
        self.events.append(event)
        params = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.errors.append(json.dumps(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.errors.append(json.dumps(params["entry"]))
            case "Page.javascriptDialogOpening":
                self.errors.append(f"dialog: {params['message']}")


@contextmanager
def chromium(width: int = 1200, height: int = 900) -> Iterator[Browser]:
    """A browser with a new profile, ended at the end."""
    with tempfile.TemporaryDirectory(prefix="jobtop-browser-", ignore_cleanup_errors=True) as profile:
        browser = Browser(Path(profile), width, height)
        try:
            yield browser
        finally:
            browser.close()
