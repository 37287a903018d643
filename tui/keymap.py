"""Which key runs which action after `[keys]` of the configuration is applied, and what is wrong with `[keys]`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from textual.binding import ActiveBinding
from textual.keys import Keys, key_to_character
from textual.screen import Screen

from jobtop.core.errors import ConfigError, did_you_mean
from jobtop.core.units import printable
from jobtop.tui.actions import (
    ACTIONS,
    AGAIN,
    ALERTS,
    APP,
    BY_ID,
    CHART,
    COMMAND,
    COMPARE,
    CONFIRM,
    CONTAINER,
    CONTAINER_LIST,
    CONTAINERS,
    FILTER,
    FORM,
    GRAPH,
    HELP,
    HISTORY,
    HOST,
    JOB,
    JOBS,
    LEAVING,
    LINE,
    LINES,
    LOG,
    MUTE,
    PROCESSES,
    QUEUE,
    SEARCH,
    SETTINGS,
    STRIP,
    TABLE,
    TEXT,
    TICK,
    TYPING,
    WORKFLOW,
    WORKFLOWS,
    Action,
    key_words,
)

CHARACTERS = {"slash": "/", "backslash": "\\", "at": "@", "minus": "-", "plus": "+", "underscore": "_"}
ALIASES = {"esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown", "del": "delete", ",": "comma"}
KNOWN_KEYS = frozenset(key.value for key in Keys if not key.value.startswith("<"))
PANES = frozenset({TABLE, CHART, LOG, TEXT, GRAPH})
TYPED_IN = frozenset({FILTER, SEARCH, FORM, COMMAND, LINE})
# Places with keys that work at the same time: those of a screen or dialog, and that of its focused pane or field.
SCREENS = (
    ({APP, JOBS, HISTORY}, (TABLE, CHART, FILTER, STRIP)),  # the dashboard has the same places
    ({APP, JOBS, JOB}, (TABLE, CHART, LOG, TEXT, SEARCH)),
    ({APP, JOBS, QUEUE}, (TABLE,)),
    ({APP, COMPARE}, (TABLE, CHART)),
    ({APP, CONTAINERS, CONTAINER_LIST}, (TABLE, LINE)),
    ({APP, CONTAINERS, CONTAINER}, (TABLE, CHART, TEXT, LINE)),
    ({APP, CONTAINERS, CONTAINER, LINES}, (LOG,)),
    ({APP, ALERTS}, (TABLE, TEXT)),
    ({APP, SETTINGS}, (TABLE, TEXT)),
    ({APP, HOST, TEXT}, (CHART,)),
    ({APP, PROCESSES}, (TABLE, LINE)),
    ({APP, WORKFLOWS, WORKFLOW}, (TABLE, CHART)),
    ({APP, WORKFLOWS, WORKFLOW, TABLE}, (GRAPH,)),
    ({FORM}, (TICK, COMMAND)),
    ({HELP}, (TEXT,)),
    ({CONFIRM}, (CONFIRM,)),
    ({LEAVING}, (LEAVING,)),
    ({AGAIN}, (AGAIN,)),
    ({MUTE}, (MUTE,)),
    ({TYPING}, (TYPING,)),
)
ACTIVE_TOGETHER = tuple(places | {pane} for places, panes in SCREENS for pane in panes)
A_CHARACTER = "a character to type"


class Clash(NamedTuple):
    """A key that runs two actions in one place."""

    key: str
    one: str
    other: str

    def __str__(self) -> str:
        return f"keys: {self.key} is both {self.one} and {self.other}"


def read_keys(keys: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """`[keys]` as Textual takes it; raises ConfigError, which names an unknown word and the nearest known one."""
    return {action: ",".join(_read(action, words)) for action, words in keys.items()}


def read_valid_keys(keys: Mapping[str, Sequence[str]]) -> tuple[dict[str, str], list[str]]:
    """The valid entries of `[keys]`, as Textual takes them, and what is wrong with the others."""
    valid: dict[str, str] = {}
    problems = []
    for action, words in keys.items():
        try:
            valid |= read_keys({action: words})
        except ConfigError as error:
            problems.append(f"{error}; ignored")
    return valid, problems


def _read(action: str, words: Sequence[str]) -> Iterator[str]:
    place = f"keys: {printable(action)}"
    if action not in BY_ID:
        raise ConfigError(f"{place}: unknown action{did_you_mean(action, BY_ID)}")
    if not words:
        raise ConfigError(f"{place}: has no key")
    for word in words:
        key = word if len(word) == 1 else word.lower().replace("^", "ctrl+")
        key = ALIASES.get(key, key)
        if key not in KNOWN_KEYS and character_of(key) is None:
            raise ConfigError(f'{place}: "{printable(word)}" is not a key{did_you_mean(word, [*ALIASES, *KNOWN_KEYS])}')
        yield key


def keys_of(action: Action, keymap: Mapping[str, str]) -> list[str]:
    """The keys of an action, remapped or default."""
    return keymap.get(action.id, action.keys).split(",")


def clashes(keymap: Mapping[str, str]) -> list[Clash]:
    """Every clash that `[keys]` causes; keys that two actions share by default are not reported."""
    found = []
    for one, other in combinations(ACTIONS, 2):
        if (one.id in keymap or other.id in keymap) and work_together(one.place, other.place):
            shared = _shared_keys(one, other, keymap) - _shared_keys(one, other, {})
            found += [Clash(shown_key(key, True), one.id, other.id) for key in sorted(shared)]
    for action in (BY_ID[name] for name in keymap):
        typed = [key for key in keys_of(action, keymap) if action.place in TYPED_IN and is_typed(key)]
        found += [Clash(shown_key(key, True), action.id, A_CHARACTER) for key in typed]
    return found


def work_together(one: str, other: str) -> bool:
    """Whether keys of two places work at the same time."""
    return one == other or any({one, other} <= places for places in ACTIVE_TOGETHER)


def is_typed(key: str) -> bool:
    """Whether a text field takes the key as a character."""
    character = character_of(key)
    return character is not None and character.isprintable()


def _shared_keys(one: Action, other: Action, keymap: Mapping[str, str]) -> set[str]:
    return {_spelling(key) for key in keys_of(one, keymap)} & {_spelling(key) for key in keys_of(other, keymap)}


def character_of(key: str) -> str | None:
    """The character that a key types; Textual does not know it for key names that it shortened."""
    return CHARACTERS.get(key) or key_to_character(key)


def _spelling(key: str) -> str:
    """One spelling for a key: `?` and `question_mark` give the same."""
    return character_of(key) or key


def shown_key(key: str, in_words: bool = False) -> str:
    """A key as it is shown: `⏎`, or with `in_words` (in a sentence, on a serial console) `Enter`."""
    words, character = key_words(key, in_words), character_of(key)
    is_sign = words == key and character is not None and character.isprintable() and not character.isspace()
    return str(character) if is_sign else words


def shown_keys(keys: Sequence[str], in_words: bool = False) -> str:
    return " ".join(shown_key(key, in_words) for key in keys)


def active_bindings(screen: Screen[Any]) -> dict[str, list[ActiveBinding]]:
    """The active bindings where the focus is, by the id of their action; the default key comes first."""
    found: dict[str, list[ActiveBinding]] = {}
    for active in screen.active_bindings.values():
        if active.binding.id is not None and active.enabled:
            found.setdefault(active.binding.id, []).append(active)
    for name, keys in found.items():
        usual = BY_ID[name].keys.split(",") if name in BY_ID else []
        keys.sort(key=lambda active: usual.index(active.binding.key) if active.binding.key in usual else len(usual))
    return found


def keys_of_action(screen: Screen[Any], action_id: str) -> list[str]:
    """The keys that run an action where the focus is; empty if it is not active there."""
    return active_keys(screen).get(action_id, [])


def active_keys(screen: Screen[Any]) -> dict[str, list[str]]:
    """The keys that work where the focus is, by the id of their action."""
    return {name: [active.binding.key for active in found] for name, found in active_bindings(screen).items()}
