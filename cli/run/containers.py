"""`run --image`: the order of a container from the options, and the image, which is pulled before the job begins."""

from __future__ import annotations

import os
import sys

from jobtop.core.errors import BadValue
from jobtop.core.record import replace
from jobtop.core.run.containers.order import ContainerOrder
from jobtop.core.units import format_bytes, printable
from jobtop.lifecycle.containers.settings import volume

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from jobtop.cli.app import App
    from jobtop.core.measure.collectors.docker.model import PullStep
    from jobtop.core.run.request import Request

TEXTS = ("user", "workdir", "network", "entrypoint", "engine")
BAR_CELLS = 24


def new_order(app: App, options: dict[str, Any], cwd: str) -> ContainerOrder:
    """Return the order that the options describe; BadValue for options that do not work in a container."""
    refuse_priorities(options)
    return ContainerOrder(
        image=options["image"],
        volumes=tuple(volume(text, cwd, app.environ) for text in options["volume"]),
        **{key: options[key] for key in TEXTS},
        env=dict(options["env"]),
        pull=options["pull"] or "missing",
        keep=options["keep"],
        gpus=options["gpus"],
    )


def refuse_priorities(options: dict[str, Any]) -> None:
    """Raise BadValue for options that would only change the process that waits for the container."""
    for key in ("nice", "ionice"):
        if options[key] is not None:
            raise BadValue(f"--{key} has no effect in a container: give --cpus N")


def changed_order(app: App, order: ContainerOrder, options: dict[str, Any], cwd: str) -> ContainerOrder:
    """Return the order of an earlier job, changed by the options that were given."""
    refuse_priorities(options)
    texts = {key: options[key] for key in (*TEXTS, "image", "pull", "gpus") if options[key] is not None}
    if options["volume"]:
        texts["volumes"] = tuple(volume(text, cwd, app.environ) for text in options["volume"])
    return replace(
        order, **texts, env=(order.env or {}) | dict(options["env"]), keep=order.keep or bool(options["keep"])
    )


def with_ready_image(app: App, request: Request, is_quiet: bool) -> Request:
    """Return the request with an engine that answers and has the image; EngineError before anything is recorded."""
    from jobtop.lifecycle.containers import images

    assert request.container is not None
    progress = Progress(request.container.image, is_quiet)
    try:
        return replace(request, container=images.with_ready_image(request.container, app.environ, progress.begin))
    finally:
        progress.end()


class Progress:
    """The progress of a pull on standard error: a bar on a terminal, else a line at its beginning."""

    def __init__(self, image: str, is_quiet: bool) -> None:
        self.image, self.is_quiet = printable(image), is_quiet
        self.has_bar = not is_quiet and os.isatty(2)
        self.shown = ""

    def begin(self) -> Callable[[PullStep], None]:
        from jobtop.lifecycle.containers.images import PullSum

        if not self.has_bar and not self.is_quiet:
            print(f"jobtop: pulling {self.image}", file=sys.stderr, flush=True)
        pulled = PullSum()
        return lambda step: self.show(step, pulled.take(step))

    def show(self, step: PullStep, pulled: tuple[int, int] | None) -> None:
        """Draw the bar again, if it has changed."""
        if not self.has_bar:
            return
        text = f"pulling {self.image}: {printable(step.text)}"
        if pulled is not None:
            text = bar_text(self.image, step.text, *pulled)
        if text != self.shown:
            self.shown = text
            columns = os.get_terminal_size(2).columns
            print(f"\r\x1b[K{text[: columns - 1]}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave no bar behind."""
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def bar_text(image: str, step: str, done: int, total: int) -> str:
    """Return a line such as `pulling box:1 ████░░░░ 12 MiB of 30 MiB`."""
    share = min(1.0, done / total) if total else 0.0
    filled = round(share * BAR_CELLS)
    bar = "█" * filled + "░" * (BAR_CELLS - filled)
    return f"pulling {image} {bar} {format_bytes(done)} of {format_bytes(total)}  {printable(step)}"
