"""The form that changes the level of an alert rule, and saves it to the user's configuration file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.core.alerts.model import RuleKind
from jobtop.core.errors import ConfigError
from jobtop.tui.actions import FORM, bindings
from jobtop.tui.data.rule_saving import RuleFile, level_input, seconds_input
from jobtop.tui.dialogs.dialog import Dialog, KeyButton, Text
from jobtop.tui.dialogs.fields import FormField, LineInput, Tick, focus_first_problem
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.prose import BLANK, Paragraph
from jobtop.tui.workers import start_work

if TYPE_CHECKING:
    from jobtop.core.alerts.model import Rule
    from jobtop.core.alerts.rule_edit import Field

SEVERITY, ENABLED = "severity", "enabled"
HINTS = {
    "above": "90%, 4GiB, 30s, 100MiB/s or a number",
    "below": "50%, 4GiB, 30s, 100MiB/s or a number",
    "for": "30s, 5m; 0 fires at once",
    "within": "10m",
    "window": "15m, 1h",
    "factor": "1.3 is 30 % more than usual",
    SEVERITY: "info, warning or critical",
}
DURATIONS = {"for": "for_seconds", "within": "within_seconds", "window": "window_seconds"}
FIELDS = {
    RuleKind.LEVEL: ("for",),
    RuleKind.FORECAST: ("within", "window"),
    RuleKind.LEAK: ("window",),
    RuleKind.STALL: ("for",),
    RuleKind.DEVIATION: ("factor",),
    RuleKind.ABSENCE: ("window",),
    RuleKind.EVENT: (),
}


def editable(rule: Rule) -> dict[str, str]:
    """The fields of a rule that can be changed here, with their values as a user would write them."""
    found: dict[str, str] = {}
    if rule.level is not None and rule.expression is not None:
        side = "above" if rule.above is not None else "below"
        found[side] = level_input(rule.expression.measure, rule.level)
    for name in FIELDS[rule.kind]:
        value = getattr(rule, DURATIONS.get(name, name))
        found[name] = "" if value is None else seconds_input(value) if name in DURATIONS else f"{value:g}"
    return found | {SEVERITY: str(rule.severity)}


class RuleForm(Dialog[str]):
    """The fields of a rule; its answer says where it was saved."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(FORM)]
    DEFAULT_CSS = "RuleForm Tick { margin-top: 0; }"

    def __init__(self, rule: Rule, condition: str, file: RuleFile) -> None:
        super().__init__()
        self.rule, self.condition, self.file = rule, condition, file
        self.before = editable(rule)
        self.title_words = "Alert rule"
        self._is_saving = False

    def parts(self) -> ComposeResult:
        yield Text([Paragraph(self.rule.name, bold=True), Paragraph(self.condition, Tone.GREY), BLANK])
        for name, value in self.before.items():
            yield FormField(name, name.capitalize(), LineInput(value, HINTS[name]))
        yield Tick("enabled", ENABLED, self.rule.is_enabled)
        yield Text([BLANK, Paragraph(f"saved to {self.file.shown}", Tone.GREY)])

    def keys(self) -> Iterable[KeyButton]:
        yield KeyButton("form.submit", "Save", field_keys=("enter",))
        yield KeyButton("form.leave")

    def on_mount(self) -> None:
        self.query(FormField).first().editor.focus()

    def on_input_submitted(self) -> None:
        self.action_submit()

    def changes(self) -> dict[str, Field]:
        """The fields that the user has changed, as they are written to the file."""
        found: dict[str, Field] = {}
        for field in self.query(FormField):
            text = field.value.strip()
            if text != self.before[str(field.id)]:
                found[str(field.id)] = as_written(text)
        is_enabled = self.query_one(Tick).value
        return found | ({ENABLED: is_enabled} if is_enabled is not self.rule.is_enabled else {})

    def action_submit(self) -> None:
        changes = self.changes()
        if not changes:
            self.action_leave()
        elif not self._is_saving:
            self._is_saving = True
            start_work(self, self._save, changes)

    async def _save(self, changes: Mapping[str, Field]) -> None:
        try:
            await asyncio.to_thread(self.file.save, self.rule, changes)
        except (ConfigError, OSError) as error:
            self.show_problem(error, changes)
            return
        finally:
            self._is_saving = False
        _ = self.dismiss(f"saved to {self.file.shown}")

    def show_problem(self, error: Exception, changes: Mapping[str, Field]) -> None:
        """Show what is wrong at its field: a message names the field behind the name of the rule."""
        words = f"{error.strerror or error}" if isinstance(error, OSError) else str(error)
        fields = {str(field.id): field for field in self.query(FormField)}
        named = next((name for name in fields if f".{name}: " in words), None)
        chosen = named or next((name for name in changes if name in fields), SEVERITY)
        fields[chosen].problem = words.partition(f".{chosen}: ")[2] or words
        focus_first_problem(self)


def as_written(text: str) -> Field:
    """A number as a number, everything else as text."""
    try:
        return float(text)
    except ValueError:
        return text
