"""The rows of the table of processes: the job of each, the filter, and the order."""

from pathlib import Path

from still_processes import AT, BOOT, still_process

from jobtop.core.measure.live.machine_processes import ProcessMoment
from jobtop.core.model import Identity, Job
from jobtop.tui.data.processes.operations import KILL, STOP, refusal
from jobtop.tui.data.processes.rows import Owners, ProcessRows, as_tree, matching, sorted_processes, with_ancestors
from jobtop.tui.data.view import JobRow
from jobtop.tui.widgets.columns import Sort
from records import made_job, running_job

SHIM = still_process(10, "jobtop-shim")
MAIN, WORKER = still_process(11, "python train.py", 10), still_process(12, "loader", 11, cpu_percent=80.0)
OTHER = still_process(20, "backup --all", user="eve", cpu_percent=3.0)
ALL = (SHIM, MAIN, WORKER, OTHER)
TRAIN = running_job(name="train", shim=Identity(BOOT, 10, SHIM.start))


def rows(*jobs: Job) -> list[JobRow]:
    return [JobRow(job, Path("store")) for job in jobs]


def test_processes_below_a_shim_belong_to_its_job() -> None:
    owners = Owners().find(ALL, rows(TRAIN), BOOT)
    assert {key[0]: owner.name for key, owner in owners.items()} == {10: "train", 11: "train", 12: "train"}


def test_a_process_belongs_to_the_innermost_job() -> None:
    inner = running_job(name="inner", shim=Identity(BOOT, 12, WORKER.start))
    leaf = still_process(13, "leaf", 12)
    owners = Owners().find((*ALL, leaf), rows(TRAIN, inner), BOOT)
    assert [owners[key].name for key in (MAIN.key, WORKER.key, leaf.key)] == ["train", "inner", "inner"]


def test_a_shim_of_another_boot_or_start_or_of_an_ended_job_owns_nothing() -> None:
    jobs = (
        running_job(shim=Identity("another", 10, SHIM.start)),
        running_job(shim=Identity(BOOT, 10, SHIM.start + 1)),
        made_job(shim=Identity(BOOT, 10, SHIM.start)),
    )
    for job in jobs:
        assert Owners().find(ALL, rows(job), BOOT) == {}


def test_a_process_that_init_inherits_keeps_its_job_until_that_ends() -> None:
    owners = Owners()
    owners.find(ALL, rows(TRAIN), BOOT)
    orphan = WORKER._replace(parent=1)
    assert owners.find((SHIM, MAIN, orphan), rows(TRAIN), BOOT)[orphan.key].name == "train"
    assert owners.find((SHIM, MAIN, orphan), (), BOOT) == {}


def test_processes_below_an_invisible_shim_belong_to_its_job() -> None:
    owners = Owners().find((MAIN, WORKER, OTHER), rows(TRAIN), BOOT)
    assert set(owners) == {MAIN.key, WORKER.key}


def test_a_ring_of_parents_ends() -> None:
    ring = (still_process(5, parent=6), still_process(6, parent=5), *ALL)
    assert set(Owners().find(ring, rows(TRAIN), BOOT)) == {SHIM.key, MAIN.key, WORKER.key}
    assert len(as_tree(ring)) == len(ring)


def test_all_words_of_a_filter_have_to_match() -> None:
    owners = Owners().find(ALL, rows(TRAIN), BOOT)

    def found(*words: str) -> list[int]:
        return [process.pid for process in matching(ALL, words, owners)]

    assert found() == [10, 11, 12, 20]
    assert found("TRAIN") == [10, 11, 12]
    assert found("train", "loader") == [12]
    assert found("eve") == [20]
    assert found("20") == [20]
    assert found("nothing") == []


def test_a_tree_has_children_below_their_parents_in_the_order_of_the_sort() -> None:
    busy = still_process(15, "busy", 10, cpu_percent=99.0)
    ordered = sorted_processes((*ALL, busy), Sort("cpu", True), {})
    assert [(depth, process.pid) for depth, process in as_tree(ordered)] == [
        *((0, 10), (1, 15), (1, 11), (2, 12), (0, 20)),
    ]


def test_a_filtered_tree_keeps_the_ancestors_and_says_which_they_are() -> None:
    shown, extra = with_ancestors([WORKER], ALL)
    assert {process.pid for process in shown} == {10, 11, 12}
    assert extra == {SHIM.key, MAIN.key}
    table = ProcessRows(ProcessMoment(AT, ALL), as_tree(shown), {}, extra)
    assert [row.is_match for row in table.window(0, 3)] == [False, False, True]
    assert table.index(WORKER.key) == 2


def test_sorted_by_job_processes_without_one_come_last() -> None:
    owners = Owners().find(ALL, rows(TRAIN), BOOT)
    for descending in (False, True):
        assert sorted_processes(ALL, Sort("job", descending), owners)[-1] is OTHER


def test_only_own_processes_get_signals() -> None:
    own = OTHER.uid
    assert refusal(OTHER, STOP, own, 1) is None
    assert "eve" in (refusal(OTHER, KILL, own + 1, 1) or "")
    assert "kernel" in (refusal(OTHER._replace(is_kernel=True), STOP, own, 1) or "")
    assert "exited" in (refusal(OTHER._replace(state="Z"), STOP, own, 1) or "")
    assert "console" in (refusal(OTHER, STOP, own, OTHER.pid) or "")
    assert "job" in (refusal(SHIM, STOP, own, 1) or "")
