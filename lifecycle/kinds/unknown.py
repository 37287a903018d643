"""The kind of jobs that a newer jobtop wrote, and this version does not know: they are listed and not touched."""

from __future__ import annotations

from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from jobtop.core.measure.target import Target
    from jobtop.core.model import Identity, Job
    from jobtop.core.paths import StatePaths
    from jobtop.lifecycle.kinds.kind import Order, Watched
    from jobtop.store.jobs import Jobs


class UnknownKind:
    """A kind of which only the name is known; every request is refused."""

    has_shim = False
    why_no_output: str | None = None
    knows_exit_status = True
    signals_processes = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.why = (
            f'this jobtop cannot act on jobs of the kind "{printable(name)}", which a newer one wrote: upgrade it'
        )

    def start(self, order: Order) -> NoReturn:
        raise NotImplementedError(self.why)

    def target(self, paths: StatePaths, job: Job) -> Target | None:
        return None

    def is_alive(self, job: Job) -> bool:
        return False

    def has_ended(self, paths: StatePaths, job: Job) -> bool:
        return False

    def refusal(self, job: Job) -> str | None:
        return self.why

    def ensure_reachable(self, job: Job) -> None:
        return

    def stop(self, job: Job) -> bool:
        return False

    def kill(self, job: Job) -> None:
        return

    def signal(self, job: Job, number: int) -> None:
        return

    def pause(self, job: Job) -> None:
        return

    def resume(self, job: Job) -> None:
        return

    def processes(self, job: Job) -> int:
        return 0

    def survivors(self, paths: StatePaths, job: Job) -> list[Identity]:
        return []

    def record_end(self, jobs: Jobs, paths: StatePaths, job: Job, watched: Watched | None = None) -> Job:
        return job

    def why_not_again(self, paths: StatePaths, job: Job) -> str | None:
        return self.why
