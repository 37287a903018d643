"""Changing one rule in a configuration file: only its fields change, and everything else stays byte for byte."""

import tomllib

import pytest

from jobtop.core.alerts.rule_edit import edit_rule
from jobtop.core.errors import ConfigError

FILE = """\
# my settings
[run]
grace = "20s"   # slow to stop

[[alert]]   # the first
name = "busy"
above   =  90   # percent
for = "30s"

  [[ alert ]]
  name = 'nearly full'
  metric = "mem.used / limit.memory"

# the end
[keys]
app.quit = ["Q",
  "ctrl+q"]  # both
"""


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """The lines that only one of two texts has."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return [line for line in old if line not in new], [line for line in new if line not in old]


def test_a_value_is_changed_where_it_is_and_its_comment_stays() -> None:
    after = edit_rule(FILE, "busy", {"above": 95.0})
    assert changed_lines(FILE, after) == (["above   =  90   # percent\n"], ["above   =  95   # percent\n"])


def test_a_field_that_is_not_there_is_added_behind_the_others_with_their_indent() -> None:
    after = edit_rule(FILE, "nearly full", {"above": "95%", "enabled": False})
    old, new = changed_lines(FILE, after)
    assert (old, new) == ([], ['  above = "95%"\n', "  enabled = false\n"])
    assert after.index("limit.memory") < after.index("95%") < after.index("# the end")


def test_a_rule_that_is_not_there_is_added_at_the_end() -> None:
    after = edit_rule(FILE, "hot", {"above": 0.75, "severity": "critical"})
    assert after == FILE + '\n[[alert]]\nname = "hot"\nabove = 0.75\nseverity = "critical"\n'
    assert edit_rule("", "hot", {"above": 1}) == '[[alert]]\nname = "hot"\nabove = 1\n'
    assert edit_rule("[run]", "hot", {"above": 1}).startswith("[run]\n\n[[alert]]\n")


def test_line_ends_of_windows_stay() -> None:
    text = FILE.replace("\n", "\r\n")
    for changes in ({"above": 95, "clear": 80}, {"severity": "info"}):
        after = edit_rule(text, "busy", changes)
        assert "\n" not in after.replace("\r\n", "")
        assert after.replace("\r\n", "\n") == edit_rule(FILE, "busy", changes)
    assert edit_rule(text, "new", {"above": 1}).endswith('\r\n[[alert]]\r\nname = "new"\r\nabove = 1\r\n')


def test_inline_tables_are_changed_within_their_line() -> None:
    text = 'alert = [ {name = "a", above = 1}, {name = "b" , above=2 } ]  # two\n[run]\ngrace = "1s"\n'
    assert edit_rule(text, "b", {"above": 3}) == text.replace("above=2", "above=3")
    assert edit_rule(text, "a", {"for": "5s"}) == text.replace("above = 1}", 'above = 1, for = "5s"}')
    assert edit_rule(text, "c", {"above": 9}) == text.replace("} ]", '}, {name = "c", above = 9} ]')
    assert edit_rule("alert = []\n", "c", {"above": 9}) == 'alert = [{name = "c", above = 9}]\n'
    lines = 'alert = [\n  # one\n  {name = "a", steps = [{after = "1m"}], above = 1},\n]\n'
    assert edit_rule(lines, "a", {"above": 2}) == lines.replace("above = 1", "above = 2")


def test_the_last_of_several_tables_with_one_name_is_changed() -> None:
    text = '[[alert]]\nname = "a"\nabove = 1\n[[alert]]\nname = "b"\nabove = 1\n[[alert]]\nname = "a"\nabove = 1\n'
    assert [table["above"] for table in tomllib.loads(edit_rule(text, "a", {"above": 7}))["alert"]] == [1, 1, 7]


def test_what_looks_like_a_table_inside_a_string_or_an_array_is_left_alone() -> None:
    text = (
        '[run]\nnote = """\n[[alert]]\nname = "a"\nabove = 1\n"""\nother = \'\'\'[[alert]]\'\'\'\n'
        '[[alert]]\nmessage = "above = 1 # \\" ]"\n"name" = "a"\nactions = [ # [[alert]]\n  "bell", "log" ]\n'
        "'above' = 1\n[[alert.steps]]\nafter = '1m'\n"
    )
    after = edit_rule(text, "a", {"above": 2, "for": "10s"})
    assert after == text.replace("'above' = 1\n", "'above' = 2\nfor = \"10s\"\n")


def test_a_table_in_the_middle_of_a_file_without_a_last_line_end() -> None:
    assert edit_rule('[[alert]]\nname = "a"', "a", {"above": 2}) == '[[alert]]\nname = "a"\nabove = 2\n'


@pytest.mark.parametrize("name", ['say "hi"', "back\\slash", "new\nline", "[[alert]]", "ünï ✗", "\x7f\x1b[0m", "#"])
def test_any_name_can_be_written_and_found_again(name: str) -> None:
    added = edit_rule(FILE, name, {"above": 1, "message": name})
    assert tomllib.loads(added)["alert"][-1] == {"name": name, "above": 1, "message": name}
    assert edit_rule(added, name, {"above": 2}) == added.replace("above = 1\n", "above = 2\n")


@pytest.mark.parametrize("text", ["[[alert]\n", "alert = 3\n", 'alert = {name = "a"}\n', "[alert]\nname = 'a'\n"])
def test_a_file_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        edit_rule(text, "a", {"above": 1})


def test_a_number_that_toml_rules_do_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a number"):
        edit_rule("", "a", {"above": float("inf")})
