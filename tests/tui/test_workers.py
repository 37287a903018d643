"""Background work of the console: started in one way, repeated once for many requests, without leftovers."""

import ast
import asyncio
import gc

from textual.app import App

from jobtop.tui.workers import RepeatedWork, start_work
from support import ROOT


def test_work_that_is_cancelled_before_it_starts_leaves_no_coroutine() -> None:
    done = []

    async def work(word: str) -> None:
        done.append(word)

    async def scene() -> None:
        app: App[None] = App()
        async with app.run_test() as pilot:
            start_work(app, work, "cancelled")
            app.workers.cancel_all()
            start_work(app, work, "done")
            await pilot.pause()

    asyncio.run(scene())
    gc.collect()  # a coroutine that was never awaited warns now, and warnings are errors
    assert done == ["done"]


def test_requests_during_work_are_done_once_after_it() -> None:
    begun: list[int] = []
    done: list[int] = []

    async def scene() -> None:
        app: App[None] = App()
        async with app.run_test() as pilot:
            gate = asyncio.Event()

            async def work() -> None:
                begun.append(len(done))
                await gate.wait()
                done.append(len(begun))

            repeated = RepeatedWork(app, work, "work")
            repeated.request()
            await pilot.pause()
            for _ in range(3):
                repeated.request()
            assert (begun, repeated.is_running) == ([0], True)
            gate.set()
            await app.workers.wait_for_complete()
            assert (begun, done, repeated.is_running) == ([0, 1], [1, 2], False)
            repeated.request()
            await app.workers.wait_for_complete()
            assert len(done) == 3

    asyncio.run(scene())


def test_work_is_started_in_one_way_only() -> None:
    files = (ROOT / "tui").rglob("*.py")
    assert [file.name for file in files if "run_worker(" in file.read_text(encoding="utf-8")] == ["workers.py"]


def test_work_has_a_description_because_textual_would_write_down_all_arguments() -> None:
    calls = [
        decorator
        for path in (ROOT / "tui").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for decorator in node.decorator_list
        if "work" in ast.unparse(decorator).split("(")[0].split(".")
    ]
    assert calls
    for call in calls:
        assert isinstance(call, ast.Call), ast.unparse(call)
        assert "description" in {keyword.arg for keyword in call.keywords}, ast.unparse(call)
