"""What goes of old jobs, and when: every sample, then one a minute, then the record alone. Pure; one job at a time."""

from __future__ import annotations

from jobtop.core.model import Kept
from jobtop.core.query.conditions import Like
from jobtop.core.record import fresh, record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobtop.core.config import Config, KeepRule
    from jobtop.core.job_id import JobId

DAY_SECONDS = 86400.0
SETTLING_SECONDS = 60.0  # what a job left is packed by then
THINNED = 0.85  # of what is thinned to minutes, about, is gained
LARGEST = 10
LONG, MACHINE = "long", "machine"  # what goes of one while the rest stays
PINNED, RULE, RUNNING, SETTLING = "pinned", "rule", "running", "settling"  # why a job stays as it is


@record
class Policy:
    """How long every sample stays, and one a minute, of all jobs or of those with a tag; what all of it may take."""

    raw_seconds: float
    rollup_seconds: float
    max_bytes: int | None = None
    rules: tuple[KeepRule, ...] = ()


@record
class JobSizes:
    """The disk space of one job by kind, and the number of its samples; old ones are past `Policy.raw_seconds`.

    `ended` is None while more data may come. A job `settles` for a moment after its end.
    """

    seq: int
    id: JobId
    name: str
    kept: Kept
    begun: float
    ended: float | None
    pinned: bool = False
    tags: Mapping[str, str] = fresh(default_factory=dict)
    samples: int = 0
    sample_bytes: int = 0
    old_samples: int = 0
    old_bytes: int = 0
    minutes: int = 0
    minute_bytes: int = 0
    snapshot_bytes: int = 0
    mark_bytes: int = 0
    file_bytes: int = 0
    spec_bytes: int = 0
    settles: bool = False

    @property
    def thinned_bytes(self) -> int:
        """What making minutes of it would gain, about."""
        return round(THINNED * (self.sample_bytes + self.snapshot_bytes))

    @property
    def all_bytes(self) -> int:
        """What keeping the record alone would gain, but for what is needed to run the job again."""
        stored = self.sample_bytes + self.minute_bytes + self.snapshot_bytes + self.mark_bytes
        return stored + self.file_bytes


@record
class Move:
    """What is to be done to a job: to keep this of it from now on.

    Whole after as before: only its samples up to `until`, in seconds since its start, are thinned.
    """

    job: JobSizes
    to: Kept
    until: float = float("inf")
    takes_spec: bool = False

    @property
    def before(self) -> str:
        """What is kept of that which goes: of a long job only the old samples do."""
        return LONG if self.to is self.job.kept else str(self.job.kept)

    @property
    def then(self) -> Kept:
        return Kept.MINUTES if self.to is self.job.kept else self.to

    @property
    def samples(self) -> int:
        """How many samples, or minutes, go."""
        of = self.job
        if self.to is Kept.RECORD:
            return of.samples + of.minutes
        return of.old_samples if self.to is of.kept else of.samples

    @property
    def freed_bytes(self) -> int:
        of = self.job
        if self.to is Kept.RECORD:
            return of.all_bytes + (of.spec_bytes if self.takes_spec else 0)
        return round(THINNED * of.old_bytes) if self.to is of.kept else of.thinned_bytes


def policy_of(config: Config) -> Policy:
    """The policy that the settings describe."""
    return Policy(
        config.number("store.raw_days") * DAY_SECONDS,
        config.number("store.rollup_days") * DAY_SECONDS,
        config.size("store.max_size") or None,
        config.retention,
    )


def skipped_minutes(policy: Policy) -> str | None:
    """What is odd about a policy that keeps one sample a minute no longer than all; None if it does not."""
    raw, rollup = policy.raw_seconds / DAY_SECONDS, policy.rollup_seconds / DAY_SECONDS
    if rollup >= raw:
        return None
    return (
        f"store.rollup_days ({rollup:g}) is less than store.raw_days ({raw:g}): jobs stay whole for {raw:g} days, then"
        " their record alone (a larger store.rollup_days keeps one sample a minute for longer)"
    )


def protection(policy: Policy, job: JobSizes, now: float) -> str | None:
    """Why a job stays whole; None if it need not."""
    if job.pinned:
        return PINNED
    rule = longest_rule(policy.rules, job.tags)
    if rule is not None and (job.ended is None or now - job.ended < rule.seconds):
        return RULE
    return SETTLING if job.settles else None


def longest_rule(rules: Iterable[KeepRule], tags: Mapping[str, str]) -> KeepRule | None:
    """Of the rules that fit a job the one that counts."""
    return max((rule for rule in rules if has_tag(tags, rule.tag)), key=lambda rule: rule.seconds, default=None)


def has_tag(tags: Mapping[str, str], wanted: str) -> bool:
    """Whether one of the tags is `key`, or is `key=value`; with `*` and `?` as in filters."""
    key, has_value, value = wanted.partition("=")
    return any(Like(key)(name) and (not has_value or Like(value)(text)) for name, text in tags.items())


def by_age(policy: Policy, job: JobSizes, now: float) -> Move | None:
    """What its age does to a job; None if nothing."""
    if job.kept is Kept.RECORD or protection(policy, job, now) is not None:
        return None
    age = None if job.ended is None else now - job.ended
    if age is not None and age >= max(policy.raw_seconds, policy.rollup_seconds):
        return Move(job, Kept.RECORD)
    if job.kept is not Kept.WHOLE:
        return None
    if age is not None and age >= policy.raw_seconds:
        return Move(job, Kept.MINUTES)
    if job.old_samples:
        return Move(job, Kept.WHOLE, now - policy.raw_seconds - job.begun)
    return None


def after(move: Move) -> JobSizes:
    """What is held once a move is done, about."""
    of = move.job
    if move.to is Kept.RECORD:
        return JobSizes(of.seq, of.id, of.name, Kept.RECORD, of.begun, of.ended, of.pinned, of.tags)
    thinned = of.old_bytes if move.to is of.kept else of.sample_bytes
    left = replace(
        of,
        kept=move.to,
        samples=of.samples - move.samples,
        sample_bytes=of.sample_bytes - thinned,
        old_samples=0,
        old_bytes=0,
        minute_bytes=of.minute_bytes + round((1 - THINNED) * thinned),
    )
    return left if move.to is of.kept else replace(left, snapshot_bytes=round((1 - THINNED) * of.snapshot_bytes))


class Budget:
    """What has to go so that all takes so much less; asked job by job, the oldest first.

    As long as thinning all would not be enough the record alone stays of the oldest; then the oldest are thinned.
    """

    def __init__(self, over_bytes: int, thinnable_bytes: int) -> None:
        self.over_bytes, self.thinnable_bytes = over_bytes, thinnable_bytes

    def decide(self, job: JobSizes) -> Move | None:
        """What becomes of a job that may go; it has to be one of those that `thinnable_bytes` is the sum of."""
        if self.over_bytes <= 0:
            return None
        thinned = thinnable(job)
        gained = job.all_bytes + job.spec_bytes
        if self.over_bytes > self.thinnable_bytes:
            move = Move(job, Kept.RECORD, takes_spec=True) if gained else None
        else:
            move = Move(job, Kept.MINUTES) if thinned else None
        if move is not None:
            self.over_bytes -= move.freed_bytes
            self.thinnable_bytes -= thinned
        return move


def thinnable(job: JobSizes) -> int:
    """What can be gained of a job without letting go of it."""
    return job.thinned_bytes if job.kept is Kept.WHOLE else 0


def may_go_for_size(policy: Policy, job: JobSizes, now: float) -> bool:
    """Whether the budget may take something of a job."""
    return job.ended is not None and protection(policy, job, now) is None


@record
class Went:
    """What went of some jobs, or would."""

    jobs: int = 0
    samples: int = 0
    file_bytes: int = 0
    freed_bytes: int = 0

    def __add__(self, other: Went) -> Went:
        return Went(
            self.jobs + other.jobs,
            self.samples + other.samples,
            self.file_bytes + other.file_bytes,
            self.freed_bytes + other.freed_bytes,
        )


class Report:
    """What one pass did, or would do: by what was kept before and is after, and the jobs that gained most."""

    def __init__(self) -> None:
        self.went: dict[tuple[str, str], Went] = {}
        self.largest: list[Move] = []
        self.total_bytes = 0  # of all, before anything went
        self.left_bytes = 0
        self.over_bytes = 0  # more than all may take, and what of that has to stay
        self.held: dict[str, int] = {}

    def add(self, before: str, then: str, went: Went) -> None:
        self.went[before, then] = self.went.get((before, then), Went()) + went

    def add_move(self, move: Move) -> None:
        of = move.job
        files = of.file_bytes if move.to is Kept.RECORD else 0
        self.add(move.before, move.then, Went(1, move.samples, files, move.freed_bytes))
        if move.freed_bytes:
            self.largest.append(move)
            self.largest.sort(key=lambda other: -other.freed_bytes)
            del self.largest[LARGEST:]

    @property
    def samples(self) -> int:
        return sum(went.samples for went in self.went.values())

    @property
    def jobs(self) -> int:
        return sum(went.jobs for went in self.went.values())

    @property
    def freed_bytes(self) -> int:
        return sum(went.freed_bytes for went in self.went.values())
