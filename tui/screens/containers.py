"""The Containers page, which shows nothing yet."""

from __future__ import annotations

from textual.app import ComposeResult

from jobtop.tui.page import Page
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.prose import BLANK, Paragraph, Prose, heading, set_border_texts

TEXT = (
    BLANK,
    heading("Containers are not measured yet."),
    BLANK,
    Paragraph(
        "This page will list the containers of this machine with their CPU, memory, storage and network.", Tone.GREY
    ),
    BLANK,
    Paragraph(
        "jobtop run -- docker run … measures only the docker client: a daemon runs the container itself.", Tone.GREY
    ),
)


class Containers(Page):
    """The page until containers are measured like jobs."""

    name_in_tabs = "containers"

    def panes(self) -> ComposeResult:
        yield Prose(id="containers")

    def on_mount(self) -> None:
        pane = self.query_one(Prose)
        pane.text = TEXT
        set_border_texts(pane, "Containers")
        pane.focus()
