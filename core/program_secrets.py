"""Passwords in options whose names do not say so, by program: `curl -u me:PW`, `mysql -pPW`, `sshpass -p PW`.

Only for the programs in the table: `-p 8080` of another program is a port.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobtop.core.record import record

WHOLE, JOINED, LOGIN = "whole", "joined", "login"
_CURL_FLAGS = "#0-46GILNOSafgijklnqsv"  # those without a value, which may stand before another letter


@record
class Rule:
    """One option: what it looks like, and which part of its value is secret.

    WHOLE: all of it, joined to the option or in the next word; JOINED: only if it is joined; LOGIN: as WHOLE, behind
    the word `login`; anything else is what stands between a name and the secret.
    """

    programs: str
    option: str
    secret: str = WHOLE


RULES = (
    Rule("curl", rf"-[{_CURL_FLAGS}]*[uU]|--(?:proxy-)?user(?:=|$)", ":"),
    Rule("curl", r"-E|--(?:proxy-)?cert(?:=|$)", ":"),
    Rule("curl", r"--(?:proxy-)?pass(?:=|$)"),
    Rule("mysql.*|mariadb.*|mycli", r"-p(?=.)", JOINED),
    Rule("sshpass|mongo.*|rdesktop", r"-p"),
    Rule("ssh|scp|sftp|rsync", r"(?!)"),  # what sshpass starts: their -p is a port
    Rule("docker|podman|nerdctl|buildah|skopeo|helm|oras|crane|az", r"-p", LOGIN),
    Rule("redis-cli|valkey-cli", r"-a|--pass(?:=|$)"),
    Rule("ldap.*", r"-w"),
    Rule("sqlcmd|bcp|isql|tsql|ipmitool|mosquitto_.*|zip|unzip", r"-P"),
    Rule("7z.*|rar|unrar", r"-h?p(?=.)", JOINED),
    Rule("lftp", r"-u", ","),
    Rule("smbclient|rpcclient", r"-U", "%"),
    Rule("https?|xhs?", r"-a", ":"),
    Rule("openssl", r"pass:", JOINED),
    Rule("keytool|jarsigner", r"-(?:src|dest)?(?:store|key)pass$"),
    Rule("[wx]freerdp.*", r"/p:", JOINED),
)
_SHELL_WORD = r"""(?:[^\s;&|()<>"'\\]|\\.|"(?:[^"\\]|\\.)*+"?|'[^']*+'?)++|[;&|()\n]"""
_SEPARATORS = frozenset(";&|()\n")


def secret_places(words: Sequence[str]) -> dict[int, int]:
    """The words that hold a secret, each with where it begins in the word."""
    found: dict[int, int] = {}
    rules: list[Rule] = []
    has_login = False
    awaited: Rule | None = None
    for place, word in enumerate(words):
        if word in _SEPARATORS:
            rules, has_login, awaited = [], False, None
            continue
        if awaited is not None and not _is_option(word):
            _note(found, place, word, 0, awaited)
        awaited = None
        if own := _rules_of(word):
            rules, has_login = own, False
            continue
        has_login |= word == "login"
        for rule in rules:
            option = re.match(rule.option, word)
            if option is None or (rule.secret == LOGIN and not has_login):
                continue
            if option.end() < len(word):
                _note(found, place, word, option.end(), rule)
            elif rule.secret != JOINED:
                awaited = rule
            break
    return found


def hide_in_script(text: str, hidden: str) -> str:
    """A line of shell with such passwords replaced."""
    tokens = [*re.finditer(_SHELL_WORD, text)]
    secrets = secret_places([_unquoted(token[0]) for token in tokens])
    pieces: list[str] = []
    done = 0
    for place, token in enumerate(tokens):
        word, inner = token[0], _unquoted(token[0])
        quote = word[0] if inner != word else ""
        if place in secrets:
            shown = inner[: secrets[place]] + hidden
        elif quote and " " in inner:  # a script in a script: sh -c '…'
            shown = hide_in_script(inner, hidden)
        else:
            continue
        pieces += text[done : token.start()], quote, shown, quote
        done = token.end()
    return "".join(pieces) + text[done:]


def _note(found: dict[int, int], place: int, word: str, begin: int, rule: Rule) -> None:
    if rule.secret not in (WHOLE, JOINED, LOGIN):
        separator = word.find(rule.secret, begin)
        begin = len(word) if separator < 0 else separator + 1
    if begin < len(word):
        found[place] = begin


def _rules_of(word: str) -> list[Rule]:
    """The rules of a program, if that is what a word names."""
    name = word.rpartition("/")[2]
    return [rule for rule in RULES if re.fullmatch(rule.programs, name)]


def _unquoted(word: str) -> str:
    """A word without the quotes around it."""
    return word[1:-1] if len(word) > 1 and word[0] in "\"'" and word[-1] == word[0] else word


def _is_option(word: str) -> bool:
    return word.startswith("--") or (len(word) == 2 and word[0] == "-")
