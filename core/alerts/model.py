"""The records of alerts: a rule, a change of the state of an alert, an action, and a message. Pure."""

from __future__ import annotations

from enum import StrEnum

from jobtop.core.metrics import Scope
from jobtop.core.record import fresh, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobtop.core.alerts.expressions.expression import Expression
    from jobtop.core.measure.device import Device
    from jobtop.core.query.conditions import Filter

    Owner = str | Device | None  # the id of a job, a device of this host, or None for the host itself

MOMENTARY = "momentary"  # in the detail of a transition: the alert fires and resolves at the same moment
BUILT_IN = "default"  # the origin of a rule that comes with jobtop


class Severity(StrEnum):
    """How bad an alert is; the order of the names is the order of severity."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class State(StrEnum):
    """The state of an alert.

    `pending`: the condition is true, but not for long enough yet. `firing`: it has been true for long enough.
    `acknowledged`: it is still true, and a person knows. `resolved`: it is no longer true.
    """

    PENDING = "pending"
    FIRING = "firing"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


OPEN_STATES = (State.PENDING, State.FIRING, State.ACKNOWLEDGED)


class RuleKind(StrEnum):
    """What a rule looks for."""

    LEVEL = "level"  # a value above or below a level; rates are expressions
    FORECAST = "forecast"  # a growing value that reaches its limit soon
    LEAK = "leak"  # a value that grows steadily over a long time
    STALL = "stall"  # no CPU time, no I/O and no output for a time
    DEVIATION = "deviation"  # slower or hungrier than earlier runs of the same name
    ABSENCE = "absence"  # a source that has stopped reporting
    EVENT = "event"  # something that happened: failed, timeout, oom_killed, lost, …


@record
class Step:
    """A part of a rule that warns first and acts later: `after_seconds` of firing, do this.

    `do` is `warn`, or an action on the job: `stop`, `kill`, `pause`, `signal:NAME`.
    """

    after_seconds: float
    do: str = "warn"


ENDING = ("stop", "kill", "pause", "signal")  # what a person has to allow with `jobtop alerts arm`


def is_ending(word: str) -> bool:
    """Whether an action on a job stops, kills, pauses or signals it."""
    return word.partition(":")[0] in ENDING


@record
class Rule:
    """One rule, checked. A level is compared with the value of `expression`.

    `window_seconds` is the time that a forecast, a leak or an absence looks at; `within_seconds` is how soon a forecast
    must reach `limit`. `cooldown_seconds` pass before a resolved alert of the rule may send messages again.
    """

    name: str
    kind: RuleKind
    scope: Scope
    severity: Severity
    origin: str  # BUILT_IN, or the path of a file
    expression: Expression | None = None
    above: float | None = None
    below: float | None = None
    clear: float | None = None
    for_seconds: float = 0.0
    cooldown_seconds: float = 0.0
    limit: Expression | None = None
    within_seconds: float | None = None
    window_seconds: float | None = None
    factor: float | None = None  # of a deviation: 1.3 is 30 % more than usual
    events: tuple[str, ...] = ()
    filter: Filter | None = None
    filter_text: str = ""
    message: str | None = None  # a template; None: words of jobtop
    remedy: str | None = None  # what usually helps, in a few words
    actions: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    is_enabled: bool = True
    directory: str | None = None  # a rule of a project's file is for jobs that run in that directory or below it

    @property
    def endings(self) -> tuple[tuple[float, str], ...]:
        """What the rule does to jobs only when it is armed, each with the seconds after which it does."""
        words = [(0.0, word) for word in self.actions] + [(step.after_seconds, step.do) for step in self.steps]
        return tuple((after, word) for after, word in words if is_ending(word))

    @property
    def level(self) -> float | None:
        """The level that a value is compared with."""
        return self.above if self.above is not None else self.below


@record
class Transition:
    """A change of the state of one alert, with the values that caused it.

    `began_at` is when the condition became true, `at` when the state changed, both by the wall clock. `detail` has what
    a kind knows besides: the slope and the time left of a forecast, the usual value of a deviation. With `is_flapping`
    the alert has fired and resolved so often that it stays open until it is calm.
    """

    rule: Rule
    owner: Owner
    state: State
    at: float
    began_at: float
    value: float | None
    text: str  # one line, with the value and the level
    values: Mapping[str, float] = fresh(default_factory=dict)
    detail: Mapping[str, object] = fresh(default_factory=dict)
    is_flapping: bool = False


@record
class Action:
    """A way to tell people, or to act on the job: an `[[action]]` table, or a short form such as `webhook:https://…`.

    `fields` may name secrets as `env:NAME` or `file:PATH`; they are read when a message is sent, never kept.
    """

    name: str
    type: str
    fields: Mapping[str, object]
    origin: str


@record
class Message:
    """What is sent about one alert, or about several of one rule. Plain text: senders escape it for their format.

    `table` has rows of label and value, `consequence` what happens next and when, `command` what to type,
    `look` where to read more. `key` is the same when the message is sent again.
    """

    key: str
    severity: Severity
    state: State
    rule: str
    title: str
    text: str
    host: str
    at: float
    table: tuple[tuple[str, str], ...] = ()
    consequence: str | None = None
    command: str | None = None
    look: str | None = None
    job_ids: tuple[str, ...] = ()
    values: Mapping[str, float] = fresh(default_factory=dict)
    job_names: tuple[str, ...] = ()  # in the order of `job_ids`
    value: float | None = None  # of the first alert
    level: float | None = None
    alerts: tuple[int, ...] = ()  # their ids in the store of `host`

    @property
    def alert(self) -> str:
        """A name of the first alert that is the same when it fires, is told again and is resolved."""
        return f"{self.host}-{self.rule}-{self.alerts[0] if self.alerts else self.key}"
