"""Finds passwords in options that cannot be recognised by their names: `curl -u me:PW`, `mysql -pPW`, `sshpass -p PW`.

Only for the programs in the table: for another program, `-p 8080` may be a port.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobtop.core.record import record

ANY_FORM, JOINED, LOGIN = "whole", "joined", "login"
_CURL_FLAGS = "#0-46GILNOSafgijklnqsv"  # flags without a value, which may precede another letter


@record
class SecretOption:
    """An option of some programs: its pattern, and which part of its value is secret.

    ANY_FORM: the whole value, joined to the option or in the next word. JOINED: only if it is joined. LOGIN: as
    ANY_FORM, but only after the word `login`. Any other text separates a name from the secret that follows it.
    """

    programs: str
    option: str
    secret: str = ANY_FORM


RULES = (
    SecretOption("curl", rf"-[{_CURL_FLAGS}]*[uU]|--(?:proxy-)?user(?:=|$)", ":"),
    SecretOption("curl", r"-E|--(?:proxy-)?cert(?:=|$)", ":"),
    SecretOption("curl", r"--(?:proxy-)?pass(?:=|$)"),
    SecretOption("mysql.*|mariadb.*|mycli", r"-p(?=.)", JOINED),
    SecretOption("sshpass|mongo.*|rdesktop", r"-p"),
    SecretOption("ssh|scp|sftp|rsync", r"(?!)"),  # started by sshpass: their -p is a port
    SecretOption("docker|podman|nerdctl|buildah|skopeo|helm|oras|crane|az", r"-p", LOGIN),
    SecretOption("redis-cli|valkey-cli", r"-a|--pass(?:=|$)"),
    SecretOption("ldap.*", r"-w"),
    SecretOption("sqlcmd|bcp|isql|tsql|ipmitool|mosquitto_.*|zip|unzip", r"-P"),
    SecretOption("7z.*|rar|unrar", r"-h?p(?=.)", JOINED),
    SecretOption("lftp", r"-u", ","),
    SecretOption("smbclient|rpcclient", r"-U", "%"),
    SecretOption("https?|xhs?", r"-a", ":"),
    SecretOption("openssl", r"pass:", JOINED),
    SecretOption("keytool|jarsigner", r"-(?:src|dest)?(?:store|key)pass$"),
    SecretOption("[wx]freerdp.*", r"/p:", JOINED),
)
_SHELL_WORD = r"""(?:[^\s;&|()<>"'\\]|\\.|"(?:[^"\\]|\\.)*+"?|'[^']*+'?)++|[;&|()\n]"""
_SEPARATORS = frozenset(";&|()\n")


def secret_positions(words: Sequence[str]) -> dict[int, int]:
    """Return the positions of words that contain a secret, each with the offset at which the secret begins."""
    found: dict[int, int] = {}
    rules: list[SecretOption] = []
    has_login = False
    pending_rule: SecretOption | None = None
    for position, word in enumerate(words):
        if word in _SEPARATORS:
            rules, has_login, pending_rule = [], False, None
            continue
        if pending_rule is not None and not _is_option(word):
            _add_secret(found, position, word, 0, pending_rule)
        pending_rule = None
        if program_rules := _rules_of(word):
            rules, has_login = program_rules, False
            continue
        has_login |= word == "login"
        for rule in rules:
            option = re.match(rule.option, word)
            if option is None or (rule.secret == LOGIN and not has_login):
                continue
            if option.end() < len(word):
                _add_secret(found, position, word, option.end(), rule)
            elif rule.secret != JOINED:
                pending_rule = rule
            break
    return found


def hide_in_script(text: str, hidden: str) -> str:
    """Return a shell command line with such passwords replaced."""
    tokens = [*re.finditer(_SHELL_WORD, text)]
    secrets = secret_positions([_unquoted(token[0]) for token in tokens])
    pieces: list[str] = []
    done = 0
    for position, token in enumerate(tokens):
        word, inner = token[0], _unquoted(token[0])
        quote = word[0] if inner != word else ""
        if position in secrets:
            shown = inner[: secrets[position]] + hidden
        elif quote and " " in inner:  # a script in a script: sh -c '…'
            shown = hide_in_script(inner, hidden)
        else:
            continue
        pieces += text[done : token.start()], quote, shown, quote
        done = token.end()
    return "".join(pieces) + text[done:]


def _add_secret(found: dict[int, int], position: int, word: str, begin: int, rule: SecretOption) -> None:
    if rule.secret not in (ANY_FORM, JOINED, LOGIN):
        separator = word.find(rule.secret, begin)
        begin = len(word) if separator < 0 else separator + 1
    if begin < len(word):
        found[position] = begin


def _rules_of(word: str) -> list[SecretOption]:
    """Return the rules for the program that a word names; empty if it names none of the table."""
    name = word.rpartition("/")[2]
    return [rule for rule in RULES if re.fullmatch(rule.programs, name)]


def _unquoted(word: str) -> str:
    """Return a word without surrounding quotes."""
    return word[1:-1] if len(word) > 1 and word[0] in "\"'" and word[-1] == word[0] else word


def _is_option(word: str) -> bool:
    return word.startswith("--") or (len(word) == 2 and word[0] == "-")
