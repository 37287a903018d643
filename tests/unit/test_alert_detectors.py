"""Rules of all kinds beyond levels, judged by the evaluator: when they fire, what they say, when they resolve."""

import math
import random
from collections.abc import Callable

import pytest

from jobtop.core.alerts.evaluator import Evaluator
from jobtop.core.alerts.expressions.expression import Expression, parse
from jobtop.core.alerts.expressions.expression_parser import Node
from jobtop.core.alerts.model import BUILT_IN, Rule, RuleKind, Severity, State, Transition
from jobtop.core.job_id import JobId
from jobtop.core.measure.device import Device
from jobtop.core.metrics import JOB_COLUMNS, Scope
from jobtop.core.model import Job, Sample, Status, Usage
from jobtop.core.record import replace

GIB, MIB = 2.0**30, 2.0**20
START = 1_700_000_000.0
ID = JobId("00000000-0000-4000-8000-000000000001")
JOB = Job(ID, "train", ("python", "train.py"), "atlas", "me", "/work", Status.RUNNING, start_time=START)
GPU = Device("gpu", "0")


def rule(kind: RuleKind, metric: str | None = None, scope: Scope = Scope.JOB, limit: str | None = None) -> Rule:
    expression = None if metric is None else parse(metric, scope)
    wanted = None if limit is None else parse(limit, scope)
    return Rule("r", kind, scope, Severity.WARNING, BUILT_IN, expression=expression, limit=wanted)


def figure_rule(figure: str, measure: str) -> Rule:
    expression = Expression(figure, (figure,), Scope.JOB, measure, Node("key", measure, key=figure))
    return replace(rule(RuleKind.DEVIATION), expression=expression, factor=1.3)


FORECAST = replace(
    rule(RuleKind.FORECAST, "mem.used", limit="limit.memory"), within_seconds=600.0, window_seconds=900.0
)
STALL = replace(rule(RuleKind.STALL), for_seconds=900.0)
DURATION, MEMORY = figure_rule("duration_seconds", "seconds"), figure_rule("memory_peak_bytes", "bytes")


class Run:
    """A job that is sampled each second and looked at every ten seconds."""

    def __init__(self, judged: Rule, job: Job = JOB) -> None:
        self.evaluator = Evaluator([judged])
        self.evaluator.join(job)
        self.changes: list[Transition] = []

    def sample(self, seconds: range, values: Callable[[int], dict[str, float]], output: float | None = 0.0) -> None:
        for second in seconds:
            known = values(second)
            at = START + second
            sample = Sample(second, tuple(known.get(key) for key in JOB_COLUMNS))
            self.changes += self.evaluator.see_jobs([(ID, sample)], at)
            if second % 10 == 0:
                self.evaluator.see_extra(ID, {"output.bytes": output}, at)
                self.changes += self.evaluator.slow(at)

    def of_state(self, state: State) -> list[Transition]:
        return [change for change in self.changes if change.state is state]


def growing(second: int) -> dict[str, float]:
    return {"mem.used": GIB + second * 4 * MIB, "limit.memory": 8 * GIB}


def test_a_forecast_fires_once_with_its_slope_and_the_time_left() -> None:
    run = Run(FORECAST)
    run.sample(range(1500), growing)
    (fired,) = run.of_state(State.FIRING)
    left = 7 * GIB / (4 * MIB) - (fired.at - START)
    assert 550 <= left <= 605
    assert fired.detail["eta_seconds"] == pytest.approx(left, rel=0.02)
    assert fired.detail["slope"] == pytest.approx(4 * MIB, rel=0.01)
    assert 0.9 <= float(str(fired.detail["confidence"])) <= 1
    assert fired.text == "memory reaches its 8.0 GiB limit in about 10 min at +4.0 MiB/s"
    assert run.of_state(State.RESOLVED) == []


def test_a_forecast_resolves_when_growth_ends() -> None:
    run = Run(FORECAST)
    run.sample(range(1500), growing)
    run.sample(range(1500, 1800), lambda _: growing(1500))
    assert [change.at - START for change in run.of_state(State.RESOLVED)] == [pytest.approx(1580, abs=80)]


def test_a_forecast_needs_a_limit() -> None:
    run = Run(FORECAST)
    run.sample(range(1500), lambda second: {"mem.used": growing(second)["mem.used"]})
    assert run.changes == []


def test_a_forecast_gets_every_sample_and_not_one_in_ten() -> None:
    chance = random.Random(7)
    errors = []
    run = Run(replace(FORECAST, within_seconds=3000.0))
    for second in range(1500):
        value = 8 * GIB * (0.25 + 0.75 * second / 1800) * chance.gauss(1, 0.1)
        run.sample(range(second, second + 1), lambda _, value=value: {"mem.used": value, "limit.memory": 8 * GIB})  # type: ignore[misc]
        if second >= 600 and second % 100 == 0:
            watch = run.evaluator._watches["r", None]
            assert watch.detector is not None
            (found,) = watch.detector.look(run.evaluator._readings(watch), 0.0)
            errors.append(float(str(found.detail["eta_seconds"])) / (1800 - second) - 1)
    assert max(map(abs, errors)) < 0.2


def test_the_fields_of_a_forecast_fill_a_message() -> None:
    run = Run(replace(FORECAST, message="{job}: {left} to {limit}"))
    run.sample(range(1500), growing)
    assert run.of_state(State.FIRING)[0].text == "train: 10 min to 8.0 GiB"


def test_a_leak_of_the_host_fires() -> None:
    evaluator = Evaluator([replace(rule(RuleKind.LEAK, "mem.used", Scope.HOST), window_seconds=600.0)])
    changes: list[Transition] = []
    before: dict[str, float | int | None] = {"mem.used": GIB}
    for second in range(0, 900, 5):
        after: dict[str, float | int | None] = {"mem.used": GIB + second * MIB}
        changes += evaluator.see_host(before, after, 5.0, START + second)
        before = after
        if second % 10 == 0:
            changes += evaluator.slow(START + second)
    (fired,) = changes
    assert (fired.state, fired.owner) == (State.FIRING, None)
    assert fired.text.endswith("in 10m00s, +1.0 MiB/s")
    assert fired.detail["slope"] == pytest.approx(MIB)


def idle(second: int) -> dict[str, float]:
    return {"cpu.user": 3.0, "cpu.system": 1.0, "io.read_chars": 5.0, "io.write_chars": 5.0}


def working(second: int) -> dict[str, float]:
    return idle(second) | {"cpu.user": 3.0 + second}


def test_a_job_that_does_nothing_for_15_minutes_has_stalled_until_it_works_again() -> None:
    run = Run(STALL)
    run.sample(range(1200), idle)
    (fired,) = run.of_state(State.FIRING)
    assert fired.at - START == pytest.approx(900, abs=2)
    assert fired.text.startswith("no CPU time, no I/O and no output for 15m")
    run.sample(range(1200, 1240), working)
    assert len(run.of_state(State.RESOLVED)) == 1


@pytest.mark.parametrize("last", [123, 127, 130, 131])
def test_a_stall_is_found_within_two_seconds(last: int) -> None:
    run = Run(STALL)
    run.sample(range(1100), lambda second: working(min(second, last)))
    (fired,) = run.of_state(State.FIRING)
    assert 900 <= fired.at - (START + last) <= 902
    assert fired.began_at == START + last
    assert fired.text.endswith("for 15m00s")


def test_a_job_that_wakes_up_now_and_then_stalls_too() -> None:
    run = Run(STALL)
    run.sample(range(1100), lambda second: idle(second) | {"cpu.user": min(second, 100) + second // 30 * 0.02})
    (fired,) = run.of_state(State.FIRING)
    assert 900 <= fired.at - (START + 100) <= 912


def test_work_before_the_end_of_the_time_is_no_stall() -> None:
    run = Run(STALL)
    run.sample(range(1100), lambda second: working(min(second, 124) + max(0, second - 1022)))
    assert run.of_state(State.FIRING) == []


def test_output_and_a_gpu_at_a_constant_load_are_no_stall() -> None:
    run = Run(STALL)
    run.sample(range(1100), lambda second: idle(second) | {"gpu.util": 40.0})
    for second in range(1100, 2300, 10):
        run.sample(range(second, second + 10), idle, output=second)
    assert run.changes == []


@pytest.mark.parametrize(
    "job", [replace(JOB, status=Status.PAUSED), replace(JOB, command=("vim", "notes"))], ids=["paused", "interactive"]
)
def test_paused_and_interactive_jobs_do_not_stall(job: Job) -> None:
    run = Run(STALL, job)
    run.sample(range(1300), idle)
    assert run.changes == []


def test_a_job_that_is_paused_later_does_not_stall() -> None:
    run = Run(STALL)
    run.sample(range(800), idle)
    run.evaluator.join(replace(JOB, status=Status.PAUSED))
    run.sample(range(800, 2000), idle)
    run.evaluator.join(JOB)
    run.sample(range(2000, 2880), idle)
    assert run.of_state(State.FIRING) == []
    run.sample(range(2880, 2950), idle)
    assert len(run.of_state(State.FIRING)) == 1


def test_a_job_with_absent_counters_does_not_stall() -> None:
    run = Run(STALL)
    run.sample(range(1300), lambda _: {"cpu.user": 1.0, "cpu.system": 1.0})
    assert run.changes == []


def past_runs(seconds: float = 600.0, memory: float = GIB) -> list[Job]:
    chance = random.Random(1)
    return [
        replace(
            JOB,
            status=Status.SUCCESS,
            duration_seconds=seconds * chance.gauss(1, 0.05),
            usage=Usage(memory_peak_bytes=int(memory * chance.gauss(1, 0.05))),
        )
        for _ in range(20)
    ]


def test_a_run_that_takes_longer_than_usual_fires_while_it_runs_and_not_again_at_the_end() -> None:
    run = Run(DURATION)
    run.evaluator.set_past(ID, past_runs())
    run.sample(range(800), working)
    (fired,) = run.of_state(State.FIRING)
    assert 690 <= fired.at - START <= 780
    assert "running time so far" in fired.text
    assert "20 runs" in fired.text
    assert (fired.detail["runs"], fired.detail["figure"]) == (20, "duration_seconds")
    assert fired.detail["usual"] == pytest.approx(600, rel=0.05)
    ended = replace(JOB, status=Status.SUCCESS, duration_seconds=800.0)
    assert run.evaluator.see_end(ended, past_runs(), START + 800) == []
    assert [change.state for change in run.evaluator.leave(ID, START + 800)] == [State.RESOLVED]


def test_more_memory_than_usual_fires_while_the_job_runs() -> None:
    run = Run(MEMORY)
    run.evaluator.set_past(ID, past_runs())
    run.sample(range(100), lambda second: {"mem.used": GIB * (1.0 if second < 50 else 1.5)})
    (fired,) = run.of_state(State.FIRING)
    assert fired.at - START == 50
    assert fired.text.startswith("memory peak so far 1.5 GiB, ")


def test_a_run_that_took_longer_than_usual_is_told_at_its_end() -> None:
    evaluator = Evaluator([DURATION])
    evaluator.join(JOB)
    ended = replace(JOB, status=Status.SUCCESS, duration_seconds=800.0)
    changes = evaluator.see_end(ended, past_runs(), START + 800)
    assert [change.state for change in changes] == [State.FIRING, State.RESOLVED]
    assert changes[0].text.startswith("running time 13m20s, ")
    assert evaluator.see_end(replace(ended, duration_seconds=610.0), past_runs(), START + 900) == []
    assert evaluator.see_end(ended, past_runs()[:4], START + 900) == []
    assert evaluator.see_end(replace(ended, status=Status.CANCELLED), past_runs(), START + 900) == []


def test_a_source_that_stops_while_the_job_is_sampled_fires_and_resolves_when_it_reports_again() -> None:
    run = Run(replace(rule(RuleKind.ABSENCE, "gpu.util"), window_seconds=60.0))
    run.sample(range(100), lambda _: {"gpu.util": 50.0})
    run.sample(range(100, 200), lambda _: {})
    (fired,) = run.of_state(State.FIRING)
    assert 150 <= fired.at - START <= 170
    assert fired.text == f"no values of GPU utilisation for {fired.value:.0f}s".replace("60s", "1m00s")
    run.sample(range(200, 230), lambda _: {"gpu.util": 50.0})
    assert len(run.of_state(State.RESOLVED)) == 1


def test_a_device_that_is_not_read_any_more_is_absent() -> None:
    evaluator = Evaluator([replace(rule(RuleKind.ABSENCE, "gpu.temp", Scope.GPU), window_seconds=60.0)])
    changes: list[Transition] = []
    for second in range(0, 300, 10):
        at = START + second
        changes += evaluator.see_host({}, {}, 10.0, at)
        if second <= 100:
            changes += evaluator.see_device(GPU, 5000.0 + second, {"gpu.temp": 60.0}, at)
        changes += evaluator.slow(at)
    (fired,) = changes
    assert (fired.owner, fired.state) == (GPU, State.FIRING)
    assert 160 <= fired.at - START <= 180
    assert fired.text.startswith("GPU 0: no values of temperature for 1m")


def test_an_alert_of_an_earlier_engine_resolves_when_all_is_well() -> None:
    open_alert = Transition(STALL, ID, State.FIRING, START - 60, START - 900, 900.0, "stalled")
    evaluator = Evaluator([STALL])
    evaluator.join(JOB, [open_alert])
    changes: list[Transition] = []
    for second in range(0, 60, 10):
        values = tuple(working(second).get(key) for key in JOB_COLUMNS)
        changes += evaluator.see_jobs([(ID, Sample(second, values))], START + second)
        changes += evaluator.slow(START + second)
    assert [change.state for change in changes] == [State.RESOLVED]


def test_a_forecast_of_a_disk_works_on_values_that_are_given_once_in_a_while() -> None:
    evaluator = Evaluator(
        [replace(rule(RuleKind.FORECAST, "cwd.disk_used", limit="cwd.disk_total"), within_seconds=600.0)]
    )
    evaluator.join(JOB)
    changes: list[Transition] = []
    for second in range(0, 1500, 10):
        at = START + second
        changes += evaluator.see_jobs([(ID, Sample(second, tuple(None for _ in JOB_COLUMNS)))], at)
        changes += evaluator.see_extra(ID, {"cwd.disk_used": GIB * second / 200, "cwd.disk_total": 8 * GIB}, at)
        changes += evaluator.slow(at)
    (fired,) = changes
    assert math.isclose(fired.at - START, 1000, abs_tol=30)
