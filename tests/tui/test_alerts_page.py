"""The Alerts page: what is active, the history, the rules, and what its keys change."""

import os
import time
from pathlib import Path
from typing import Any

from raised import RULES, TEXT, raise_alert
from textual.widgets import Input

from jobtop.core.alerts.model import MOMENTARY, RuleKind, State, Step, Transition
from jobtop.core.config import load
from jobtop.core.model import Job, Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.alerts.marks import MarkKind, Marks
from jobtop.store.database import open_to_read, open_to_write
from jobtop.store.incidents import read_incidents
from jobtop.store.jobs import Jobs
from jobtop.tui.app import Options
from jobtop.tui.data.alert_rules import RuleRow, RuleState
from jobtop.tui.dialogs.rule_form import RuleForm
from jobtop.tui.palette import Tone
from jobtop.tui.screens.alerts import Alerts
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.widgets import alert_table
from jobtop.tui.widgets.alert_table import AlertRow
from jobtop.tui.widgets.cells import Align, Words
from jobtop.tui.widgets.incident_table import end, lasting, rule_condition
from records import HERE, HOSTILE_TEXTS, holds_controls, kept_jobs, live_job, made_job
from visiting import Visitor, own_store, visit


def options(home: Path, text: str = "", **values: Any) -> Options:
    """The options of a console on this host's store, with a configuration file."""
    directory = Path(os.environ["HOME"]) / ".config/jobtop"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.toml").write_text(text)
    return own_store(StatePaths(home, HERE), config=load((), os.environ, home.parent, root=home.parent), **values)


def failed(name: str, seconds_ago: float, **values: Any) -> Job:
    ended = time.time() - seconds_ago
    values = {"status": Status.FAILED, "exit_code": 3, "reason": "exit code 3", **values}
    return made_job(name=name, start_time=ended - 2, end_time=ended, **values)


def page(visitor: Visitor) -> Alerts:
    found = visitor.console.pages["alerts"]
    assert isinstance(found, Alerts)
    return found


async def told(visitor: Visitor, words: str) -> None:
    """Wait for a notification; on the screen its words may be wrapped."""
    await visitor.until(lambda: any(words in shown.message for shown in visitor.console._notifications), words)


def listed(visitor: Visitor, pane: str = "active") -> list[str]:
    """The names of the rows of a pane, from the top."""
    table = visitor.console.screen.query_one(f"#{pane}")
    return [row.name for row in table.source.window(0, 100)]  # type: ignore[attr-defined]


def test_what_fires_comes_first_by_severity_then_pending_then_acknowledged(home: Path) -> None:
    jobs = kept_jobs(home, *(live_job(name=name) for name in ("mild", "bad", "soon", "known", "over")))
    kept_jobs(home, failed("broken", 60))
    raise_alert(home, jobs[0], "cpu-throttled")
    raise_alert(home, jobs[1], "job-memory-limit", at=time.time() - 600)
    raise_alert(home, jobs[2], "job-memory-limit", State.PENDING)
    known = raise_alert(home, jobs[3], "job-memory-limit")
    raise_alert(home, jobs[4], "job-memory-limit", State.RESOLVED)
    database = open_to_write(StatePaths(home, HERE))
    AlertStore(database).acknowledge([known.id], "ada")
    database.close()

    async def scene(visitor: Visitor) -> None:
        await visitor.press("5")
        screen = await visitor.shows("3 open · 1 acked · 1 pending", "resolved", "happened")
        assert listed(visitor) == ["broken", "bad", "mild", "soon", "known"]
        assert sorted(listed(visitor, "past")) == sorted(["broken", "bad", "mild", "known", "over"])
        assert "▲3" in screen.splitlines()[0]
        assert next(line for line in screen.splitlines() if "broken" in line).split()[1] == "✗"

    visit(home, scene, options=options(home))


def test_an_alert_about_a_moment_has_happened_and_has_no_length(home: Path) -> None:
    [job] = kept_jobs(home, failed("broken", 60))
    database, at = open_to_write(StatePaths(home, HERE)), time.time()
    rules = [RULES["job-failed"], replace(RULES["job-stalled"], name="slow", kind=RuleKind.DEVIATION)]
    changes = [
        Transition(rule, job.id, state, at, at, 2.0, "exit code 3", detail={MOMENTARY: True})
        for rule in rules
        for state in (State.FIRING, State.RESOLVED)
    ]
    AlertStore(database).apply(changes, lambda _: job.seq or 0)
    found = {incident.rule: incident for incident in read_incidents(database, at - 600)}
    alerts = AlertStore(database).listing()
    database.close()
    assert [alert_table.state(AlertRow(alert, 0.0, "")) for alert in alerts] == [Words("happened", Tone.BLUE)] * 2
    assert {rule: end(incident) for rule, incident in found.items()} == {
        None: Words("happened"),
        "slow": Words("happened"),
    }
    assert lasting(at)(found["slow"]) == Words("–", Tone.GREY)
    assert end(replace(found["slow"], is_acknowledged=True)) == Words("acked", Tone.GREY)


def test_a_rule_that_would_act_says_how_to_arm_it() -> None:
    rule = replace(RULES["gpu-idle"], name="too long", steps=(Step(60.0), Step(120.0, "stop")))
    rows = [
        RuleRow(rule, "when", RuleState.ACTIVE, ""),
        RuleRow(rule, "when", RuleState.ACTIVE, "", is_armed=True),
        RuleRow(rule, "when", RuleState.OFF, ""),
        RuleRow(RULES["gpu-idle"], "when", RuleState.ACTIVE, ""),
    ]
    shown = ["".join(span.text for span in rule_condition(row).spans(60, Align.LEFT)).strip() for row in rows]
    assert shown == ["not armed: jobtop alerts arm 'too long' · when", "may act · when", "when", "when"]


def test_a_failure_shows_its_last_line_of_output(home: Path) -> None:
    [job] = kept_jobs(home, failed("dump", 60))
    directory = StatePaths(home, HERE).job(job.id)
    directory.mkdir(parents=True)
    (directory / "stderr.log").write_text("line one\npg_dump: error: connection refused [/b]\n")

    async def scene(visitor: Visitor) -> None:
        await visitor.shows("exit code 3 after 2s · pg_dump:")
        await visitor.press("5")
        await visitor.shows("exit code 3 after 2s  pg_dump: error: connection refused [/b]")

    visit(home, scene, options=options(home))


def test_enter_opens_the_job_at_the_moment_of_the_alert(home: Path) -> None:
    began = time.time() - 500
    [job] = kept_jobs(home, live_job(name="train", start_time=began))
    raise_alert(home, job, at=began + 120)

    async def scene(visitor: Visitor) -> None:
        await visitor.press("5")
        await visitor.shows(TEXT)
        await visitor.press("enter")
        await visitor.until(lambda: isinstance(visitor.console.screen, JobScreen))
        screen = visitor.console.screen
        assert isinstance(screen, JobScreen)
        await visitor.until(lambda: screen.moment is not None)
        assert abs((screen.moment or 0.0) - 120) < 1
        await visitor.press("escape", "exclamation_mark")
        await visitor.shows("Alerts 1", "firing", "+2m00s")
        assert screen.moment is None
        await visitor.press("enter")
        await visitor.until(lambda: screen.moment is not None)

    visit(home, scene, options=options(home))


def test_acknowledging_marks_alerts_and_failures_as_known(home: Path) -> None:
    [job] = kept_jobs(home, live_job(name="train"))
    [broken] = kept_jobs(home, failed("broken", 60))
    raise_alert(home, job)

    async def scene(visitor: Visitor) -> None:
        await visitor.press("5")
        await visitor.shows("Active  2 open")
        await visitor.press("space", "space", "A")
        screen = await visitor.shows("Active  0 open · 2 acked")
        assert "▲" not in screen.splitlines()[0]

    visit(home, scene, options=options(home))
    database = open_to_read(StatePaths(home, HERE).store)
    [alert] = AlertStore(database).listing()
    assert alert.state is State.ACKNOWLEDGED
    assert alert.acknowledged_by
    assert Marks(database).has(MarkKind.SEEN, broken.id)
    database.close()


def test_a_console_that_only_reads_says_why_it_acknowledges_nothing(home: Path) -> None:
    kept_jobs(home, failed("broken", 60))

    async def scene(visitor: Visitor) -> None:
        await visitor.press("5")
        await visitor.shows("broken")
        await visitor.press("A")
        await told(visitor, "cannot change jobs")
        await visitor.press("m", "e")

    visit(home, scene, options=options(home, is_readonly=True))


def test_an_alert_in_the_store_of_another_host_is_not_acknowledged_and_its_store_is_named(home: Path) -> None:
    elsewhere = StatePaths(home, "rhea")
    database = open_to_write(elsewhere)
    Jobs(database).insert(failed("broken", 60, host="rhea"))
    database.close()

    async def scene(visitor: Visitor) -> None:
        await visitor.press("5")
        await visitor.shows("broken")
        await visitor.press("A")
        await told(visitor, str(elsewhere.store))

    visit(home, scene, options=Options([elsewhere.store]))


def test_a_rule_and_a_job_are_muted_for_a_time_and_unmuted(home: Path) -> None:
    [job] = kept_jobs(home, live_job(name="train"))
    raise_alert(home, job)

    def marks() -> list[tuple[MarkKind, str, int | None]]:
        database = open_to_read(StatePaths(home, HERE).store)
        found = Marks(database).all()
        database.close()
        return [(mark.kind, mark.name, mark.until and round((mark.until - mark.at) / 3600)) for mark in found]  # type: ignore[misc]

    async def scene(visitor: Visitor) -> None:
        await visitor.press("5")
        await visitor.shows(TEXT)
        await visitor.press("m")
        await visitor.shows("▸ rule job-memory-limit", "job  train")
        await visitor.press("4")
        await told(visitor, "muted: job-memory-limit")
        await visitor.shows("1 muted", "until ")
        assert marks() == [(MarkKind.MUTE_RULE, "job-memory-limit", 4)]
        await visitor.press("m", "j", "u")
        await visitor.until(lambda: len(marks()) == 2)
        assert (MarkKind.MUTE_JOB, job.id, None) in marks()
        await visitor.press("u")
        await visitor.until(lambda: not marks())

    visit(home, scene, options=options(home))


def test_a_threshold_is_edited_in_place_and_counts_at_once(home: Path) -> None:
    kept_jobs(home, live_job())
    text = "# mine\n[run]\ngrace = '20s'\n"

    async def scene(visitor: Visitor) -> None:
        await visitor.press("5")
        await visitor.shows("job-memory-limit", "above 90 % of its limit")
        await visitor.press("tab", "tab", "down", "e")
        await visitor.until(lambda: isinstance(visitor.console.screen, RuleForm))
        field = visitor.console.screen.query(Input).first()
        assert field.value == "90%"
        field.value = "lots"
        await visitor.press("enter")
        await visitor.shows("is not a number")
        field.value = "75%"
        await visitor.press("enter")
        await told(visitor, "saved to ~/.config/jobtop/config.toml")
        await visitor.shows("above 75 % of its limit")
        assert visitor.console.rules["job-memory-limit"].above == 0.75

    visit(home, scene, options=options(home, text))
    file = Path(os.environ["HOME"]) / ".config/jobtop/config.toml"
    assert file.read_text() == text + '\n[[alert]]\nname = "job-memory-limit"\nabove = "75%"\n'


def test_rules_are_listed_with_their_states_and_a_wrong_one_is_named(home: Path) -> None:
    text = '[alerts]\noff = ["gpu-idle"]\n[[alert]]\nname = "busy"\nmetric = "cpu.percent"\nabove = 90\nfor = "30s"\n'
    wrong = '[[alert]]\nname = "wrong"\nmetric = "cpu.percnt"\nabove = 1\n'

    async def scene(visitor: Visitor) -> None:
        await visitor.press("5")
        await visitor.shows("1 off", "gpu-idle", "cpu.percnt")
        states = {row.key: (row.state.name, row.condition) for row in page(visitor).rules}
        assert states["busy"] == ("ACTIVE", "CPU above 90 % for 30s")
        assert states["gpu-idle"][0] == "OFF"
        assert "wrong" not in states

    visit(home, scene, options=options(home, text + wrong))


def test_the_history_shows_a_longer_or_shorter_time(home: Path) -> None:
    kept_jobs(home, failed("now", 60), failed("this morning", 7200), failed("last week", 3 * 86400))

    async def scene(visitor: Visitor) -> None:
        await visitor.press("5")
        await visitor.until(lambda: listed(visitor, "past") == ["now", "this morning"])
        await visitor.press("right_square_bracket")
        await visitor.until(lambda: listed(visitor, "past") == ["now", "this morning", "last week"])
        await visitor.shows("last 7d")
        assert "last week" not in listed(visitor)
        await visitor.press("left_square_bracket", "left_square_bracket")
        await visitor.until(lambda: listed(visitor, "past") == ["now"])

    visit(home, scene, options=options(home))


def test_texts_have_no_effect_and_are_not_markup(home: Path) -> None:
    kept_jobs(home, *(failed(text, 60, reason=text) for text in HOSTILE_TEXTS))
    texts = list(HOSTILE_TEXTS)
    [job] = kept_jobs(home, live_job(name=texts[0]))
    raise_alert(home, job, text=texts[1])

    async def scene(visitor: Visitor) -> None:
        await visitor.press("5")
        screen = await visitor.shows(f"{len(HOSTILE_TEXTS) + 1} open")
        assert not holds_controls(screen.replace("\n", ""))
        await visitor.press("m")
        await visitor.shows("Muted alerts are still recorded")
        assert not holds_controls(visitor.screen().replace("\n", ""))

    visit(home, scene, options=options(home))


def test_in_the_smallest_terminal_the_focused_pane_is_shown(home: Path) -> None:
    kept_jobs(home, failed("broken", 60))

    async def scene(visitor: Visitor) -> None:
        await visitor.press("5")
        await visitor.shows("broken", "History", "Rules")
        await visitor.press("tab", "tab")
        await visitor.shows("host-memory")
        await visitor.press("e")
        await visitor.shows("Above", "saved to")

    visit(home, scene, (60, 15), options(home))
