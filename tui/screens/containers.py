"""The Containers page, which shows nothing yet."""

from __future__ import annotations

from textual.app import ComposeResult

from jobtop.tui.page import Page
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.prose import BLANK, Paragraph, Prose, heading, set_border_texts

TEXT = (
    BLANK,
    heading("No container is measured yet."),
    BLANK,
    Paragraph(
        "This screen will list the containers of this machine as the dashboard lists jobs – CPU, memory and how much "
        "of its limit, storage, network – and Enter will open one as it opens a job.",
        Tone.GREY,
    ),
    BLANK,
    Paragraph(
        "What is missing is their collector, core/collectors/docker.py, which will read Docker's and Podman's socket "
        "and the cgroup of each container. With it, the first container that runs appears here by itself.",
        Tone.GREY,
    ),
    BLANK,
    Paragraph(
        "Until then, jobtop run -- docker run … measures the client alone: the container is run by a daemon.", Tone.GREY
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
