"""Every error has the exit code the contract gives it, and the drawing of the tree is true."""

import re

import pytest

from jobtop.core import errors
from jobtop.core.errors import ExitCode, JobtopError, StartError, did_you_mean, nearest_name


def subclasses(error: type[JobtopError]) -> list[type[JobtopError]]:
    return [found for child in error.__subclasses__() for found in (child, *subclasses(child))]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.JobtopError, 125),
        (errors.UsageError, 2),
        (errors.BadValue, 2),
        (errors.ConfigError, 2),
        (errors.UnknownJob, 2),
        (errors.AmbiguousJob, 2),
        (errors.StoreError, 125),
        (errors.StoreUnavailable, 125),
        (errors.StoreDamaged, 125),
        (errors.StoreTooNew, 125),
        (errors.StartError, 125),
    ],
)
def test_each_error_ends_a_verb_with_its_code(error: type[JobtopError], code: int) -> None:
    assert error("one line").exit_code == code
    assert str(error("one line")) == "one line"


@pytest.mark.parametrize("code", [ExitCode.NOT_EXECUTABLE, ExitCode.NOT_FOUND])
def test_a_command_that_cannot_start_says_why_in_its_code(code: ExitCode) -> None:
    assert StartError("nosuch: not found", code).exit_code is code
    assert StartError.exit_code is ExitCode.FAILED


def test_the_docstring_draws_the_whole_tree() -> None:
    drawn = re.findall(r"^([│├└─ ]*)([A-Z]\w+) ", errors.__doc__ or "", re.MULTILINE)
    depths = {name: len(indent) // 4 for indent, name in drawn if name in vars(errors)}
    errors_raised: list[type[JobtopError]] = [JobtopError, *subclasses(JobtopError)]
    assert depths == {
        error.__name__: len(error.__mro__) - len(JobtopError.__mro__)
        for error in errors_raised
        if error.__module__ == errors.__name__
    }


@pytest.mark.parametrize(
    ("word", "name"), [("run.grac", "run.grace"), ("RUN.GRACE", "run.grace"), ("zzz", None), ("", None)]
)
def test_the_nearest_name_is_close_or_absent(word: str, name: str | None) -> None:
    assert nearest_name(word, ["store.dir", "run.grace"]) == name


def test_a_suggestion_is_made_only_where_there_is_one() -> None:
    assert did_you_mean("sucess", ["success", "failed"]) == ' (did you mean "success"?)'
    assert did_you_mean("zzz", ["success", "failed"]) == ""
