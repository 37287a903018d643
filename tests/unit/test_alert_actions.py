"""Messages reach real servers and programs, within a total time, and no text in them becomes anything but text."""

import base64
import email
import email.policy
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from endpoints import MailServer, WebEndpoint, mail_server, web_endpoint

from jobtop.core.alerts.action_tables import find_action
from jobtop.core.alerts.actions import desktop
from jobtop.core.alerts.actions.addresses import shown_word
from jobtop.core.alerts.actions.delivery import DeliveryFailed
from jobtop.core.alerts.actions.payloads import check_template
from jobtop.core.alerts.actions.senders import MODULES, send
from jobtop.core.alerts.message_text import from_json, plain, to_json
from jobtop.core.alerts.model import Action, Message, Severity, State
from jobtop.core.alerts.secrets import Secrets
from jobtop.core.record import replace
from records import HOSTILE_TEXTS
from support import require, wait_for

SECRET = "T0KEN-s3cr3t-value"
HOSTILE = {**HOSTILE_TEXTS, "json": '"}],{"x":1', "nul": "a\0b", "slack": "<!channel> <https://x|y> & `z`"}
MESSAGE = Message(
    key="key-1",
    severity=Severity.WARNING,
    state=State.FIRING,
    rule="nearly full",
    title="train (3f8a21b2): nearly full",
    text="memory 92.0 % of its limit",
    host="atlas",
    at=1_800_000_000.0,
    table=(("job", "train (3f8a21b2)"), ("value", "92.0 %")),
    consequence="It reaches its limit in 6m00s.",
    command="jobtop stop 3f8a21b2",
    look="jobtop show 3f8a21b2",
    job_ids=("3f8a21b2-0000-4000-8000-000000000000",),
    job_names=("train",),
    value=0.92,
    level=0.9,
    values={"mem.used": 7.4},
)


pytestmark = pytest.mark.usefixtures("no_proxy")


def hostile_message(text: str) -> Message:
    """A message with this text wherever text from outside can be."""
    return replace(
        MESSAGE, rule=text, title=text, text=text, host=text, table=((text, text),), job_names=(text,), consequence=text
    )


def deliver(
    kind: str,
    message: Message = MESSAGE,
    log: str = "/nonexistent/log",
    environ: dict[str, str] | None = None,
    **fields: Any,
) -> None:
    surroundings = {"PATH": os.environ["PATH"]} if environ is None else environ
    send(message, Action("test", kind, fields, "/etc/jobtop/config.toml"), Secrets(surroundings), log)


def failure(kind: str, **fields: Any) -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as caught:
        deliver(kind, **fields)
    return caught.value


def test_a_webhook_gets_the_message_as_json_with_its_key(web: WebEndpoint) -> None:
    deliver("webhook", url=web.url("/in?x=1"), headers={"X-Team": "ml"})
    path, headers, content = web.requests[0]
    assert path == "/in?x=1"
    assert (headers["Idempotency-Key"], headers["X-Team"]) == ("key-1", "ml")
    assert content == to_json(MESSAGE)
    assert from_json(content) == MESSAGE


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("kind", ["webhook", "slack", "ntfy"])
def test_no_text_changes_the_structure_of_json(web: WebEndpoint, kind: str, name: str) -> None:
    template = '{"a": {"b": ["{title}", "x {text} {table}"]}, "n": "{value}", "rows": "{table}"}'
    fields: dict[str, Any] = {"template": template} if kind == "webhook" else {}
    deliver(kind, MESSAGE, url=web.url("/topic"), **fields)
    deliver(kind, hostile_message(HOSTILE[name]), url=web.url("/topic"), **fields)
    (_, _, good), (_, _, bad) = web.requests
    assert shape(good) == shape(bad)
    texts = json.dumps(bad, ensure_ascii=False)
    assert "\x1b" not in texts
    assert "\\u001b" not in texts
    assert not any(0xD800 <= ord(letter) < 0xE000 for letter in texts)
    if kind == "slack":
        assert "<" not in bad["text"]


def shape(value: object) -> object:
    """The structure of JSON without its texts; lists that have a length by the message have it here too."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shape(part) for part in value][:1]
    return type(value)


def test_a_template_takes_values_with_their_types(web: WebEndpoint) -> None:
    deliver("webhook", url=web.url(), template={"v": "{value}", "t": "{severity}: {text}", "ids": "{job_ids}"})
    assert web.requests[0][2] == {
        "v": 0.92,
        "t": "warning: memory 92.0 % of its limit",
        "ids": list(MESSAGE.job_ids),
    }
    assert '"text"' in (check_template('{"a": "{txt}"}') or "")
    assert "JSON" in (check_template('{"a": ') or "")
    assert check_template('{"a": "{body}"}') is None


def test_ntfy_gets_the_topic_of_the_address(web: WebEndpoint) -> None:
    deliver("ntfy", url=web.url("/ntfy/my-topic"), token="abc")
    path, headers, content = web.requests[0]
    assert (path, content["topic"], content["priority"]) == ("/ntfy/", "my-topic", 4)
    assert headers["Authorization"] == "Bearer abc"


def test_a_user_and_a_password_in_an_address_become_a_header(web: WebEndpoint) -> None:
    deliver("webhook", url=f"http://ada:a%40b@127.0.0.1:{web.port}/in")
    path, headers, _ = web.requests[0]
    assert path == "/in"
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"ada:a@b"


def test_a_server_that_never_finishes_ends_at_the_total_time(web: WebEndpoint) -> None:
    for behaviour in ("hang", "drip"):
        web.behaviour = behaviour
        begin = time.monotonic()
        reason = failure("webhook", url=web.url(), timeout=0.2).reason
        assert "within" in reason
        assert time.monotonic() - begin < 5  # the socket itself would wait for ever for `drip`


def test_an_answer_says_whether_another_try_makes_sense(web: WebEndpoint) -> None:
    web.body = f"invalid_payload \x1b[31m {SECRET}"
    for status, is_final in ((500, False), (404, False), (400, True), (429, False)):
        web.behaviour, web.headers = status, {"Retry-After": "7"}
        error = failure("webhook", url=web.url(f"/{SECRET}"))
        assert error.is_final is is_final
        assert str(status) in error.reason
        assert "invalid_payload" in error.reason
        assert SECRET not in error.reason
        assert "\x1b" not in error.reason
        assert error.wait_seconds == (7 if status == 429 else None)


def test_a_redirection_is_followed_on_the_same_host_only(web: WebEndpoint) -> None:
    web.behaviour = 307
    web.headers = {"Location": "http://localhost:1/steal"}
    assert "redirect" in failure("webhook", url=web.url(f"/{SECRET}")).reason
    web.headers = {"Location": f"{web.url('/again')}"}
    assert "redirect" in failure("webhook", url=web.url()).reason  # it goes on for ever
    assert web.requests == []


@pytest.mark.parametrize(
    "url", ["gopher://x/y", "ftp://x/y", "localhost", "http://", "http://a b/", "http://[", "http://ä/", ""]
)
def test_only_web_addresses_are_opened(url: str) -> None:
    assert "url" in failure("webhook", url=url).reason


def test_a_refused_connection_names_the_host_and_not_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    reason = failure("webhook", url=f"http://127.0.0.1:{port}/{SECRET}").reason
    assert "127.0.0.1" in reason
    assert SECRET not in reason


def test_a_header_of_a_secret_with_a_line_break_is_refused(web: WebEndpoint) -> None:
    environ = {"AUTH": f"{SECRET}\r\nX-Other: 1"}
    error = failure("webhook", url=web.url(), headers={"Authorization": "env:AUTH"}, environ=environ)
    assert "header" in error.reason
    assert SECRET not in error.reason
    assert web.requests == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_mail_has_only_its_own_headers(mail: MailServer, name: str) -> None:
    deliver("mail", hostile_message(HOSTILE[name]), server="127.0.0.1", port=mail.port, to=["ada@example.org", "b@c.d"])
    receivers, content = mail.mails[0]
    assert len(receivers) == 2
    parsed = email.message_from_bytes(content, policy=email.policy.default)
    assert {key.lower() for key in parsed} <= {
        *("subject", "from", "to", "date", "message-id", "idempotency-key", "auto-submitted"),
        *("content-type", "content-transfer-encoding", "mime-version"),
    }
    assert parsed["Idempotency-Key"] == "key-1"
    assert not parsed.defects
    assert "\x1b" not in parsed.get_content()


def test_mail_servers_that_refuse_or_drop_are_named(mail: MailServer) -> None:
    place: dict[str, Any] = {"server": "127.0.0.1", "port": mail.port, "to": "ada@example.org"}
    mail.drops = True
    assert not failure("mail", **place).is_final
    mail.drops, mail.refusal = False, "550 5.7.1 no \x1b[31m"
    assert "550" in failure("mail", **place).reason
    mail.refusal = None
    assert "address" in failure("mail", **{**place, "to": "ada@example.org\r\nBcc: x@y.z"}).reason
    assert "TLS" in failure("mail", **place, tls="starttls").reason
    deliver("mail", **place, tls="none")
    assert len(mail.mails) == 1


@pytest.fixture
def certified(tmp_path: Path) -> ssl.SSLContext:
    """The TLS settings of a server that calls itself localhost; its certificate is in `cert.pem`."""
    if shutil.which("openssl") is None:
        require("openssl", "openssl is not installed")
    files = ["-keyout", "key.pem", "-out", "cert.pem"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command = ["openssl", "req", "-x509", *curve, "-nodes", *files, *names]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    return context


def test_only_servers_with_a_trusted_certificate_get_anything(
    certified: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_endpoint(context=certified) as web, mail_server(certified) as mail, mail_server() as later:
        later.starttls = certified
        ways: list[tuple[str, dict[str, Any]]] = [
            ("webhook", {"url": f"https://localhost:{web.port}/hook"}),
            ("mail", {"server": "localhost", "port": mail.port, "to": "ada@example.org", "tls": "tls"}),
            ("mail", {"server": "localhost", "port": later.port, "to": "ada@example.org", "tls": "starttls"}),
        ]
        for kind, fields in ways:
            assert "certificate" in failure(kind, **fields).reason
        assert (len(web.requests), len(mail.mails), len(later.mails)) == (0, 0, 0)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        for kind, fields in ways:
            deliver(kind, **fields)
        assert (len(web.requests), len(mail.mails), len(later.mails)) == (1, 1, 1)


def test_a_password_goes_to_this_machine_or_through_tls_only(mail: MailServer) -> None:
    mail.password = SECRET
    environ = {"PASSWORD": SECRET}
    fields: dict[str, Any] = {"to": "ada@example.org", "user": "ada", "password": "env:PASSWORD", "tls": "none"}
    assert "tls" in failure("mail", server="mail.example.org", environ=environ, **fields).reason
    deliver("mail", server="127.0.0.1", port=mail.port, environ=environ, **fields)
    assert base64.b64decode(mail.logins[0].split()[-1]) == f"\0ada\0{SECRET}".encode()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_command_gets_values_in_its_environment_and_no_shell(tmp_path: Path, name: str) -> None:
    target = tmp_path / "out.json"
    program = "import json, os, sys; json.dump([dict(os.environ), json.load(sys.stdin)], open(sys.argv[1], 'w'))"
    deliver("command", hostile_message(HOSTILE[name]), command=[sys.executable, "-c", program, str(target)])
    environ, content = json.loads(target.read_text())
    assert environ["JOBTOP_ALERT_KEY"] == content["key"] == "key-1"
    assert (
        environ["JOBTOP_ALERT_JOB_NAME"]
        == content["job_names"][0]
        == plain(hostile_message(HOSTILE[name])).job_names[0]
    )
    assert (environ["JOBTOP_ALERT_VALUE"], environ["JOBTOP_ALERT_STATE"]) == ("0.92", "firing")
    assert "\x1b" not in "".join(environ.values())
    assert os.listdir(tmp_path) == ["out.json"]


def test_a_command_need_not_read_and_gets_signals_as_they_were(tmp_path: Path) -> None:
    """Whatever this process does on SIGPIPE, which ends verbs."""
    code = (
        "import signal, sys; from test_alert_actions import *; signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "deliver('command', replace(MESSAGE, job_ids=('x' * 100,) * 1000), command='/bin/true')\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_IGN)\n"
        "deliver('command', command=['sh', '-c', 'grep SigIgn /proc/self/status > \"$0\"', sys.argv[1]])\n"
    )
    places = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parent.parent)])
    file = tmp_path / "signals"
    done = subprocess.run([sys.executable, "-c", code, str(file)], env={**os.environ, "PYTHONPATH": places})
    assert done.returncode == 0
    assert int(file.read_text().split()[1], 16) & 1 << (signal.SIGPIPE - 1) == 0


def test_a_command_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 300 & echo $! > {tmp_path}/pid; wait"
    assert "killed" in failure("command", command=["sh", "-c", script], timeout=0.3).reason
    child = int((tmp_path / "pid").read_text())
    wait_for(lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2])
    assert "exited with 3" in failure("command", command=["sh", "-c", "exit 3"]).reason
    assert "started" in failure("command", command=["/nonexistent/program"]).reason


def test_a_notification_has_no_markup_in_its_body() -> None:
    arguments = desktop.notification("notify-send", replace(MESSAGE, title="--help", text="<b>x</b> & y"))
    assert arguments[-3:-1] == ["--", "--help"]
    assert "&lt;b&gt;x&lt;/b&gt; &amp; y" in arguments[-1]
    assert failure("desktop", environ={"PATH": "/nonexistent"}).is_final


def test_the_log_gets_one_line(tmp_path: Path) -> None:
    log = tmp_path / "jobtop.log"
    deliver("log", hostile_message("two\nlines\x1b[31m"), log=str(log))
    lines = log.read_text().splitlines()
    assert len(lines) == 1
    assert " WARNING alert: two\\nlines" in lines[0]


def test_a_bell_without_a_terminal_is_no_failure() -> None:
    code = "from test_alert_actions import deliver; deliver('bell')"
    places = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parent.parent)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": places}, start_new_session=True
    )
    assert done.returncode == 0


def test_an_unknown_type_is_refused_for_good() -> None:
    assert failure("carrier pigeon").is_final
    assert {"webhook", "mail", "command", "desktop", "log", "bell"} <= MODULES.keys()


def test_short_forms_are_actions_and_their_names_have_no_secret() -> None:
    web = find_action(
        f"webhook:https://user:{SECRET}@hooks.example.org/services/{SECRET}?x={SECRET}", {}, "config.toml"
    )
    assert web is not None
    assert (web.type, SECRET in str(web.fields["url"])) == ("webhook", True)
    assert web.name.startswith("webhook:https://hooks.example.org/…")
    assert SECRET not in web.name
    assert shown_word("webhook:https://h/a") != shown_word("webhook:https://h/b")
    assert shown_word("webhook:https://h/\ud800")
    assert shown_word("slack") == "slack"
    assert shown_word("webhook:env:NAME") == "webhook:env:NAME"
    mail = find_action("mail:ada@example.org", {}, "config.toml")
    assert mail is not None
    assert mail.fields["to"] == "ada@example.org"
    assert find_action("stop", {}, "config.toml") is None
