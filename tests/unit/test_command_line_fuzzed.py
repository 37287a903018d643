"""Whatever words follow `jobtop`: an answer, or one line that says what is wrong; never a bug of jobtop."""

import random
from contextlib import suppress
from pathlib import Path

import click
import pytest

from fuzzing import ODD_NUMBERS, ODD_WORDS, fuzz, fuzzed, mutated_text
from jobtop.cli.main import VERBS, jobtop
from jobtop.cli.run.options import RUN, parse_arguments
from jobtop.cli.run.submission import SUBMIT
from jobtop.core.errors import JobtopError
from records import HOSTILE_TEXTS, call, kept_jobs, made_job
from sampled import kept_sampled, steady

# Verbs that are carried out; none of them changes a job, starts a process or waits for one.
CARRIED_OUT = ("history", "show", "logs", "metrics", "plot", "export", "stats", "queue", "wait", "config", "completion")
LEFT_OUT = ("--output", "--svg", "--record", "--force", "--watch")  # they write files, or never end
VALUES = (
    *ODD_WORDS,
    *ODD_NUMBERS,
    *HOSTILE_TEXTS.values(),
    *("last", "last:failed", "@2", "#1", "train", "id:", "name:train", "7d", "1h30m", "4G", "json", "jsonl", "csv"),
    *("table", "cpu.percent", "mem.used,io.*", "-", "--", "-1", "name", "a=b", "key=", "=", "50%", "tag:a", "x" * 300),
)
Words = list[str]


def command_of(words: Words) -> click.Command:
    found = jobtop.get_command(click.Context(jobtop), words[0])
    assert found is not None
    return found


def value_of(dice: random.Random, param: click.Parameter) -> str:
    """A value that a parameter can take, or any other."""
    kinds: dict[str, Words] = {"IntRange": ["30", "200"], "Duration": ["1s", "7d", "90"]}
    if isinstance(param.type, click.Choice):
        known = [str(name) for name in param.type.choices]
    elif param.name in ("reference", "words"):
        known = ["last", "train", "#1", "@1", "sampled", "id:0000", "name:t*", "time:1s..", "-tool:x", "param.lr:1..2"]
    elif "--store" in param.opts:
        known = ["state"]
    else:
        known = kinds.get(type(param.type).__name__, ["train", "a=b", "cpu.percent", "name:t*", "cpu", "status"])
    return dice.choice(known if dice.random() < 0.8 else VALUES)


def written(dice: random.Random, verbs: tuple[str, ...]) -> Words:
    """A verb with some of its options, their values and arguments."""
    words = [dice.choice(verbs)]
    params = [param for param in command_of(words).params if not set(param.opts) & set(LEFT_OUT)]
    for param in params:
        is_argument = isinstance(param, click.Argument)
        if dice.random() < (0.1 if is_argument else 0.8):
            continue
        if not is_argument:
            words.append(dice.choice(param.opts))
        if not getattr(param, "is_flag", False):
            words.append(value_of(dice, param))
    words += dice.sample(VALUES, dice.choice((0,) * 12 + (1, 2)))
    if dice.random() < 0.1:
        place = dice.randrange(len(words))
        words[place] = mutated_text(dice, words[place], 2)
    before = ["--set", dice.choice(("run.grace=1s", "x", "cost.kwh=nan"))] if dice.random() < 0.1 else []
    return before + [word.replace("\0", "") for word in words]


@fuzzed("command line", inputs=150)
def test_verbs_that_read_answer_or_say_what_is_wrong(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.chdir(tmp_path)
    kept_jobs(home, made_job(name="train", tags={"a": "b"}), made_job(name="x" * 300, command=("\udce9", "")))
    kept_sampled(home, made_job(name="sampled", duration_seconds=3.5), steady(3))

    answered = 0

    def check(words: Words) -> None:
        nonlocal answered
        if any(word.startswith(LEFT_OUT) for word in words):
            return
        answer = call(*words)
        answered += answer.returncode == 0
        assert answer.returncode in (0, 1, 2), answer
        assert "bug in jobtop" not in answer.stderr, answer
        assert answer.returncode != 2 or answer.stderr.count("\n") == 1, answer

    fuzz("command line", lambda dice: written(dice, CARRIED_OUT), check, count)
    assert answered > count / 5


@fuzzed("command line", inputs=1500)
def test_the_words_of_every_verb_are_read_or_refused(home: Path, count: int) -> None:
    """Up to where the verb would begin."""

    def check(words: Words) -> None:
        if words[0] == "--set" or words[0] not in VERBS:
            return
        for rows in (RUN, SUBMIT):
            with suppress(JobtopError):
                parse_arguments(rows, words[1:])
        with suppress(click.ClickException, click.exceptions.Exit):
            command_of(words).make_context(words[0], words[1:], resilient_parsing=False)

    fuzz("command line", lambda dice: written(dice, tuple(VERBS)), check, count)
