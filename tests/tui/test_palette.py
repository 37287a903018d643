"""The palette lists the actions of the current place, and treats job names as plain text."""

from pathlib import Path

from jobtop.tui.actions import ACTIONS
from jobtop.tui.app import Options
from jobtop.tui.commands import ActionPalette, commands
from records import HOSTILE_TEXTS, holds_controls, kept_jobs, made_job
from visiting import Visitor, visit


def offered(visitor: Visitor) -> dict[str, str]:
    """The listed names and their keys."""
    console = visitor.console
    return {command.name: command.keys for command in commands(console, console.screen)}


def test_actions_that_work_here_are_listed_with_their_keys_and_run(home: Path) -> None:
    kept_jobs(home, made_job())

    async def scene(visitor: Visitor) -> None:
        found = offered(visitor)
        assert found["Go to Settings"] == "6"
        assert found["Stop"] == "x"
        assert "Check again" not in found
        assert "Theme: light" in found
        await visitor.press("ctrl+p")
        screen = await visitor.shows("Filter", "Stop")
        assert isinstance(visitor.console.screen, ActionPalette)
        assert "🔎" not in screen
        await visitor.press(*"settings")
        await visitor.until(lambda: "Go to Dash" not in visitor.screen())
        await visitor.press("enter")
        await visitor.until(lambda: visitor.console.screen is visitor.console.pages["settings"])
        assert "Check again" in offered(visitor)
        assert "Stop" not in offered(visitor)
        await visitor.press("ctrl+p", "escape")
        assert not isinstance(visitor.console.screen, ActionPalette)

    visit(home, scene)


def test_a_console_that_only_reads_offers_nothing_that_changes_jobs(home: Path) -> None:
    kept_jobs(home, made_job())

    async def scene(visitor: Visitor) -> None:
        changing = {action.title for action in ACTIONS if action.changes_jobs}
        assert changing
        assert not changing & set(offered(visitor))

    visit(home, scene, options=Options([], is_readonly=True))


def test_a_job_is_found_by_its_name_whatever_that_is(home: Path) -> None:
    jobs = kept_jobs(home, *(made_job(name=name) for name in HOSTILE_TEXTS), made_job(name="x[/b]needle[red]"))
    opened: list[str] = []

    async def scene(visitor: Visitor) -> None:
        async def open_job(job_id: str, at: float | None = None) -> None:
            opened.append(job_id)

        visitor.console.open_job = open_job  # type: ignore[method-assign]
        assert len([name for name in offered(visitor) if name.startswith("Open job ")]) == len(jobs)
        await visitor.press("ctrl+p", *"Open job")
        screen = await visitor.shows("needle")
        assert not holds_controls(screen.replace("\n", ""))
        await visitor.press(*"needle")
        await visitor.shows(f"{jobs[-1].id[:8]} x[/b]needle[red]")
        await visitor.press("enter")
        await visitor.until(lambda: opened)
        assert opened == [jobs[-1].id]

    visit(home, scene)


def test_a_theme_is_chosen_and_kept_for_the_next_time(home: Path) -> None:
    file = home / "console.json"

    async def scene(visitor: Visitor) -> None:
        assert visitor.console.theme == "jobtop-dark"
        await visitor.press("ctrl+p", *"theme: light")
        await visitor.until(lambda: "Go to" not in visitor.screen() and "Theme: light" in visitor.screen())
        await visitor.press("enter")
        await visitor.until(lambda: visitor.console.theme == "jobtop-light")
        await visitor.until(file.exists)

    async def later(visitor: Visitor) -> None:
        assert visitor.console.theme == "jobtop-light"

    visit(home, scene, options=Options([], preferences=file))
    visit(home, later, options=Options([], preferences=file))
