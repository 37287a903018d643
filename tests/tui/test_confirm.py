"""A question is answered by keys and by the mouse, and only an explicit yes counts."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from textual.app import App
from textual.pilot import Pilot

from jobtop.tui.dialogs.confirm import Confirm
from jobtop.tui.dialogs.dialog import KeyButton
from jobtop.tui.palette import THEMES
from jobtop.tui.widgets.prose import Paragraph
from records import HOSTILE_TEXTS, holds_controls


class Asking(App[None]):
    """An app that shows a single question."""

    def __init__(self, question: Confirm) -> None:
        super().__init__()
        self.question = question
        self.answers: list[bool | None] = []
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = THEMES[0].name

    async def on_mount(self) -> None:
        await self.push_screen(self.question, self.answers.append)


def asked(
    question: Confirm, act: Callable[[Pilot[None]], Awaitable[object]], size: tuple[int, int] = (80, 24)
) -> list[bool | None]:
    """The answers to a question."""
    app = Asking(question)

    async def perform() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await act(pilot)
            await pilot.pause()

    asyncio.run(perform())
    return app.answers


def stop_question() -> Confirm:
    return Confirm("Stop this job?", [Paragraph("train")], "Stop", "Leave it")


@pytest.mark.parametrize(("key", "answer"), [("y", True), ("enter", True), ("n", False), ("escape", False)])
def test_a_question_is_answered_by_a_key(key: str, answer: bool) -> None:
    assert asked(stop_question(), lambda pilot: pilot.press(key)) == [answer]


def test_other_keys_are_no_answer() -> None:
    assert asked(stop_question(), lambda pilot: pilot.press("space", "x", "tab", "q", "down")) == []


@pytest.mark.parametrize(("place", "answer"), [(0, True), (1, False)])
def test_a_question_is_answered_by_a_click(place: int, answer: bool) -> None:
    async def click(pilot: Pilot[None]) -> None:
        await pilot.click(pilot.app.screen.query(KeyButton)[place])

    assert asked(stop_question(), click) == [answer]


def test_a_click_beside_the_question_is_a_no_and_one_into_it_nothing() -> None:
    assert asked(stop_question(), lambda pilot: pilot.click(offset=(1, 1))) == [False]
    assert asked(stop_question(), lambda pilot: pilot.click("#dialog")) == []


def test_hostile_text_has_no_effect() -> None:
    texts = (*HOSTILE_TEXTS.values(), "[/b][red]x")
    seen: list[str] = []

    async def look(pilot: Pilot[None]) -> None:
        for text in texts:
            await pilot.app.push_screen(Confirm("Stop this job?", [Paragraph(text)], "Stop", "Leave it"))
            await pilot.pause()
            strips = pilot.app.screen._compositor.render_strips()
            seen.append("\n".join(strip.text for strip in strips))

    asked(stop_question(), look, size=(60, 15))
    for screen in seen:
        assert not holds_controls(screen)
        assert "Leave it" in screen, "what is said first must not push the answers out of sight"
    assert "[/b][red]x" in seen[-1]
