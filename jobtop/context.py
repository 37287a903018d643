"""The settings and paths of one call of the Python face."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobtop.core.config import load
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.record import replace
from jobtop.log_lines import warn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.run.request import Request


class Context:
    """The settings that hold in the current directory and environment, changed by KEY=VALUE."""

    def __init__(self, sets: Iterable[str] = ()) -> None:
        try:
            here = os.getcwd()
        except FileNotFoundError:
            here = "/"
        self.sets = tuple(sets)
        self.config = load(self.sets, os.environ, here)
        self.paths = StatePaths(self.config.text("store.dir"), hostname())
        for notice in self.config.notices:
            warn(notice)


def with_ready_image(request: Request) -> Request:
    """Return the request; if it is for a container, with an engine that has the image, which is pulled if needed."""
    if request.container is None:
        return request
    from jobtop.lifecycle.containers import images

    return replace(request, container=images.with_ready_image(request.container, os.environ, lambda: lambda _: None))
