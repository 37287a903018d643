"""The command of an earlier job with other arguments, or with another value of a parameter."""

import pytest

from jobtop.core.run.changed_command import parameter_value, replace_arguments, with_parameter


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("python3.12 train.py --lr 0.1", "python3.12 train.py --new"),
        ("/usr/bin/python -u train.py a b", "/usr/bin/python -u train.py --new"),
        ("python -m pkg.train --lr 0.1", "python -m pkg.train --new"),
        ("python -c code 1 2", "python -c code --new"),
        ("python", "python --new"),
        ("bash run.sh x", "bash run.sh --new"),
        ("./solver --lr 0.1 mesh", "./solver --new"),
    ],
)
def test_new_arguments_follow_the_program_and_its_script(before: str, after: str) -> None:
    assert replace_arguments(before.split(), ["--new"]) == tuple(after.split())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("p --lr 0.1 --x 1", "p --lr 0.2 --x 1"),
        ("p --lr=0.1", "p --lr=0.2"),
        ("p lr=0.1", "p lr=0.2"),
        ("p +lr=0.1", "p +lr=0.2"),
        ("p -lr -0.1", "p -lr 0.2"),
        ("p --lr 0.1 --lr 0.5", "p --lr 0.1 --lr 0.2"),
        ("p --lr -v", None),
        ("p --lr", None),
        ("p --lrate 0.1", None),
        ("lr 0.1", None),
    ],
)
def test_a_parameter_is_changed_where_the_command_line_has_it(before: str, after: str | None) -> None:
    changed = with_parameter(before.split(), "lr", "0.2")
    assert changed == (None if after is None else tuple(after.split()))
    assert (parameter_value(before.split(), "lr") is None) == (after is None)


def test_an_underscore_of_a_name_may_be_a_dash_of_the_option() -> None:
    assert with_parameter(("p", "--batch-size", "8"), "batch_size", "16") == ("p", "--batch-size", "16")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("lr=0.1 ./a; python b.py --lr 0.1 | tee x", "lr='a b' ./a; python b.py --lr 'a b' | tee x"),
        ("p --lr='0.1'", "p --lr='a b'"),
        ("p --lr -v", None),
        ("p x--lr 1", None),
    ],
)
def test_a_parameter_of_a_shell_line_is_changed_and_quoted(before: str, after: str | None) -> None:
    changed = with_parameter(("/bin/sh", "-c", before), "lr", "a b")
    assert changed == (None if after is None else ("/bin/sh", "-c", after))
    assert (parameter_value(("/bin/sh", "-c", before), "lr") is None) == (after is None)
