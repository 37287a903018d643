"""The order of test modules for several workers: slow ones start first, so that the workers end together."""

from collections.abc import Iterable
from itertools import groupby

import pytest

# Seconds of modules that take long, roughly. A wrong number costs time and nothing else.
SECONDS = """
integration/truth 60 integration/store_replaced 42 unit/crafted_stores 40 tui/snapshots 33 tui/every_key 31
tui/run_form 29 tui/job_screen 29 integration/usage 29 integration/signals 26 integration/alerts_at_work 25
tui/history_page 23 tui/containers_page 23 tui/container_screen 23 integration/containers 20
integration/console_tour 20 integration/streams 18 integration/incomplete 18 integration/own_terminal 17
integration/foreign_state 17 integration/control 17 unit/terminal_text 16 unit/source_faults 16
integration/sampling_kill 16 integration/agent 16 tui/hostile 15 tui/host_screen 15 integration/kill 15
integration/container_verbs 15 integration/attended 15 integration/after_exit 15 integration/store_faults 14
tui/demo 14 integration/workflows 14 integration/container_kill 14 tui/job_actions 13 integration/sampling 13
tui/typing 12 unit/runner 11 tui/run_form_images 11 tui/alerts_page 11 integration/typing 11 integration/rerun 11
integration/pty 11 integration/bare_machine 11 tui/palette 10 tui/pages 10 tui/dashboard 10 integration/gpus 10
unit/patterns 9 unit/facts 9 tui/store_faults 9 unit/series 8 unit/listing 8 unit/devices 8 integration/logs 8
integration/cgroup_v1 8 integration/attach 8 integration/face_run 14 integration/tracking 20
integration/slow_terminal 12 integration/lightning 20 integration/keystone_face 12
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
