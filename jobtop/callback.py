"""ResourceMonitorCallback: the monitor of a training for Lightning, with the interface of the OCR callback.

It is a `Callback` of the Lightning that is imported, `lightning` or `pytorch_lightning` (or of both); if none is, of
the one that is installed. Without Lightning it is a plain class: `watch`, and the hooks for a trainer of your own.
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


def lightning_callbacks() -> tuple[type, ...]:
    """Return the class `Callback` of each Lightning that is imported, else of the first that can be; or none."""
    imported = [sys.modules[name].Callback for name in LIGHTNINGS if hasattr(sys.modules.get(name), "Callback")]
    if imported:
        return tuple(imported)
    for name in LIGHTNINGS:
        try:
            return (importlib.import_module(name).Callback,)
        except Exception:  # noqa: BLE001 - a border: a broken Lightning fails where the training imports it
            continue
    return ()


if TYPE_CHECKING:

    class LightningCallback:
        """What the type checker knows of Lightning's class."""
else:
    LightningCallback = type("LightningCallback", lightning_callbacks(), {})


class ResourceMonitorCallback(ResourceMonitor, LightningCallback):
    """Watches `trainer.fit`: prints what it uses every few batches, warns, and writes a CSV file per epoch.

    A training is one job of the history. In a distributed one each rank is a job and writes files of its own; only
    rank 0 prints.
    """

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
        """End the job as failed, or as cancelled after Ctrl-C."""
        self.close(exception)


def simple_params(pl_module: Any) -> dict[str, Any]:
    """Return the hyperparameters of a module that are numbers, texts or truth values."""
    hparams = getattr(pl_module, "hparams", None)
    if hparams is None or not hasattr(hparams, "items"):
        return {}
    simple = [(str(name), value) for name, value in hparams.items() if isinstance(value, bool | int | float | str)]
    return dict(simple[:MOST_PARAMS])
