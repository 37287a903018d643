"""The pane with the files of a job: those that are open while it runs, those of the record after its end."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from job_pages import Made, finished
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.live.files import FileLine
from jobtop.core.model import Status
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.widgets.tables.files import FileTable, live_row
from records import made_job, running_job
from visiting import Visitor

KEPT = {
    "path": "/data/\x1btrain.bin",
    "size_bytes": 300 << 20,
    "read_bytes": 576 << 20,
    "written_bytes": 0,
    "passes": 2,
    "is_deleted": True,
}
HOLD = "import sys; file = open(sys.argv[1], 'rb'); file.read(25); print(flush=True); sys.stdin.readline()"


def test_an_ended_job_shows_the_files_of_its_record(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("Processes 2 · Files")
        await visitor.press("F")
        shown = await visitor.shows("Files 1 · Processes", "train.bin", "(deleted)", "300M", "576M")
        assert "\x1b" not in shown
        assert not screen.query_one("#tree").display
        await visitor.press("tab")
        assert screen.query_one("#files").display, "it keeps its place while another pane has the focus"

    finished(tmp_path, findings={"files": [KEPT, {"torn": 1}, 7]}).open(scene)


def test_a_job_without_known_files_says_why(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, _: JobScreen) -> None:
        await visitor.press("F")
        await visitor.shows("no files are in its record")

    Made(tmp_path, made_job(status=Status.SUCCESS)).open(scene)


def test_a_running_job_shows_the_files_it_has_open(tmp_path: Path) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(bytes(100))
    with holding(data) as pid:

        async def scene(visitor: Visitor, screen: JobScreen) -> None:
            assert not len(screen.query_one(FileTable).source or ()), "they are read only while they are shown"
            await visitor.press("F")
            await visitor.shows("Files 1", "data.bin", "25 %", "100B", "0B/s")

        Made(tmp_path / "state", running_job(pid=pid, shim=identify(pid))).open(scene)


@contextmanager
def holding(data: Path) -> Iterator[int]:
    """A process that has read 25 bytes of a file and keeps it open."""
    command = [sys.executable, "-I", "-S", "-c", HOLD.replace("'rb'", "'rb', buffering=0"), str(data)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate(b"\n")


def test_a_mapped_file_has_no_rate_and_a_written_one_its_position_in_bytes() -> None:
    mapped = live_row(FileLine("/data/weights", 4 << 20, None, "read", is_mapped=True))
    assert (mapped.position, mapped.rate) == ("mapped", None)
    written = live_row(FileLine("/data/out", 4 << 20, 4 << 20, "write", write_rate=1024.0, written_bytes=4 << 20))
    assert (written.position, written.rate, written.written_bytes) == ("4.0M", 1024.0, 4 << 20)
