"""`[keys]` remaps actions; unknown words and clashes are reported."""

import pytest

from jobtop.core.errors import ConfigError
from jobtop.tui.actions import ACTIONS, BY_ID
from jobtop.tui.keymap import (
    A_CHARACTER,
    ACTIVE_TOGETHER,
    Clash,
    clashes,
    keys_of,
    read_keys,
    read_valid_keys,
    shown_keys,
)


def test_keys_may_be_written_in_usual_ways() -> None:
    keys = read_keys({"app.quit": ("Q", "^x", "ESC"), "jobs.kill": ("F8",), "app.help": ("?", ",")})
    assert keys == {"app.quit": "Q,ctrl+x,escape", "jobs.kill": "f8", "app.help": "?,comma"}
    assert shown_keys(keys_of(BY_ID["app.quit"], keys)) == "Q ^x esc"
    assert shown_keys(keys_of(BY_ID["app.help"], {})) == "?"
    assert shown_keys(["tab", "space", "left_square_bracket", "comma"]) == "tab space [ ,"
    assert shown_keys(["enter", "down", "j"]) == "⏎ ↓ j"
    assert shown_keys(["enter", "down", "j"], in_words=True) == "Enter Down j"


@pytest.mark.parametrize(
    ("action", "words", "facts"),
    [
        ("jobs.kil", ("K",), ("jobs.kil:", '"jobs.kill"')),
        ("\x1b[31m", ("K",), ("\\x1b[31m:", "action")),
        ("jobs.kill", ("ctlr+k",), ("jobs.kill:", '"ctlr+k"', '"ctrl+k"')),
        ("jobs.kill", (), ("jobs.kill:", "no key")),
    ],
)
def test_an_unknown_word_is_reported_with_the_nearest_one(
    action: str, words: tuple[str, ...], facts: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_keys({action: words})
    assert str(caught.value).startswith(f"keys: {facts[0]}")
    assert [fact for fact in facts if fact not in str(caught.value)] == []
    assert "\x1b" not in str(caught.value)


def test_wrong_keys_are_left_out_and_named_and_the_others_apply() -> None:
    keys, problems = read_valid_keys({"jobs.kil": ("K",), "app.quit": ("Q",), "jobs.kill": ("nokey",)})
    assert keys == {"app.quit": "Q"}
    assert ["jobs.kil:" in problems[0], "nokey" in problems[1], len(problems)] == [True, True, 2]


def test_keys_that_do_two_things_in_one_place_are_named() -> None:
    (clash,) = clashes(read_keys({"jobs.kill": ("s",)}))
    assert clash == Clash("s", "table.sort", "jobs.kill")
    assert [fact for fact in ("keys: s ", "table.sort", "jobs.kill") if fact not in str(clash)] == []
    assert Clash("/", "app.run", "jobs.filter") in clashes(read_keys({"app.run": ("slash",)}))
    assert Clash("b", "jobs.kill", "history.group") in clashes(read_keys({"jobs.kill": ("b",)}))


def test_a_key_may_do_something_else_in_another_pane_another_screen_or_a_dialogue() -> None:
    assert clashes(read_keys({"chart.left": ("s",), "settings.again": ("b",), "confirm.yes": ("q",)})) == []


def test_new_clashes_in_a_dialogue_are_named_and_default_ones_are_not() -> None:
    assert Clash("space", "form.submit", "form.tick") in clashes(read_keys({"form.submit": ("space",)}))
    assert Clash("j", "text.down", "help.close") in clashes(read_keys({"help.close": ("j",)}))
    assert Clash("n", "confirm.yes", "confirm.no") in clashes(read_keys({"confirm.yes": ("n",)}))
    assert clashes(read_keys({"app.back": ("esc", "W"), "log.next": ("n", ">"), "settings.again": ("x",)})) == []


def test_a_key_that_a_field_takes_for_itself_is_named() -> None:
    assert clashes(read_keys({"form.submit": ("!",)})) == [Clash("!", "form.submit", A_CHARACTER)]
    assert clashes(read_keys({"form.submit": ("f5",), "form.tick": ("!",)})) == []


def test_every_place_of_the_registry_is_somewhere() -> None:
    assert {action.place for action in ACTIONS} <= set().union(*ACTIVE_TOGETHER)


def test_two_keys_that_change_places_do_not_clash() -> None:
    assert clashes(read_keys({"jobs.kill": ("x",), "jobs.stop": ("X",)})) == []


def test_ids_are_unique_and_every_key_of_the_registry_is_one() -> None:
    assert len({action.id for action in ACTIONS}) == len(ACTIONS)
    assert read_keys({action.id: action.keys.split(",") for action in ACTIONS})
