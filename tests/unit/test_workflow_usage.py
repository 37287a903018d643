"""The use of a run over time, what its jobs wait for, and the places of its graph."""

import pytest

from jobtop.core.model import Status
from jobtop.core.text.workflow_text import why_words
from jobtop.core.workflow.progress import RunJob
from jobtop.core.workflow.usage import MOST_BINS, UsageGrid
from jobtop.tui.data.workflow_reading import stages_of
from jobtop.tui.data.workflow_rows import axis_seconds
from jobtop.tui.widgets.graph_layout import laid_out, needed_links
from jobtop.tui.widgets.job_graph import column_edges


def test_jobs_at_the_same_time_add_up() -> None:
    grid = UsageGrid(1.0)
    grid.add(0.0, 4.0, 100.0, 10.0)
    grid.add(1.0, 3.0, 50.0, 5.0)
    times, cpu, memory = grid.curves(4.0)
    assert times == [0.5, 1.5, 2.5, 3.5]
    assert cpu == [100.0, 150.0, 150.0, 100.0]
    assert memory == [10.0, 15.0, 15.0, 10.0]


def test_a_long_run_keeps_its_total_in_few_bins() -> None:
    grid = UsageGrid()
    for second in range(5000):
        grid.add(second, second + 1, 80.0, None)
    times, cpu, _ = grid.curves(5000.0)
    assert len(times) <= MOST_BINS
    assert sum(cpu) * grid.bin_seconds == pytest.approx(80.0 * len(times) * grid.bin_seconds)


def test_a_queued_job_names_what_it_waits_for() -> None:
    done = RunJob(0, "a", "job", "1", status=Status.SUCCESS)
    open_job = RunJob(1, "b", "job", "2", status=Status.RUNNING)
    waiting = RunJob(2, "c", "job", "3", after=("a", "b"), status=Status.QUEUED)
    assert why_words(waiting, {"a": done, "b": open_job}) == "after b"
    assert why_words(waiting, {"a": done, "b": done}, "waits for 1 CPU") == "waits for 1 CPU"


def test_names_that_a_run_does_not_have_and_circles_have_a_stage() -> None:
    jobs = [RunJob(0, "a", "job", "1", after=("gone",)), RunJob(1, "b", "job", "2", after=("c",))]
    jobs.append(RunJob(2, "c", "job", "3", after=("b",)))
    assert stages_of(jobs)["a"] == 0
    assert stages_of(jobs).keys() == {"a", "b", "c"}


def test_a_dependency_that_follows_from_others_is_not_drawn() -> None:
    stages = {"a": 0, "b": 1, "c": 2}
    assert needed_links({"a": (), "b": ("a",), "c": ("a", "b")}, stages) == [("a", "b"), ("b", "c")]


def test_a_line_that_passes_a_stage_has_a_place_there() -> None:
    layout = laid_out({"a": (), "x": (), "b": ("a",), "c": ("b", "x")}, {"a": 0, "x": 0, "b": 1, "c": 2})
    assert ("x", 1) in layout.places
    assert {link.stage for link in layout.links} == {0, 1}


def test_a_graph_too_narrow_to_tell_names_apart_is_a_list_instead() -> None:
    names = ["prepare", "fit_net_1", "fit_forest_1", "collect"]
    after = {"prepare": [], "fit_net_1": ["prepare"], "fit_forest_1": ["prepare"], "collect": names[1:3]}
    layout = laid_out(after, {"prepare": 0, "fit_net_1": 1, "fit_forest_1": 1, "collect": 2})
    labels = {name: name for name in names}
    assert [room for _, room in column_edges(layout, labels, 80)] == [8, 13, 8]
    assert [room for _, room in column_edges(layout, labels, 42)] == [8, 11, 8]
    assert column_edges(layout, labels, 36) == []  # both would be fi…t_1
    sweep: dict[str, list[str]] = {f"train_lr{rate}_bs16_optadam": [] for rate in ("0.0001", "0.0010")}
    layout = laid_out(sweep, dict.fromkeys(sweep, 0))
    assert column_edges(layout, {name: name for name in sweep}, 80) == [(0, 28)]


def test_the_axis_of_a_run_that_goes_on_grows_in_steps() -> None:
    assert axis_seconds(61.3, is_over=True) == 61.3
    assert axis_seconds(61.3, is_over=False) == axis_seconds(62.9, is_over=False) > 62.9
