"""Secrets are hidden from what is shown; ordinary arguments are left alone."""

import re
import time
import tracemalloc

import pytest

from jobtop.core.program_secrets import RULES
from jobtop.core.redact import HIDDEN, is_secret, names_program, redact_command, redact_mapping, redact_text

SECRET = "s3cr3t-Value"
GITHUB = "ghp_" + "a1B2" * 9
SECRET_OPTIONS = """
    --password --passwd --token --secret --api-key --apikey --api_key --access-key --private-key --credential
    --credentials --auth --bearer --session-key --PASSWORD --Api-Key --hf-token --db-password -token --passphrase
    --authToken --clientSecret --APIKey --password2 -Dpassword -Ddb.password --user-password
"""
SECRET_VARIABLES = """
    TOKEN HF_TOKEN password DB_PASSWORD AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID SECRET_KEY MYSQL_PWD DB_PASS
    OPENAI_API_KEY WANDB_API_KEY GITHUB_TOKEN app.auth.token +trainer.api_key PRIVATE_KEY BASIC_AUTH
"""
TOKENS = [
    GITHUB,
    "gho_" + "a1B2" * 9,
    "github_pat_" + "11ABCDEFG0" * 4,
    "glpat-" + "abcd-1234_EFGH567890",
    "sk-" + "abcd1234" * 6,
    "sk-proj-" + "Ab3_" * 4 + "cdEF0123456789abcdXY-z",
    "sk-ant-api03-" + "Zx9" * 20 + "-_AA",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ASIA" + "IOSFODNN7EXAMPLE",
    "AIza" + "B" * 35,
    "xoxb-" + "123456789012-abcdef",
    "xoxp-" + "123456789012-abcdef",
    "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
    "sk_live_" + "abcdefghij0123456789",
    "npm_" + "a" * 36,
    "pypi-AgE" + "IabcdEfghiJklmnO" * 2,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl-_",
]


@pytest.mark.parametrize("name", SECRET_OPTIONS.split())
def test_the_value_of_a_secret_option_is_hidden_in_both_spellings(name: str) -> None:
    assert redact_command(["prog", f"{name}={SECRET}", "x"]) == ["prog", f"{name}={HIDDEN}", "x"]
    assert redact_command(["prog", name, SECRET, "x"]) == ["prog", name, HIDDEN, "x"]


@pytest.mark.parametrize("key", SECRET_VARIABLES.split())
def test_the_value_of_a_secret_variable_is_hidden(key: str) -> None:
    assert redact_command(["env", f"{key}={SECRET}", "prog"]) == ["env", f"{key}={HIDDEN}", "prog"]
    assert redact_mapping({key: SECRET}) == {key: HIDDEN}


@pytest.mark.parametrize("token", TOKENS)
def test_a_well_known_token_is_hidden_wherever_it_stands(token: str) -> None:
    assert redact_command(["prog", token]) == ["prog", HIDDEN]
    assert redact_command(["prog", f"--data={token}"]) == ["prog", f"--data={HIDDEN}"]
    assert redact_command(["prog", f"a/{token}/b"]) == ["prog", f"a/{HIDDEN}/b"]
    assert redact_mapping({"harmless": f"x {token} y"}) == {"harmless": f"x {HIDDEN} y"}


def test_a_private_key_is_hidden_to_its_end() -> None:
    pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----"
    assert redact_command(["prog", f"x\n{pem}"]) == ["prog", f"x\n{HIDDEN}"]


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("https://me:hunter2@host/path", "https://me:***@host/path"),
        ("postgres://me:p@ss:w#rd@db:5432/x", "postgres://me:***@db:5432/x"),
        ("redis://:hunter2@host", "redis://:***@host"),
        ("--url=https://me:hunter2@host", "--url=https://me:***@host"),
        ("https://host/x?token=abc&page=2", "https://host/x?token=***&page=2"),
        ("Bearer abc.def", "Bearer ***"),
        ("Authorization: Basic abc==", "Authorization: ***"),
        ("X-Api-Key: abc", "X-Api-Key: ***"),
        ('{"user": "me", "password": "a \\"b", "n": 1}', '{"user": "me", "password": ***, "n": 1}'),
        ("--env=TOKEN=abc", "--env=TOKEN=***"),
        ("PASSWORD=two words", "PASSWORD=***"),
        ("--env=PASSWORD=two words", "--env=PASSWORD=***"),
    ],
)
def test_a_secret_inside_an_argument_is_hidden_and_the_rest_kept(argument: str, shown: str) -> None:
    assert redact_command(["prog", argument]) == ["prog", shown]


@pytest.mark.parametrize(
    "script",
    [
        "TOKEN=abc ./prog --fast",
        "TOKEN='a b' ./prog --fast",
        "TOKEN=\"a b\"'c' ./prog --fast",
        "TOKEN=abc",
    ],
)
@pytest.mark.parametrize("prefix", [[], ["sh", "-c"], ["bash", "-lc"]])
def test_in_a_line_of_shell_only_the_word_is_hidden(script: str, prefix: list[str]) -> None:
    rest = " ./prog --fast" if "prog" in script else ""
    assert redact_command([*prefix, script]) == [*prefix, f"TOKEN=***{rest}"]


def test_options_inside_a_line_of_shell_are_hidden_too() -> None:
    script = 'curl --token abc -H "X-Api-Key: abc" --auth --verbose; login --password "a b" me'
    shown = 'curl --token *** -H "X-Api-Key: ***" --auth --verbose; login --password *** me'
    assert redact_command(["sh", "-c", script]) == ["sh", "-c", shown]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("curl -u me:pw https://h", "curl -u me:*** https://h"),
        ("curl -ume:pw", "curl -ume:***"),
        ("curl -sSfu me:pw x", "curl -sSfu me:*** x"),
        ("curl --user me:pw x", "curl --user me:*** x"),
        ("curl --proxy-user=me:pw", "curl --proxy-user=me:***"),
        ("/usr/bin/curl -U me:p:w x", "/usr/bin/curl -U me:*** x"),
        ("mysql -uroot -ppw db", "mysql -uroot -p*** db"),
        ("mysqldump -h h -ppw --all", "mysqldump -h h -p*** --all"),
        ("mariadb-admin -ppw", "mariadb-admin -p***"),
        ("sudo nice mysqladmin -ppw", "sudo nice mysqladmin -p***"),
        ("docker exec db mysql -ppw", "docker exec db mysql -p***"),
        ("docker login -u me -p pw reg", "docker login -u me -p *** reg"),
        ("sshpass -p pw ssh -p 22 h", "sshpass -p *** ssh -p 22 h"),
        ("redis-cli -a pw ping", "redis-cli -a *** ping"),
        ("mongosh -p pw db", "mongosh -p *** db"),
        ("ldapsearch -w pw -b x", "ldapsearch -w *** -b x"),
        ("sqlcmd -P pw", "sqlcmd -P ***"),
        ("zip -P pw a.zip b", "zip -P *** a.zip b"),
        ("7z x -ppw a.7z", "7z x -p*** a.7z"),
        ("lftp -u me,pw h", "lftp -u me,*** h"),
        ("smbclient -U me%pw x", "smbclient -U me%*** x"),
        ("http -a me:pw x", "http -a me:*** x"),
        ("openssl enc -pass pass:pw -in x", "openssl enc -pass pass:*** -in x"),
        ("keytool -storepass pw -v", "keytool -storepass *** -v"),
        ("xfreerdp /u:me /p:pw", "xfreerdp /u:me /p:***"),
        ("wget --http-password=pw --password pw x", "wget --http-password=*** --password *** x"),
        ("env PGPASSWORD=pw psql -p 5432", "env PGPASSWORD=*** psql -p 5432"),
    ],
)
def test_the_password_in_an_option_of_a_well_known_program_is_hidden(command: str, shown: str) -> None:
    assert redact_command(command.split(" ")) == shown.split(" ")
    assert redact_command(["sh", "-c", f"cd x; {command} | grep -p 80"]) == ["sh", "-c", f"cd x; {shown} | grep -p 80"]
    assert redact_command([f"bash -c '{command}'"]) == [f"bash -c '{shown}'"]


@pytest.mark.parametrize(
    "script", ["mysql -p'p w' x", "mysql '-pp w' x", 'curl -u "me:p w" x', "curl -u 'me:p w", 'mysql -p"a\'b" x']
)
def test_a_quoted_password_is_hidden_as_a_whole(script: str) -> None:
    (shown,) = redact_command([script])
    assert HIDDEN in shown
    assert not {"w", "a'b"} & set(re.findall(r"[\w']+", shown))


def test_every_program_with_rules_is_recognised() -> None:
    names = [name for rule in RULES for name in rule.programs.split("|") if "ssh" not in rule.programs]
    plain = [name.replace(".*", "x").replace("[wx]", "x").replace("s?", "") for name in names]
    assert [name for name in plain if not names_program(f"/usr/bin/{name}")] == []
    assert names_program("cd x; 'sshpass' -p pw")


def test_an_option_after_a_secret_option_is_not_its_value() -> None:
    assert redact_command(["prog", "--token", "--verbose", "-v", "x"]) == ["prog", "--token", "--verbose", "-v", "x"]
    assert redact_command(["prog", "--token", "-v", "x"]) == ["prog", "--token", "-v", "x"]


def test_a_value_that_starts_with_a_dash_is_still_hidden() -> None:
    assert redact_command(["prog", "--token", "-abcDEF0123"]) == ["prog", "--token", HIDDEN]


def test_two_secret_options_in_a_row_hide_the_value_of_the_second() -> None:
    assert redact_command(["prog", "--token", "--password", "x", "y"]) == ["prog", "--token", "--password", HIDDEN, "y"]


@pytest.mark.parametrize(
    "command",
    [
        "prog --tokenizer bert",
        "prog --max-tokens 512",
        "prog --max-token 512",
        "prog --max_new_tokens=512",
        "prog --author me",
        "prog --secretary x",
        "prog token_count=3",
        "prog --keyboard de",
        "prog --key name",
        "prog --sort-key=name",
        "prog --pad-token <pad>",
        "prog --eos_token_id=2",
        "prog --no-auth file",
        "prog --auth-type basic",
        "prog --password-stdin me",
        "prog --token-file /run/x",
        "prog --passes 3",
        "ffmpeg -pass 1 out.mp4",
        "apptainer exec --pwd /data img",
        "gh auth login",
        "prog token secret password",
        "prog sk-learn-linear-regression-2024-01-02",
        "prog task-0123456789abcdef0123",
        "prog disk-0123456789abcdef0123",
        "prog hf_model_name",
        "prog xoxo",
        "prog http://auth:8080/x",
        "prog http://host:8080/me@home",
        "prog user@host:/path",
        "prog https://me@host/path",
        "prog eyJust.a.word",
        "prog AKIA",
        "prog --lr=0.1 a=b=c x==y",
        "prog --token=",
        "prog -- -x --",
        "prog -p 8080",
        "ssh -p 22 host",
        "docker run -p 8080:80 -u 1000:1000 img",
        "psql -p 5432 -U me db",
        "nc -u host:80",
        "mysql -p db",
        "mysql -P 3306 -u me db",
        "curl -u me https://h:80/x",
        "curl --user-agent a:b x",
        "curl -o out:put http://h",
        "mkdir -p curl/mysql",
        "python library.py -p 80 -a x:y",
    ],
)
def test_innocent_arguments_are_left_alone(command: str) -> None:
    assert redact_command(command.split(" ")) == command.split(" ")


@pytest.mark.parametrize("key", ["PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY", "tokens", "KEYMAP", "LS_COLORS", "_"])
def test_innocent_variables_are_left_alone(key: str) -> None:
    assert redact_mapping({key: "/some/value"}) == {key: "/some/value"}


def test_empty_absent_and_typed_values_of_a_mapping_keep_their_kind() -> None:
    values = {"lr": 0.1, "token": None, "secret": "", "on": True}
    assert redact_mapping(values) == values
    assert redact_mapping({"password": 1234}) == {"password": HIDDEN}


def test_patterns_of_the_user_are_hidden_everywhere() -> None:
    patterns = [r"corp-[0-9]+", r"x*"]
    assert redact_command(["prog", "a corp-12 b", "--id=corp-3"], patterns) == ["prog", "a *** b", f"--id={HIDDEN}"]
    assert redact_command(["prog", "corp-1=TOKEN=abc"], patterns) == ["prog", "***=TOKEN=***"]
    assert redact_mapping({"id": "corp-12"}, patterns) == {"id": HIDDEN}
    assert redact_text("xx corp-12", patterns) == "*** ***"


def test_redacting_twice_changes_nothing() -> None:
    once = redact_command(["prog", "--token", SECRET, "A_KEY=1", "https://u:p@h/", "Bearer abc", f"TOKEN={SECRET}"])
    assert redact_command(once) == once
    assert not any(re.search(SECRET, argument) for argument in once)


@pytest.mark.parametrize("name", ["", "-", "--", "auth-", "鍵"])
def test_odd_names_are_judged_without_error(name: str) -> None:
    assert is_secret(name) is (name == "auth-")


@pytest.mark.parametrize(
    "unit",
    [
        "a=",
        "+",
        " ",
        "key=",
        "key-",
        "sk-a1-",
        "sk-proj-",
        "-",
        "eyJabcdef.",
        "://a:",
        "'",
        '"\\',
        "token ",
        "Bearer ",
        "curl -u ",
        "mysql '",
        '-p"',
        "curl (",
        "\\",
    ],
)
def test_a_huge_argument_takes_time_in_proportion(unit: str) -> None:
    huge = unit * (50_000 // len(unit)) + "token"
    started = time.process_time()
    redact_command(["prog", huge])
    redact_command([huge])
    assert time.process_time() - started < 3


@pytest.mark.parametrize("text", ['TOKEN="' + "x" * 300_000, 'curl -u "' + "x" * 300_000, "TOKEN=" + "x" * 300_000])
def test_a_huge_value_takes_memory_in_proportion(text: str) -> None:
    redact_command(["TOKEN=x; curl -u x"])
    tracemalloc.start()
    redact_command([text])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 32 * len(text)
