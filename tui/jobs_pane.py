"""What can be done to jobs from any screen that shows some: stop, kill, pause, run again, compare, copy."""

from __future__ import annotations

from collections.abc import Sequence

from textual.screen import Screen

from jobtop.tui.view import JobRow


class JobActions(Screen[None]):
    """Actions on the jobs a screen has chosen."""

    @property
    def chosen_rows(self) -> Sequence[JobRow]:
        """The marked jobs, or the one under the cursor."""
        raise NotImplementedError

    def action_copy_id(self) -> None:
        ids = " ".join(row.job.id for row in self.chosen_rows)
        if ids:
            self.app.copy_to_clipboard(ids)
            self.notify(f"copied {ids[:8]}" + ("…" if len(ids) > 36 else ""), markup=False)
