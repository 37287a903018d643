"""An engine that samples one process and hands on the samples of its blocks."""

from __future__ import annotations

import threading

from jobtop.core.measure.engine import Engine, Watched
from jobtop.core.measure.tally import Tally

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.engine import AlertRules, Settings, Sink
    from jobtop.core.measure.sampler import Batch
    from jobtop.core.track.views import View, Views


class BlockEngine(Engine):
    """Samples a process; what is stored and judged are the blocks of `views`."""

    def __init__(self, views: Views, sink: Sink, settings: Settings, alerts: AlertRules | None = None) -> None:
        self.views, self.lock = views, threading.RLock()
        super().__init__(sink, settings, alerts)

    def open(self, view: View) -> None:
        """Store samples of a block from now on."""
        with self.lock:
            self.views.add(view)
            self.watched[view.key] = Watched(Tally(), None, 0.0)

    def leave(self, key: str, patience_seconds: float) -> None:
        """Store no more samples of a block; wait until those it has are stored."""
        with self.lock:
            self.views.remove(key)
        self.flush(patience_seconds)
        self.finish(key)

    def _take(self, batch: Batch) -> None:
        with self.lock:
            batch = self.views.expanded(batch)
        super()._take(batch)
