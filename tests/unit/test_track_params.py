"""Parameters of tracked blocks, whatever a program gives."""

import json

from jobtop.core.track.params import plain_params


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_plain_values_stay_as_they_are() -> None:
    params = {"lr": 0.1, "layers": [1, 2], "name": "a", "on": True, "none": None, "deep": {"x": 1}}
    assert plain_params(params) == params


def test_what_json_does_not_have_is_text() -> None:
    made = plain_params({"set": {1}, "nan": float("nan"), "object": Unprintable(), 3: "three", ("a", 1): "pair"})
    assert made == {"set": "{1}", "nan": "NaN", "object": "<Unprintable>", "3": "three", "('a', 1)": "pair"}
    json.dumps(made, allow_nan=False)


def test_what_is_no_mapping_is_one_parameter() -> None:
    assert plain_params([1, 2]) == {"params": [1, 2]}
    assert plain_params(None) == {}


def test_a_list_that_contains_itself_is_text() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert plain_params({"a": endless}) == {"a": "[[...]]"}
