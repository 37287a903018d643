"""What jobtop can do with the jobs of one kind: the door through which a new kind of job comes in.

Before anything of a job runs, its kind creates `started` in the directory of the job (see core/run/facts). That file
commits the start, so that no job starts twice, and it names the root process, which is the `shim` of the record.
"""

from __future__ import annotations

from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from jobtop.core.measure.observation import Observation
    from jobtop.core.measure.target import Target
    from jobtop.core.model import Identity, Job, JobSpec
    from jobtop.core.paths import StatePaths
    from jobtop.core.run.facts import Facts
    from jobtop.core.run.supervisor import AgentLaunch, Supervisor
    from jobtop.store.jobs import Jobs

    class Starting(Protocol):
        """A job that was ordered to start; `fd` is readable once there is an answer."""

        @property
        def fd(self) -> int: ...
        def answer(self) -> Facts | None:
            """How the job started, or why it could not; None if the start was aborted."""

        def give_up(self) -> Unanswered:
            """End a start that takes too long; called again and again until it says how that went."""

        def close(self) -> None:
            """Close `fd`; the job goes on."""

    class Kind(Protocol):
        """Verbs, console, agent and reconciliation act on a job only through this."""

        name: str
        has_shim: bool  # whether a start needs `Order.supervisor`
        why_no_output: str | None  # None: its output is kept in its directory
        knows_exit_status: bool

        def start(self, order: Order) -> Starting:
            """Order a job to start."""

        def target(self, paths: StatePaths, job: Job) -> Target | None:
            """What to sample of a job; None if it has not started."""

        def is_alive(self, job: Job) -> bool:
            """Whether something of the job may still run."""

        def has_ended(self, paths: StatePaths, job: Job) -> bool:
            """Whether the job ended although something of it may still run."""

        def refusal(self, job: Job) -> str | None:
            """Why this process must not act on the job; None if it may."""

        def stop(self, job: Job) -> bool:
            """Ask all processes to end, and see to it that they are killed after the grace; False if there are none."""

        def kill(self, job: Job) -> None:
            """Kill all processes at once; processes that are forked meanwhile need another call."""

        def signal(self, job: Job, number: int) -> None:
            """Send a signal to all processes."""

        def pause(self, job: Job) -> None:
            """Stop all processes until `resume`; returns when they stand still."""

        def resume(self, job: Job) -> None:
            """Let paused processes continue."""

        def processes(self, job: Job) -> int:
            """How many processes of the job exist."""

        def survivors(self, paths: StatePaths, job: Job) -> list[Identity]:
            """Processes that still run although the job is not alive any more."""

        def record_end(self, jobs: Jobs, paths: StatePaths, job: Job, watched: Watched | None = None) -> Job:
            """Write how the job ended, if it did; the record as it is then."""

        def why_not_again(self, paths: StatePaths, job: Job) -> str | None:
            """Why the same job cannot be started once more; None if it can."""


START_SECONDS = 10.0  # within which a job that was ordered to start has `started` in its directory


@record
class Order:
    """What it takes to start a job."""

    spec: JobSpec
    directory: str | None  # for its facts and output; None: the state directory cannot be written
    with_cgroup: bool
    with_stdin: bool = False
    successor: AgentLaunch | None = None  # the agent that takes over the job if this process is killed
    supervisor: Supervisor | None = None  # a shim that was made ahead


@record
class Unanswered:
    """What became of a start that took too long: it happened after all, or it never will. Neither: ask again."""

    facts: Facts | None = None
    why: str | None = None


@record
class Watched:
    """What the process that watched a job knows at its end."""

    observation: Observation | None
    cpu_seconds: float | None  # that watching it has cost
    rss_bytes: int | None = None
