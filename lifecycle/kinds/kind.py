"""The interface of a kind of jobs, such as commands below a shim, or processes that were already running.

A new kind is a module with an object `KIND` that has the attributes and methods of `Kind`, and a line in
`registry.MODULES`; a test can call `registry.register` instead.

Before the command of a job is executed, its kind creates `started` in the directory of the job (see core/run/facts).
Only one process can create that file, so that no job starts twice. The file has the root process, which is `shim` in
the record: the shim or, for a kind without shims, the topmost process of the job itself.
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
        """A start that was ordered; `fd` is readable once there is an answer."""

        @property
        def fd(self) -> int: ...
        def answer(self) -> Facts | None:
            """Wait for the answer: how the job started, or why it could not; None if the start was aborted."""

        def give_up(self) -> Unanswered:
            """Try to end a start that takes too long; called again until the result is not empty."""

        def close(self) -> None:
            """Close `fd`; the job goes on."""

    class Kind(Protocol):
        """All that verbs, console, agent and `reconcile` do with a job depends on its kind only through this."""

        name: str
        has_shim: bool  # whether `start` needs `Order.supervisor`
        why_no_output: str | None  # None: its output is kept in its directory; {name} is the name of the container
        knows_exit_status: bool
        signals_processes: bool  # only the user who owns the root process may act; False: an engine checks that

        def start(self, order: Order) -> Starting:
            """Order a job to start, without waiting for the answer."""

        def target(self, paths: StatePaths, job: Job) -> Target | None:
            """The processes and cgroups to sample; None if the job has not started."""

        def is_alive(self, job: Job) -> bool:
            """Whether a part of the job may still run: its root process, for the kinds that jobtop has."""

        def has_ended(self, paths: StatePaths, job: Job) -> bool:
            """Whether the job has ended although `is_alive`, such as a job that left processes running."""

        def refusal(self, job: Job) -> str | None:
            """Why this process must not act on the job; None if it may."""

        def ensure_reachable(self, job: Job) -> None:
            """EngineError if an engine has to act on the job and does not answer; before a request is recorded."""

        def stop(self, job: Job) -> bool:
            """Have all processes end: TERM, and KILL after the grace period; False if nothing runs."""

        def kill(self, job: Job) -> None:
            """Send KILL to all processes; processes that are forked meanwhile need another call."""

        def signal(self, job: Job, number: int) -> None:
            """Send a signal to all processes."""

        def pause(self, job: Job) -> None:
            """Send STOP to all processes; returns when all are stopped."""

        def resume(self, job: Job) -> None:
            """Send CONT to all processes."""

        def processes(self, job: Job) -> int:
            """How many processes of the job exist."""

        def survivors(self, paths: StatePaths, job: Job) -> list[Identity]:
            """The processes of the job that still run although it is not `is_alive`, because its shim was killed."""

        def record_end(self, jobs: Jobs, paths: StatePaths, job: Job, watched: Watched | None = None) -> Job:
            """Write how the job ended, if it has; the new record. `watched` is None if the caller did not sample it."""

        def why_not_again(self, paths: StatePaths, job: Job) -> str | None:
            """Why the job cannot be run again; None if it can."""


START_SECONDS = 10.0  # a job without `started` so long after its order will not start by itself


@record
class Order:
    """What a kind needs to start a job."""

    spec: JobSpec
    directory: str | None  # for `started`, `ended`, `marks` and the logs; None if it could not be made
    with_cgroup: bool
    with_stdin: bool = False
    successor: AgentLaunch | None = None  # how to start the agent that takes over if this process is killed
    supervisor: Supervisor | None = None  # a shim that was started in advance


@record
class Unanswered:
    """The result of `give_up`: `facts` if the job did start, or `why` it never will; if both are None, call again."""

    facts: Facts | None = None
    why: str | None = None


@record
class Watched:
    """What the process that sampled a job knows at its end."""

    observation: Observation | None
    cpu_seconds: float | None  # the CPU time of sampling it
    rss_bytes: int | None = None  # the memory of the process that sampled it
