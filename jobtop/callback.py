"""ResourceMonitorCallback: the monitor of a training for Lightning, with the interface of the OCR callback.

An object of it is a `Callback` of the Lightning that is imported when it is made, `lightning` or `pytorch_lightning`
(or of both); if none is, of those that are installed. Without Lightning it is a plain object: `watch`, and the hooks
for a trainer of your own.
"""

from __future__ import annotations

import importlib
import sys

from jobtop.watching import ResourceMonitor, border

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIGHTNINGS = ("lightning.pytorch", "pytorch_lightning")
MOST_PARAMS = 100  # a module with more hyperparameters has a part of them in its record
_CLASSES: dict[tuple[type, ...], type] = {}  # that are callbacks, by a class and those of Lightning


def lightning_callbacks() -> tuple[type, ...]:
    """Return the class `Callback` of each Lightning that is imported; if none is, import those that are installed."""
    imported = [sys.modules[name].Callback for name in LIGHTNINGS if hasattr(sys.modules.get(name), "Callback")]
    return tuple(imported or filter(None, map(_imported_callback, LIGHTNINGS)))


def _imported_callback(name: str) -> type | None:
    try:
        found: type = importlib.import_module(name).Callback
    except Exception:  # noqa: BLE001 - a border: a broken Lightning fails where the training imports it
        return None
    return found


class ResourceMonitorCallback(ResourceMonitor):
    """Watches `trainer.fit`: prints what it uses every few batches, warns, and writes a CSV file per epoch.

    A training is one job of the history. In a distributed one each rank is a job and writes files of its own; only
    rank 0 prints.
    """

    def _join_lightning(self) -> None:
        """Become a callback of Lightning, which accepts no other object.

        The class is chosen now: programs often import jobtop first, and both Lightnings may be installed.
        """
        plain = self._plain_class()
        bases = tuple(base for base in lightning_callbacks() if not issubclass(plain, base))
        if not bases:
            return
        if (plain, *bases) not in _CLASSES:
            names = {"__module__": plain.__module__, "__qualname__": plain.__qualname__, "__doc__": plain.__doc__}
            _CLASSES[plain, *bases] = type(plain.__name__, (plain, *bases), names)
        self.__class__ = _CLASSES[plain, *bases]

    def _plain_class(self) -> type:
        """Return the class as it was written."""
        return type(self).__mro__[1] if type(self) in _CLASSES.values() else type(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made of the class as it was written."""
        return _new_callback, (self._plain_class(),), self.__getstate__()

    @border
    def setup(self, trainer: Any, pl_module: Any, stage: str | None = None) -> None:
        """Begin the job."""
        if stage is not None and stage != "fit":
            return
        self.rank = int(getattr(trainer, "global_rank", 0))
        ranks = int(getattr(trainer, "world_size", 1))
        tags = {"rank": str(self.rank), "ranks": str(ranks)} if ranks > 1 else {}
        self.start(type(pl_module).__name__, tool="lightning", params=simple_params(pl_module), tags=tags)
        # The module prints on rank 0 only, and beside the progress bar instead of into it.
        self._show = getattr(pl_module, "print", print)

    @border
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Let rows go to the file of this epoch."""
        self.current_epoch = int(trainer.current_epoch)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Print, warn and write a row if it is time for it."""
        self.batch_ended(batch_idx)

    def teardown(self, trainer: Any, pl_module: Any, stage: str | None = None) -> None:
        """End the job."""
        self.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the job as failed, or as cancelled: Lightning's exception of a SIGTERM is a SystemExit without a code."""
        self.close(KeyboardInterrupt() if isinstance(exception, SystemExit) else exception)


def _new_callback(wanted: type[ResourceMonitorCallback]) -> ResourceMonitorCallback:
    return wanted.__new__(wanted)


def simple_params(pl_module: Any) -> dict[str, Any]:
    """Return the hyperparameters of a module that are numbers, texts or truth values."""
    hparams = getattr(pl_module, "hparams", None)
    if hparams is None or not hasattr(hparams, "items"):
        return {}
    simple = [(str(name), value) for name, value in hparams.items() if isinstance(value, bool | int | float | str)]
    return dict(simple[:MOST_PARAMS])
