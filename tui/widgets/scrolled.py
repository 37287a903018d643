"""A pane of painted lines that scrolls: what the keys of texts do to it."""

from textual.scroll_view import ScrollView

from jobtop.tui.widgets.painting import FRAME, Painted

# Textual does not inherit the CSS of a second base class: a pane names itself.
SCROLLED = f"padding: 0 1; scrollbar-size-vertical: 1; scrollbar-gutter: stable; overflow-x: hidden; {FRAME}"


class Scrolled(ScrollView, Painted, inherit_bindings=False):
    """Scrolls by lines and screens; paints when other lines become visible."""

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Paint the lines that became visible."""
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = new_value
        if round(old_value) != round(new_value):
            self.repaint()

    def action_line_up(self) -> None:
        self.scroll_relative(y=-1, animate=False)

    def action_line_down(self) -> None:
        self.scroll_relative(y=1, animate=False)

    def action_screen_up(self) -> None:
        self.scroll_relative(y=-self.drawn_size.height, animate=False)

    def action_screen_down(self) -> None:
        self.scroll_relative(y=self.drawn_size.height, animate=False)

    def action_first(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_last(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False)
