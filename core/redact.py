"""Hides what looks like a password or token before a command or an environment is shown, exported or sent.

It looks at names first (`--token X`, `API_KEY=X`, `X-Api-Key: X`), then for the formats of well-known tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

HIDDEN = "***"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Value = TypeVar("Value")

# The programs of `program_secrets.RULES`: full names, and prefixes of families of names.
_PROGRAMS = frozenset(
    "az bcp buildah crane curl docker helm http https ipmitool isql jarsigner keytool lftp mycli nerdctl openssl oras"
    " podman rar rdesktop redis-cli rpcclient skopeo smbclient sqlcmd sshpass tsql unrar unzip valkey-cli xh xhs"
    " zip".split()
)
_FAMILIES = ("7z", "ldap", "mariadb", "mongo", "mosquitto_", "mysql", "wfreerdp", "xfreerdp")
_STEMS = ("pass", "pwd", "token", "secret", "key", "cred", "auth", "bearer")
_SECRET_ENDINGS = ("password", "passwords", "passwd", "passphrase", "secret", "secrets", "apikey")
_SECRET_WORDS = ("token", "authtoken", "accesstoken", "credential", "credentials", "creds", "bearer")
_SECRET_LAST_WORDS = ("auth", "authorization")
_SECRET_KEY_PREFIXES = ("api", "access", "private", "session", "auth", "encryption", "signing", "account")
_SECRET_PASS_PREFIXES = ("db", "user")
_INNOCENT_FIRST_WORDS = ("no", "use", "require", "skip", "ask")
_INNOCENT_LAST_WORDS = """
    backend budget count counts dir enabled expiry field file format host len length limit method mode name names
    path policy port prompt provider required scheme server size sock stdin timeout ttl type types uri url
"""
_INNOCENT_BEFORE_TOKEN = "bos cls eos mask max min new num pad per sep special unk"

_WORD = r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+"
_NAME = r"[-+~]*[A-Za-z_][\w.-]*"
_ASSIGNMENT = rf"({_NAME})=(?!$)"
_SECRET_NAME = rf"""(?<![\w.+~-])(?:({_NAME})(?:\s*=(?!=)\s*|["']\s*:\s*|:\s+)|(--?[A-Za-z][\w-]*)\s+(?!-))"""
# Possessive: otherwise a long quoted text would take hundreds of bytes of memory per character.
_QUOTED = r"""(?:"(?:[^"\\]|\\.)*+"?|'[^']*+'?)"""
_SCHEME = r"(?i:(?:basic|bearer|digest|negotiate)\s+)?"
_SCRIPT_VALUE = rf"""{_QUOTED}(?:{_QUOTED}|[^\s;&|"',)}}\]])*+|{_SCHEME}(?:[^\s;&|"'\\]|\\.)++"""
_URL_PASSWORD = r"(://[^\s/:@]*:)[^\s/]+(?=@)"
_BEARER = r"(?i)(\bbearer\s+)[^\s\"',;]+"
_SHORTEST_TOKEN = 12
_TOKEN_SHAPES = (
    r"gh[opusr]_[A-Za-z0-9]{16,}",
    r"github_pat_\w{16,}",
    r"glpat-[\w-]{16,}",
    r"sk-(?=[A-Za-z]*[0-9])[A-Za-z0-9]{16,}",
    r"sk-(?:admin|ant|or|proj|svcacct)-[\w-]{16,}",
    r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"A[KS]IA[A-Z0-9]{16}",
    r"AIza[\w-]{35}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"hf_[A-Za-z0-9]{16,}",
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-AgE[\w-]{16,}",
    r"eyJ[\w-]{5,}\.[\w-]{2,}\.[\w-]*",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*)",
)


def redact_command(command: Sequence[str], extra_patterns: Iterable[str] = ()) -> list[str]:
    """Return the arguments with every value that looks secret replaced by `***`."""
    patterns = tuple(extra_patterns)
    shown: list[str] = []
    value_follows = False
    secret_starts = _program_secrets(command)
    for position, argument in enumerate(command):
        if position in secret_starts:
            begin = secret_starts[position]
            shown.append(argument[:begin] + HIDDEN)
            value_follows = False
            continue
        if value_follows and not _is_option(argument):
            shown.append(HIDDEN)
            value_follows = False
            continue
        is_script = len(command) == 1 or (position > 0 and _takes_script(command[position - 1]))
        shown.append(redact_text(argument, patterns) if is_script else _redact_argument(argument, patterns))
        value_follows = argument.startswith("-") and is_secret(argument) and re.fullmatch(_NAME, argument) is not None
    return shown


def redact_mapping(mapping: Mapping[str, Value], extra_patterns: Iterable[str] = ()) -> dict[str, Value | str]:
    """Return the mapping with the values of secret keys hidden, and tokens in other values replaced."""
    patterns = tuple(extra_patterns)

    def shown(key: str, value: Value) -> Value | str:
        if value is not None and value != "" and is_secret(key):
            return HIDDEN
        return redact_text(value, patterns) if isinstance(value, str) else value

    return {key: shown(key, value) for key, value in mapping.items()}


def redact_text(text: str, extra_patterns: Iterable[str] = ()) -> str:
    """Return a shell command line, a header or any text with everything that looks secret replaced by `***`."""
    if _has_secret_stem(text):
        text = re.sub(_BEARER, rf"\1{HIDDEN}", _hide_named_values(text))
    if "://" in text:
        text = re.sub(_URL_PASSWORD, rf"\1{HIDDEN}", text)
    if len(text) >= _SHORTEST_TOKEN:
        text = re.sub(rf"(?<![A-Za-z0-9])(?:{'|'.join(_TOKEN_SHAPES)})", HIDDEN, text)
    if names_program(text):
        from jobtop.core.program_secrets import hide_in_script

        text = hide_in_script(text, HIDDEN)
    for pattern in extra_patterns:
        from jobtop.core.patterns import replace_matches

        text = replace_matches(pattern, HIDDEN, text)
    return text


def is_secret(name: str) -> bool:
    """Return whether an option, variable or header of this name has a secret value: `--api-key`, not `--tokenizer`."""
    if not _has_secret_stem(name):
        return False
    words = [word.lower() for word in re.findall(_WORD, name)]
    if words[0] in _INNOCENT_FIRST_WORDS or words[-1] in _INNOCENT_LAST_WORDS.split():
        return False
    if words[-1] in _SECRET_LAST_WORDS or (words[-1] == "pwd" and len(words) > 1):
        return True
    return any(
        word.endswith(_SECRET_ENDINGS)
        or (word in _SECRET_WORDS and before not in _INNOCENT_BEFORE_TOKEN.split())
        or (word == "key" and before in _SECRET_KEY_PREFIXES)
        or (word == "pass" and before in _SECRET_PASS_PREFIXES)
        for before, word in zip(["", *words], words, strict=False)
    )


def _program_secrets(command: Sequence[str]) -> dict[int, int]:
    """Return the arguments in which known programs take passwords, each with the offset of the password."""
    if not any(map(names_program, command)):
        return {}
    from jobtop.core.program_secrets import secret_positions

    return secret_positions(command)


def names_program(text: str) -> bool:
    """Return whether a text may name a program of the table; a cheap test that is false for most commands."""
    for word in text.split():
        name = word.rpartition("/")[2].strip("\"'`$();&|")
        if name in _PROGRAMS or name.startswith(_FAMILIES):
            return True
    return False


def _redact_argument(argument: str, patterns: tuple[str, ...]) -> str:
    """Redact one argument: in `PASSWORD=a b` the value is all of the rest, unlike in a shell command line."""
    start = 0 if _has_secret_stem(argument) else len(argument)
    while match := re.compile(_ASSIGNMENT).match(argument, start):
        if is_secret(match[1]):
            return redact_text(argument[:start], patterns) + f"{match[1]}={HIDDEN}"
        start = match.end()
    return redact_text(argument, patterns)


def _hide_named_values(text: str) -> str:
    pieces: list[str] = []
    done = 0
    for place in re.finditer(_SECRET_NAME, text):
        if place.start() >= done and is_secret(place[1] or place[2]):
            value = re.compile(_SCRIPT_VALUE).match(text, place.end())
            if value is not None:
                pieces += text[done : place.end()], HIDDEN
                done = value.end()
    return "".join(pieces) + text[done:]


def _has_secret_stem(text: str) -> bool:
    """Return whether a text contains part of a secret word; a cheap test that avoids compiling most patterns."""
    lowered = text.lower()
    return any(stem in lowered for stem in _STEMS)


def _takes_script(option: str) -> bool:
    """Return whether a shell command line follows the option: `-c`, `-lc`, …"""
    return option.endswith("c") and option.startswith("-") and not option.startswith("--")


def _is_option(argument: str) -> bool:
    """Return whether an argument is `--anything` or `-x`; a token may itself start with a single dash."""
    return argument.startswith("--") or (len(argument) == 2 and argument[0] == "-")
