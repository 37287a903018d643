"""Decides what to delete of old jobs: first all samples but one per minute, later all but the record. Pure."""

from __future__ import annotations

from jobtop.core.model import Kept
from jobtop.core.query.conditions import MatchesPattern
from jobtop.core.record import fresh, record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobtop.core.config import Config, RetentionRule
    from jobtop.core.job_id import JobId

DAY_SECONDS = 86400.0
SETTLE_SECONDS = 60.0  # after a job's end its samples are packed within this time
MINUTES_GAIN = 0.85  # the share of bytes freed by reducing samples to minutes, approximately
MAX_LARGEST = 10
LONG, MACHINE = "long", "machine"  # old samples of a long job, samples of the machine: reported like a tier
PRUNED = "pruned"  # the event of a job: samples and output were deleted; the reason is a setting or a verb
BY_RAW_DAYS, BY_ROLLUP_DAYS, BY_SIZE = "store.raw_days", "store.rollup_days", "store.max_size"
PINNED, RULE, RUNNING, SETTLING = "pinned", "rule", "running", "settling"  # why a job is not changed


@record
class Policy:
    """How long all samples and how long one per minute are kept, exceptions by tag, and the largest total size."""

    raw_seconds: float
    rollup_seconds: float
    max_bytes: int | None = None
    rules: tuple[RetentionRule, ...] = ()


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
        """About how many bytes reducing the samples to minutes would free."""
        return round(MINUTES_GAIN * (self.sample_bytes + self.snapshot_bytes))

    @property
    def all_bytes(self) -> int:
        """How many bytes keeping only the record would free, except the spec, which is needed to run the job again."""
        stored = self.sample_bytes + self.minute_bytes + self.snapshot_bytes + self.mark_bytes
        return stored + self.file_bytes


@record
class Move:
    """A decision about a job: what to keep of it from now on.

    If `to` is what is kept already, only samples up to `until`, in seconds since its start, are reduced.
    """

    job: JobSizes
    to: Kept
    until: float = float("inf")
    takes_spec: bool = False
    by: str = BY_SIZE

    @property
    def before(self) -> str:
        """The tier that data is deleted from; LONG if only old samples of a long job are reduced."""
        return LONG if self.to is self.job.kept else str(self.job.kept)

    @property
    def then(self) -> Kept:
        """The tier of the data afterwards."""
        return Kept.MINUTES if self.to is self.job.kept else self.to

    @property
    def samples(self) -> int:
        """How many samples or minutes are deleted."""
        job = self.job
        if self.to is Kept.RECORD:
            return job.samples + job.minutes
        return job.old_samples if self.to is job.kept else job.samples

    @property
    def freed_bytes(self) -> int:
        job = self.job
        if self.to is Kept.RECORD:
            return job.all_bytes + (job.spec_bytes if self.takes_spec else 0)
        return round(MINUTES_GAIN * job.old_bytes) if self.to is job.kept else job.thinned_bytes


def read_policy(config: Config) -> Policy:
    """Return the policy that the settings describe."""
    return Policy(
        config.number("store.raw_days") * DAY_SECONDS,
        config.number("store.rollup_days") * DAY_SECONDS,
        config.size("store.max_size") or None,
        config.retention,
    )


def policy_warning(policy: Policy) -> str | None:
    """Return a warning if one sample per minute is kept for less time than all samples; None if not."""
    raw, rollup = policy.raw_seconds / DAY_SECONDS, policy.rollup_seconds / DAY_SECONDS
    if rollup >= raw:
        return None
    return (
        f"store.rollup_days ({rollup:g}) is less than store.raw_days ({raw:g}): all samples are kept for {raw:g} days,"
        " then only the record (a larger store.rollup_days keeps one sample per minute for longer)"
    )


def protection(policy: Policy, job: JobSizes, now: float) -> str | None:
    """Return why all data of a job is kept; None if it need not be."""
    if job.pinned:
        return PINNED
    rule = longest_rule(policy.rules, job.tags)
    if rule is not None and (job.ended is None or now - job.ended < rule.seconds):
        return RULE
    return SETTLING if job.settles else None


def longest_rule(rules: Iterable[RetentionRule], tags: Mapping[str, str]) -> RetentionRule | None:
    """Return the matching rule that keeps data longest; None if no rule matches the tags."""
    return max((rule for rule in rules if has_tag(tags, rule.tag)), key=lambda rule: rule.seconds, default=None)


def has_tag(tags: Mapping[str, str], wanted: str) -> bool:
    """Return whether one of the tags matches `key` or `key=value`, with `*` and `?` as in filters."""
    key, has_value, value = wanted.partition("=")
    return any(
        MatchesPattern(key)(name) and (not has_value or MatchesPattern(value)(text)) for name, text in tags.items()
    )


def move_by_age(policy: Policy, job: JobSizes, now: float) -> Move | None:
    """Return what to delete of a job because of its age; None if nothing."""
    if job.kept is Kept.RECORD or protection(policy, job, now) is not None:
        return None
    age = None if job.ended is None else now - job.ended
    if age is not None and age >= max(policy.raw_seconds, policy.rollup_seconds):
        return Move(job, Kept.RECORD, by=BY_ROLLUP_DAYS if policy.rollup_seconds >= policy.raw_seconds else BY_RAW_DAYS)
    if job.kept is not Kept.WHOLE:
        return None
    if age is not None and age >= policy.raw_seconds:
        return Move(job, Kept.MINUTES)
    if job.old_samples:
        return Move(job, Kept.WHOLE, now - policy.raw_seconds - job.begun)
    return None


def sizes_after(move: Move) -> JobSizes:
    """Return approximately what the store holds after a move."""
    job = move.job
    if move.to is Kept.RECORD:
        return JobSizes(
            job.seq,
            job.id,
            job.name,
            Kept.RECORD,
            job.begun,
            job.ended,
            job.pinned,
            job.tags,
        )
    thinned = job.old_bytes if move.to is job.kept else job.sample_bytes
    left = replace(
        job,
        kept=move.to,
        samples=job.samples - move.samples,
        sample_bytes=job.sample_bytes - thinned,
        old_samples=0,
        old_bytes=0,
        minute_bytes=job.minute_bytes + round((1 - MINUTES_GAIN) * thinned),
    )
    return left if move.to is job.kept else replace(left, snapshot_bytes=round((1 - MINUTES_GAIN) * job.snapshot_bytes))


class Budget:
    """Decides job by job, oldest first, what to delete to free `over_bytes`.

    While reducing all samples to minutes would not be enough, only the record of the oldest jobs is kept. After that,
    samples of the oldest jobs are reduced.
    """

    def __init__(self, over_bytes: int, thinnable_bytes: int) -> None:
        self.over_bytes, self.thinnable_bytes = over_bytes, thinnable_bytes

    def decide(self, job: JobSizes) -> Move | None:
        """Return what to delete of a job; it has to be one of the jobs that `thinnable_bytes` was summed over."""
        if self.over_bytes <= 0:
            return None
        thinned = gain_by_minutes(job)
        gained = job.all_bytes + job.spec_bytes
        if self.over_bytes > self.thinnable_bytes:
            move = Move(job, Kept.RECORD, takes_spec=True) if gained else None
        else:
            move = Move(job, Kept.MINUTES) if thinned else None
        if move is not None:
            self.over_bytes -= move.freed_bytes
            self.thinnable_bytes -= thinned
        return move


def gain_by_minutes(job: JobSizes) -> int:
    """Return how many bytes reducing the samples of a job to minutes would free."""
    return job.thinned_bytes if job.kept is Kept.WHOLE else 0


def may_shrink(policy: Policy, job: JobSizes, now: float) -> bool:
    """Return whether data of a job may be deleted to save space."""
    return job.ended is not None and protection(policy, job, now) is None


@record
class Removed:
    """What was or would be deleted of some jobs."""

    jobs: int = 0
    samples: int = 0
    file_bytes: int = 0
    freed_bytes: int = 0

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            self.jobs + other.jobs,
            self.samples + other.samples,
            self.file_bytes + other.file_bytes,
            self.freed_bytes + other.freed_bytes,
        )


class Report:
    """What one pass deleted, or would delete, by tier before and after, and the jobs that freed most."""

    def __init__(self) -> None:
        self.removed: dict[tuple[str, str], Removed] = {}
        self.largest: list[Move] = []
        self.total_bytes = 0  # the size before anything was deleted
        self.left_bytes = 0
        self.over_bytes = 0  # by how much the history still exceeds its limit
        self.held: dict[str, int] = {}  # bytes that may not be deleted, by reason

    def add(self, before: str, then: str, removed: Removed) -> None:
        self.removed[before, then] = self.removed.get((before, then), Removed()) + removed

    def add_move(self, move: Move) -> None:
        job = move.job
        files = job.file_bytes if move.to is Kept.RECORD else 0
        self.add(move.before, move.then, Removed(1, move.samples, files, move.freed_bytes))
        if move.freed_bytes:
            self.largest.append(move)
            self.largest.sort(key=lambda other: -other.freed_bytes)
            del self.largest[MAX_LARGEST:]

    @property
    def samples(self) -> int:
        return sum(removed.samples for removed in self.removed.values())

    @property
    def jobs(self) -> int:
        return sum(removed.jobs for removed in self.removed.values())

    @property
    def freed_bytes(self) -> int:
        return sum(removed.freed_bytes for removed in self.removed.values())
