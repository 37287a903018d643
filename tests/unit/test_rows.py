"""Texts of a row are read as JSON, whoever wrote them."""

import pytest

from jobtop.core.errors import RowDamaged
from jobtop.store.rows import parse_mapping


@pytest.mark.parametrize("text", ['{"a": 1}', ' {"a": 1}', '{"a": 1}\n', '\t{"a":1} ', b'{"a": 1}'])
def test_white_space_around_json_is_allowed(text: object) -> None:
    assert parse_mapping(text, "params") == {"a": 1}


@pytest.mark.parametrize("text", ['{"a": 1} x', '{"a": 1}{}', "", " ", "{", "\u00a0{}", "[1]", "3", None, 3])
def test_what_is_no_json_object_is_refused(text: object) -> None:
    with pytest.raises(RowDamaged):
        parse_mapping(text, "params")
