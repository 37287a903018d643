"""Two engines and five readers of one store at once: every sample is kept, and no message is about locks."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_read, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples.series import SeriesStore
from jobtop.store.upkeep.checking import check
from records import HERE, running_job
from support import Jobtop

ENGINES, JOBS_OF_EACH = 2, 8
# Keeps the samples of some jobs until told to end: twenty times a second, so that the two of them meet often. It
# waits while the store is busy, as an engine does. Says when it has begun, and at the end how much it kept.
ENGINE = """
import select, sys
from pathlib import Path
from jobtop.core.errors import StoreBusy
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Sample
from jobtop.core.paths import StatePaths
from jobtop.core.measure.sampler import Batch
from jobtop.store.samples.sink import StoreSink
root, host, network, *jobs = sys.argv[1:]
sink = StoreSink(StatePaths(Path(root), host), network == "yes")
def patiently(call, *values):
    while True:
        try:
            return call(*values)
        except StoreBusy:
            continue
number = 0
while not select.select([0], [], [], 0.05)[0]:
    number += 1
    patiently(sink.may_record_host)
    patiently(sink.keep, [Batch([(job, Sample(float(number), (number,) * len(JOB_COLUMNS))) for job in jobs])])
    if number == 1:
        print("begun", flush=True)
    while patiently(sink.step):
        pass
for job in jobs:
    patiently(sink.finish, job)
patiently(sink.close)
print(number)
"""
# Asks one question after the other until told to end; says what was wrong, or how often it asked.
READER = """
import select, sys
from contextlib import redirect_stdout
from pathlib import Path
from jobtop.cli.main import main
asked, answers, question = 0, open("/dev/null", "w"), sys.argv[1:]
while not asked or not select.select([0], [], [], 0.02)[0]:
    sys.argv = ["jobtop", *question]
    with redirect_stdout(answers):
        code = main()
    if code:
        sys.exit(f"exit code {code}")
    asked += 1
print(asked)
"""
QUESTIONS = (
    ("history", "--json", "--all"),
    ("show", "JOB", "--json"),
    ("metrics", "JOB", "--no-follow", "--format", "jsonl"),
    ("history", "train", "--sort", "memory", "--limit", "10"),
    ("stats", "--json"),
)


@contextmanager
def started(jobtop: Jobtop, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A process that ends as soon as its standard input does, or else when it is not needed any more."""
    command, pipe = [sys.executable, "-c", *words], subprocess.PIPE
    with subprocess.Popen(command, env=jobtop.env, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def living_jobs(paths: StatePaths, network: bool) -> dict[str, int]:
    """Jobs that run by their record, by their ids."""
    database = open_to_write(paths, network)
    jobs = [Jobs(database).insert(running_job()) for _ in range(ENGINES * JOBS_OF_EACH)]
    database.close()
    return {job.id: job.seq or 0 for job in jobs}


@pytest.mark.parametrize("network", ["no", "yes"])
@pytest.mark.parametrize("seconds", [1.5, pytest.param(60.0, marks=pytest.mark.soak)])
def test_two_engines_and_five_readers_at_once_hear_nothing_of_locks(
    jobtop: Jobtop, seconds: float, network: str
) -> None:
    paths = StatePaths(jobtop.state, HERE)
    jobs = living_jobs(paths, network == "yes")
    ids = list(jobs)
    with ExitStack() as stack:
        crowd = [
            stack.enter_context(started(jobtop, ENGINE, str(paths.root), HERE, network, *ids[place::ENGINES]))
            for place in range(ENGINES)
        ]
        for engine in crowd:
            assert engine.stdout is not None
            assert engine.stdout.readline() == "begun\n"
        for question in QUESTIONS:
            words = [word.replace("JOB", ids[0]) for word in question]
            crowd.append(stack.enter_context(started(jobtop, READER, *words)))
        with pytest.raises(subprocess.TimeoutExpired):
            crowd[-1].wait(seconds)
        said = [process.communicate("", timeout=60) for process in crowd]
    assert [(process.returncode, errors) for process, (_, errors) in zip(crowd, said, strict=True)] == [(0, "")] * 7
    counts = [int(words) for words, _ in said]
    database = open_to_read(paths.store)
    for place, job in enumerate(ids):
        kept = [sample.elapsed for sample in SeriesStore(database).samples(jobs[job])]
        assert kept == [float(number) for number in range(1, counts[place % ENGINES] + 1)]
    database.close()
    assert list(check(paths.store)) == []
