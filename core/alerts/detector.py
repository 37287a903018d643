"""What a kind of rule beyond a level has to offer, and what it is given. The evaluator knows no kind. Pure.

A detector belongs to one rule and keeps what it needs of each owner. Every ten seconds it gets the newest readings of
all owners of the rule, and returns a finding for each that it can judge. States, `for` and flapping are not its task:
it says bad or good, and the evaluator does the rest.
"""

from __future__ import annotations

from importlib import import_module

from jobtop.core.alerts.model import RuleKind
from jobtop.core.alerts.state_machine import Verdict
from jobtop.core.record import fresh, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Protocol

    from jobtop.core.alerts.model import Owner, Rule
    from jobtop.core.model import Job, Sample

    Number = float | int

    class Detector(Protocol):
        """Judges the owners of one rule. `join` may come again for a job that it knows: the record has changed.

        With `is_fed`, it gets every value of the rule's expression as it is sampled. With `looks_early`, an alert of
        it that may fire before the next look is looked at when its time is over. `look` returns a finding for
        each owner that it can judge, also while nothing is wrong: an earlier engine may have opened an alert. It gets
        no reading of an owner that does not concern it, such as a job without a limit.
        """

        is_fed: bool
        looks_early: bool

        def join(self, job: Job) -> None: ...
        def leave(self, owner: Owner) -> None: ...
        def feed(self, owner: Owner, moment: float, value: float) -> None: ...
        def set_past(self, job_id: str, past: Sequence[Job]) -> None: ...
        def concerns(self, owner: Owner) -> bool: ...
        def look(self, readings: Sequence[Reading], now: float) -> Iterable[Finding]: ...
        def look_early(self, reading: Reading, now: float) -> Finding | None: ...
        def look_back(self, job: Job, past: Sequence[Job]) -> Finding | None: ...


@record
class Reading:
    """The newest values of an owner. `value` is that of the rule's expression, `limit` that of its limit.

    `moment` is when they were read: seconds since the start of the job, or since boot. `age_seconds` is how long ago
    that was, without the time that the machine was suspended. `still_seconds` is for how long no counter of the work
    of a job had grown then. `get` returns the value of any key of the owner, and
    `sample` has those of a job.
    """

    owner: Owner
    moment: float
    age_seconds: float
    value: float | None
    limit: float | None
    get: Callable[[str], Number | None]
    sample: Sample | None = None
    still_seconds: float = 0.0


@record
class Finding:
    """What a detector says of an owner: bad, good, or absent if it cannot know; and why, in one line.

    `lasted_seconds` is for how long it has been bad already, if the detector knows that.
    """

    owner: Owner
    verdict: Verdict
    value: float | None = None
    text: str = ""
    values: Mapping[str, float] = fresh(default_factory=dict)
    detail: Mapping[str, object] = fresh(default_factory=dict)
    fields: Mapping[str, str] = fresh(default_factory=dict)  # of message templates, besides those of every rule
    lasted_seconds: float = 0.0


class Indifferent:
    """What a detector does with calls that do not concern it: nothing."""

    is_fed = looks_early = False

    def join(self, job: Job) -> None:
        """A job is judged from now on."""

    def leave(self, owner: Owner) -> None:
        """A job is judged no longer."""

    def feed(self, owner: Owner, moment: float, value: float) -> None:
        """A value of the rule's expression was sampled."""

    def set_past(self, job_id: str, past: Sequence[Job]) -> None:
        """Earlier jobs of the same name, the newest first."""

    def concerns(self, owner: Owner) -> bool:
        """Whether a reading of this owner is needed."""
        return True

    def look_early(self, reading: Reading, now: float) -> Finding | None:
        """Judge an owner between two looks; None if that is not possible."""

    def look_back(self, job: Job, past: Sequence[Job]) -> Finding | None:
        """Judge a job that has ended."""


# The module in core/alerts/detectors/ of each kind. It has a function `open_detector(rule)`.
MODULES: dict[RuleKind, str] = {
    RuleKind.FORECAST: "growth",
    RuleKind.LEAK: "growth",
    RuleKind.STALL: "stall",
    RuleKind.DEVIATION: "unusual_runs",
    RuleKind.ABSENCE: "absence",
}


def open_detector(rule: Rule) -> Detector | None:
    """Return a detector for a rule; None if levels and events are all that its kind needs."""
    if rule.kind not in MODULES:
        return None
    module = import_module(f"jobtop.core.alerts.detectors.{MODULES[rule.kind]}")
    opened: Detector = module.open_detector(rule)
    return opened
