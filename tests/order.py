"""The order of test modules for several workers: slow ones start first, so that the workers end together."""

from collections.abc import Iterable
from itertools import groupby

import pytest

# Seconds of modules that take long, roughly. A wrong number costs time and nothing else.
SECONDS = """
integration/truth 69 integration/alerts_at_work 66 integration/incomplete 56 integration/store_replaced 49
unit/crafted_stores 47 integration/usage 38 integration/signals 35 tui/snapshots 35 tui/job_screen 32
tui/containers_page 30 tui/every_key 29 integration/console_tour 26 tui/hostile 23 tui/container_screen 22
tui/host_screen 22 integration/own_terminal 21 integration/agent 21 integration/sampling_kill 20
tui/history_page 19 integration/sampling 18 integration/control 18 integration/containers 18
integration/streams 18 tui/run_form 17 integration/store_faults 16 integration/after_exit 16
unit/terminal_text 15 tui/screenshots 15 integration/bare_machine 15 integration/foreign_state 15
integration/attended 14 integration/container_kill 14 tui/alerts_page 14 integration/container_verbs 13
integration/typing 13 tui/dashboard 13 tui/job_actions 13 tui/typing 13 tui/store_faults 12 unit/listing 12
unit/runner 12 integration/kill 12 tui/table 12 unit/patterns 12 integration/gpus 11 integration/rerun 11
tui/pages 11 unit/series 10 unit/alert_states 9 tui/demo 9 integration/logs 9 integration/cgroup_v1 9
integration/lightning 20 tui/palette 9 tui/run_form_images 8 integration/queue_kill 8 integration/series_kill 8
""".split()
SLOW = dict(zip(SECONDS[::2], map(int, SECONDS[1::2]), strict=True))
OTHERS_SECONDS = 0.05  # for each test of another module


def seconds_of(module: str, tests: int) -> float:
    """How long a module takes, roughly; `module` is its path below tests/, without `test_` and suffix."""
    return SLOW.get(module, OTHERS_SECONDS * tests)


def in_turns(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The modules with the slow ones first; those that mostly wait are spread evenly among those that compute."""
    modules = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    placed: list[tuple[float, int, list[pytest.Item]]] = []
    for waits in (True, False):
        group = [tests for tests in modules if (tests[0].path.parent.name == "integration") is waits]
        weights = [(seconds_of(name_of(tests[0]), len(tests)), number) for number, tests in enumerate(group)]
        total, before = sum(seconds for seconds, _ in weights) or 1.0, 0.0
        for seconds, number in sorted(weights, key=lambda weight: (-weight[0], weight[1])):
            placed.append((before / total, len(placed), group[number]))
            before += seconds
    return [item for _, _, tests in sorted(placed, key=lambda place: place[:2]) for item in tests]


def name_of(item: pytest.Item) -> str:
    return f"{item.path.parent.name}/{item.path.stem.removeprefix('test_')}"
