"""The keyword arguments of `jobtop.run`: values of Python and texts of the verbs, and what is refused."""

from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import jobtop
from jobtop.core.run.request import Request
from jobtop.options import JobOptions, request_of, settings_of


def made(command: Any = ("true",), **options: Any) -> Request:
    return request_of("run", command, cast("JobOptions", options), detached=False)


@pytest.mark.parametrize("value", ["8G", 8 << 30, float(8 << 30), "8192M"])
def test_memory_is_bytes_or_text(value: object) -> None:
    assert made(memory=value).limits.memory_bytes == 8 << 30


@pytest.mark.parametrize("value", [90, 90.0, "90", "1m30s", timedelta(seconds=90)])
def test_a_time_is_seconds_text_or_a_timedelta(value: object) -> None:
    assert made(timeout=value).limits.timeout_seconds == 90


@pytest.mark.parametrize("value", ["a", ["a"], {"a": ""}])
def test_tags_are_words_or_a_mapping(value: object) -> None:
    assert made(tags=value).tags == {"a": ""}


class Scalar:
    """A number as numpy has them."""

    ndim = 0

    def item(self) -> float:
        return 0.5


def test_parameters_become_what_json_holds() -> None:
    params = {"lr": Scalar(), "file": Path("a"), "many": (1, {2}), "none": None, "nan": float("nan"), 3: True}
    held = {"lr": 0.5, "file": "a", "many": [1, [2]], "none": None, "nan": "nan", "3": True}
    assert made(params=params).params == held


def test_a_command_may_have_paths_and_a_string_is_one_word() -> None:
    assert made([Path("a"), "b"]).command == ("a", "b")
    assert made("true").command == ("true",)
    assert made("a b", shell=True).command == ("a b",)


@pytest.mark.parametrize(
    ("command", "options", "word"),
    [
        ("echo a", {}, "shell=True"),
        ((), {}, "empty"),
        (["a\0"], {}, "null"),
        (["true"], {"memory": "8X"}, "memory"),
        (["true"], {"memory": 0}, "zero"),
        (["true"], {"timeout": timedelta(0)}, "timeout"),
        (["true"], {"gpus": -1}, "gpus"),
        (["true"], {"cwd": "/nowhere"}, "/nowhere"),
        (["true"], {"env": {"a": 1}}, "env"),
        (["true"], {"enforce": True}, "enforce"),
        (["true"], {"volumes": ["a:/b"]}, "image"),
        (["true"], {"image": "box", "nice": 3}, "nice"),
        (["true"], {"after_exit": "stay"}, "after_exit"),
        (["true"], {"name": 3}, "name"),
    ],
)
def test_what_cannot_work_is_refused_with_its_name(command: Any, options: dict[str, Any], word: str) -> None:
    with pytest.raises(jobtop.BadValue, match=word):
        made(command, **options)


def test_an_unknown_argument_is_a_type_error_with_the_nearest_name() -> None:
    with pytest.raises(TypeError, match=r'memroy.*"memory"'):
        made(memroy="8G")


def test_an_image_makes_the_job_a_container_whose_limits_hold() -> None:
    request = made(image="box:1", memory="1G", volumes=["/a:/b"], env={"A": "b"})
    assert (request.kind, request.env, request.limits.enforced) == ("container", {}, True)
    assert request.container is not None
    assert (request.container.image, request.container.volumes, request.container.env) == (
        "box:1",
        ("/a:/b",),
        {"A": "b"},
    )


def test_monitoring_is_set_as_the_verb_does() -> None:
    options = JobOptions(interval=0.5, without=["pss", "fds"], monitor=False, settings={"run.pty": "never"})
    expected = ["run.pty=never", "monitor.interval=0.500000", "monitor.without=pss,fds", "monitor.enabled=false"]
    assert settings_of(options) == expected
    with pytest.raises(jobtop.BadValue, match="interval"):
        settings_of(JobOptions(interval=0.001))


def test_every_option_of_the_verb_has_a_keyword() -> None:
    from jobtop.cli.run.options import RUN

    own = {"no_ui", "detach", "like", "pty", "no_pty", "report", "fail_on", "quiet", "record", "verbose", "no_monitor"}
    plural = {"tag": "tags", "param": "params", "volume": "volumes"}
    words = {plural.get(option.key, option.key) for option in RUN} - own
    assert words == JobOptions.__annotations__.keys() - {"monitor", "settings"}
