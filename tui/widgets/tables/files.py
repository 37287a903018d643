"""The files of a job: those that are open, or those of its record."""

from __future__ import annotations

from collections.abc import Sequence

from jobtop.core.measure.live.files import FileLine
from jobtop.core.model import Job
from jobtop.core.record import record
from jobtop.core.text.file_text import kept_files, known_number, position_text
from jobtop.tui.data.rows import ListRows
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Align, Cell, Pieces, Span, Words, short_bytes, short_duration
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.panes import PlainTable

LONGEST_PATH = 1000


@record
class FileRow:
    """One file as it is shown; None is not known, or not there to know."""

    path: str
    size_bytes: int | None = None
    position: str = ""
    rate: float | None = None
    seconds_left: float | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    mark: str = ""
    passes: str = ""


def live_row(line: FileLine) -> FileRow:
    """A file that is open."""
    mark = "deleted" if line.is_deleted else ""
    rate = None if line.read_rate is None and line.write_rate is None else line.rate
    seen = line.read_bytes, line.written_bytes
    is_read = line.is_mapped or (line.mode == "read" and line.size_bytes)
    position = position_text(line) if is_read else short_bytes(line.position)
    return FileRow(line.path, line.size_bytes, position, rate, line.seconds_left, *seen, mark)


def kept_rows(job: Job) -> list[FileRow]:
    """The files of the record of a job."""
    return [
        FileRow(
            file["path"],
            known_number(file.get("size_bytes")),
            read_bytes=known_number(file.get("read_bytes")),
            written_bytes=known_number(file.get("written_bytes")),
            mark="deleted" if file.get("is_deleted") is True else "",
            passes=str(known_number(file.get("passes")) or ""),
        )
        for file in kept_files(job)
    ]


SIZE = Column[FileRow]("size", "SIZE", lambda row: Words(short_bytes(row.size_bytes)), 5, align=Align.RIGHT, priority=2)


def live_columns() -> tuple[Column[FileRow], ...]:
    """The columns of open files; bytes that were read and written are dropped first if there is little room."""
    return (
        Column("rate", "RATE", rate, 7, align=Align.RIGHT),
        Column("position", "AT", lambda row: Words(row.position), 7, align=Align.RIGHT),
        Column("left", "LEFT", left, 6, align=Align.RIGHT, priority=1),
        SIZE,
        Column("read", "READ", lambda row: Words(seen(row.read_bytes)), 5, align=Align.RIGHT, priority=3),
        Column("written", "WRITE", lambda row: Words(seen(row.written_bytes)), 5, align=Align.RIGHT, priority=4),
        Column("path", "FILE", path, 16, flex=1),
    )


def kept_columns() -> tuple[Column[FileRow], ...]:
    """The columns of files in a record."""
    return (
        Column("read", "READ", lambda row: Words(seen(row.read_bytes)), 5, align=Align.RIGHT),
        Column("passes", "×", lambda row: Words(row.passes, Tone.GREY), 3, align=Align.RIGHT, priority=1),
        Column("written", "WRITE", lambda row: Words(seen(row.written_bytes)), 5, align=Align.RIGHT),
        SIZE,
        Column("path", "FILE", path, 16, flex=1),
    )


def rate(row: FileRow) -> Cell:
    return Words("" if row.rate is None else f"{short_bytes(row.rate)}/s", Tone.BLUE if row.rate else Tone.GREY)


def left(row: FileRow) -> Cell:
    return Words("" if row.seconds_left is None else short_duration(row.seconds_left))


def seen(size: int | None) -> str:
    """Bytes that were seen; nothing for none, and a dash if that is not known."""
    return "" if size == 0 else short_bytes(size)


def path(row: FileRow) -> Cell:
    mark = [Span(f"({row.mark}) ", Tone.YELLOW)] if row.mark else []
    directory, slash, name = row.path.rpartition("/")
    return Pieces([*mark, Span(name[:LONGEST_PATH]), Span(f"  {directory[:LONGEST_PATH]}{slash}", Tone.FAINT)])


class FileTable(PlainTable[FileRow]):
    """The files of a job, those with the highest rate first."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        self._is_live = True
        super().__init__(live_columns(), id=id)

    def show(self, rows: Sequence[FileRow], is_live: bool, empty: str, others: str = "") -> None:
        """Show these files, or the reason why there are none; `others` are the panes that share its place."""
        if is_live is not self._is_live:
            self._is_live, self.columns = is_live, live_columns() if is_live else kept_columns()
        self.empty = empty
        self.source = ListRows(rows, lambda row: row.path)
        count = Span(f" {len(rows)}" if rows else "", Tone.GREY)
        self.set_title([Span("Files", Tone.TEXT, True), count, Span(others, Tone.FAINT)])
        subtitle = "open now" if is_live else "what was seen, at least"
        self.set_subtitle([Span(subtitle if rows else "", Tone.GREY)])
