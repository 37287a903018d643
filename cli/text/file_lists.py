"""The files of a job as a page of text, as JSON and as CSV rows: those that are open, and those of a record."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobtop.cli.text.tables import TableColumn, table, truncate
from jobtop.core.measure.live.files import FileLine, LiveFiles
from jobtop.core.model import SCHEMA_VERSION, Job
from jobtop.core.record import as_dict, fields, record
from jobtop.core.text.file_text import denied_text, kept_files, no_files_text, position_text, rate_text
from jobtop.core.units import cell_width, format_bytes, format_duration, printable

LEAST_PATH = 24
WIDEST_PATH = 120
EMPTY_CSV_ROW = dict.fromkeys(("job_id", *fields(FileLine)))


@record
class FileListing:
    """A job and its open files; without those, the files of its record."""

    job: Job
    live: LiveFiles | None = None
    is_here: bool = True


def page(listing: FileListing, columns: int | None) -> Iterator[str]:
    """Yield a line per file, none wider than the terminal."""
    live = listing.live
    if live is None:
        yield from kept_page(listing, columns)
        return
    denied = denied_text(live)
    if denied is not None:
        yield denied
    if not live.files:
        if denied is None:
            yield "no data files are open (--all shows libraries and files of the system too)"
        return
    titles = ("SIZE", "POSITION", "MODE", "RATE", "LEFT", "PID")
    cells = [
        (
            *(format_bytes(line.size_bytes), position_text(line), line.mode, rate_text(line)),
            *("" if line.seconds_left is None else format_duration(line.seconds_left), pid_text(line)),
        )
        for line in live.files
    ]
    paths = [line.path + (" (deleted)" if line.is_deleted else "") for line in live.files]
    commands = [line.command or "" for line in live.files]
    yield from aligned(paths, titles, cells, columns, commands)


def kept_page(listing: FileListing, columns: int | None) -> Iterator[str]:
    job = listing.job
    kept = kept_files(job)
    if not kept:
        yield no_files_text(job, listing.is_here)
        return
    titles = ("SIZE", "READ", "PASSES", "WRITTEN")
    cells = [
        (
            *(bytes_text(file.get("size_bytes")), bytes_text(file.get("read_bytes"))),
            *("" if not file.get("passes") else str(file["passes"]), bytes_text(file.get("written_bytes"))),
        )
        for file in kept
    ]
    paths = [str(file["path"]) + (" (deleted)" if file.get("is_deleted") else "") for file in kept]
    yield "the files it read and wrote most; bytes are what was seen, at least:"
    yield from aligned(paths, titles, cells, columns)


def bytes_text(size: object) -> str:
    """Return the bytes that were seen; nothing for none, and a dash if that is not known."""
    return "" if size == 0 else format_bytes(size if isinstance(size, int) else None)


def aligned(
    paths: Sequence[str],
    titles: Sequence[str],
    cells: Sequence[Sequence[str]],
    columns: int | None,
    last: Sequence[str] | None = None,
) -> Iterator[str]:
    """Yield a table with the path first; it is cut in the middle where the terminal is narrow."""
    widths = [max(len(title), *(len(row[place]) for row in cells)) for place, title in enumerate(titles)]
    room = WIDEST_PATH if columns is None else max(LEAST_PATH, columns - sum(widths) - 2 * len(widths))
    if last is not None and columns is not None:
        room = max(LEAST_PATH, room - 2 - min(30, max(map(len, last), default=0)))
    table_columns = [TableColumn("FILE", widest=room), *(TableColumn(title, right=True) for title in titles)]
    if last is not None:
        table_columns.append(TableColumn("COMMAND", widest=columns or 60))
    ends = [[text] for text in last] if last is not None else [[] for _ in paths]
    rows = [(shortened(printable(path), room), *row, *end) for path, row, end in zip(paths, cells, ends, strict=True)]
    for line in table(table_columns, rows).split("\n"):
        yield line if columns is None else truncate(line, columns)


def shortened(path: str, widest: int) -> str:
    """Return a path with its middle left out: the first and the last part say most."""
    if cell_width(path) <= widest:
        return path
    end = path
    while cell_width(end) > widest - 1:
        end = end[max(1, (cell_width(end) - widest + 1) // 2) :]  # a wide character is two cells
    return "…" + end


def pid_text(line: FileLine) -> str:
    more = f" +{line.processes - 1}" if line.processes > 1 else ""
    return f"{line.pid}{more}"


def listing_json(listing: FileListing) -> dict[str, Any]:
    live = listing.live
    return {
        "schema_version": SCHEMA_VERSION,
        "job_id": listing.job.id,
        "name": listing.job.name,
        "status": str(listing.job.status),
        "live": live is not None,
        "denied_processes": None if live is None else live.denied,
        "files": rows_of(listing),
    }


def csv_rows(listing: FileListing) -> list[dict[str, Any]]:
    return [EMPTY_CSV_ROW | {"job_id": listing.job.id} | row for row in rows_of(listing)]


def rows_of(listing: FileListing) -> list[dict[str, Any]]:
    if listing.live is None:
        return [dict(file) for file in kept_files(listing.job)]
    return [rounded(as_dict(line)) for line in listing.live.files]


def rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in values.items()}
