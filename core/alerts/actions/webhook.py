"""Sends a message to a web address as JSON: as it is, by a template, or in the shape that Slack or ntfy expects."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import closing
from functools import partial
from urllib.parse import unquote, urlsplit

from jobtop import __version__
from jobtop.core.alerts.actions.addresses import shown_address
from jobtop.core.alerts.actions.delivery import Deadline, DeliveryFailed, problem_text, text_field
from jobtop.core.alerts.actions.payloads import payload
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    from jobtop.core.alerts.model import Action, Message
    from jobtop.core.alerts.secrets import Secrets

METHODS = ("POST", "PUT", "PATCH")
MOST_BYTES = 4096  # of an answer
SHOWN_CHARACTERS = 120
MOST_REDIRECTIONS = 3
TRY_LATER = 429
# The server understood the request and refuses this message: it will refuse it again.
REFUSING = (400, 413, 422)
LONGEST_WAIT_SECONDS = 3600.0


def send(message: Message, action: Action, secrets: Secrets, timeout: float) -> None:
    """Send one message; DeliveryFailed unless the server accepts it within the time."""
    url = text_field(action, "url", secrets)
    secrets.remember(url)
    request = _request(url, message, action, secrets)
    with Deadline(timeout) as deadline:
        opener = urllib.request.build_opener(_PlainHandler(deadline), _TlsHandler(deadline), _SameHost())
        try:
            with closing(opener.open(request, timeout=deadline.left())) as answer:
                answer.read(MOST_BYTES)
            if deadline.has_expired:  # which looks like the end of the headers
                raise DeliveryFailed(secrets.hide(f"{printable(urlsplit(url).hostname or '')}: {deadline.words()}"))
        except urllib.error.HTTPError as error:
            with closing(error):
                raise _refusal(error, secrets) from None
        except urllib.error.URLError as error:
            reason = error.reason if isinstance(error.reason, BaseException) else error
            raise DeliveryFailed(secrets.hide(_connection_problem(reason, deadline, url))) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise DeliveryFailed(secrets.hide(_connection_problem(error, deadline, url))) from None


def _request(url: str, message: Message, action: Action, secrets: Secrets) -> urllib.request.Request:
    method = text_field(action, "method", secrets, "POST").upper()
    if method not in METHODS:
        raise DeliveryFailed(f"method is not one of {', '.join(METHODS)}")
    try:
        parts = urlsplit(url)
        is_plain = url.isascii() and url.isprintable() and " " not in url
        is_address = is_plain and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise DeliveryFailed("url is not an address that starts with https:// or http://")
    url, credentials = _without_user(url)
    url, content = payload(url, message, action)
    request = urllib.request.Request(url, json.dumps(content).encode("ascii"), method=method)
    request.add_header("Content-Type", "application/json")
    request.add_header("User-Agent", f"jobtop/{__version__}")
    request.add_header("Idempotency-Key", message.key)
    if credentials is not None:
        request.add_header("Authorization", f"Basic {credentials}")
    headers = action.fields.get("headers")
    for name, value in headers.items() if isinstance(headers, dict) else ():
        request.add_header(str(name), _header(action, str(name), str(value), secrets))
    if "token" in action.fields:
        request.add_header("Authorization", f"Bearer {_header(action, 'token', str(action.fields['token']), secrets)}")
    return request


def _without_user(url: str) -> tuple[str, str | None]:
    """An address without `USER:PASSWORD@`, and those as a header has them."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    credentials = b64encode(unquote(user).encode()).decode("ascii") if at else None
    return parts._replace(netloc=place).geturl(), credentials


def _header(action: Action, name: str, word: str, secrets: Secrets) -> str:
    value = secrets.value(word, os.path.dirname(action.origin) or "/")
    if not (name.isascii() and value.isascii() and name.isprintable() and value.isprintable()):
        raise DeliveryFailed(f'header "{printable(name)}" has characters that a header cannot have')
    return value


def _refusal(error: urllib.error.HTTPError, secrets: Secrets) -> DeliveryFailed:
    if 300 <= error.code < 400:
        place = shown_address(error.headers.get("Location") or "")
        return DeliveryFailed(secrets.hide(f"it redirects to {place}, which is not followed; change url"))
    try:
        said = error.read(MOST_BYTES).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException, ValueError):
        said = ""
    hidden = secrets.hide(printable(said))[:SHOWN_CHARACTERS]
    words = f"the server answered {error.code}" + (f": {hidden}" if hidden else "")
    return DeliveryFailed(words, error.code in REFUSING, _retry_after(error) if error.code == TRY_LATER else None)


def _retry_after(error: urllib.error.HTTPError) -> float | None:
    word = (error.headers.get("Retry-After") or "").strip()
    return min(float(word), LONGEST_WAIT_SECONDS) if word.isascii() and word.isdigit() else None


def _connection_problem(error: BaseException, deadline: Deadline, url: str) -> str:
    host = printable(urlsplit(url).hostname or "")
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{host}: its certificate is not trusted: {printable(error.verify_message)}"
    return f"{host}: {problem_text(error, deadline)}"


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a redirection only to the same host, only with the whole message, and never from https to http."""

    max_redirections = MOST_REDIRECTIONS

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        is_same = old.hostname == new.hostname and (old.scheme, old.port) == (new.scheme, new.port)
        is_safer = old.hostname == new.hostname and new.scheme == "https" and new.port is None
        if code not in (307, 308) or not (is_same or is_safer):
            raise urllib.error.HTTPError(req.full_url, code, "redirection", headers, fp)
        return urllib.request.Request(newurl, req.data, dict(req.header_items()), method=req.get_method())


class _PlainHandler(urllib.request.HTTPHandler):
    """Opens connections that end at the deadline."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self.deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_Connection, deadline=self.deadline), req)


class _TlsHandler(urllib.request.HTTPSHandler):
    """Opens connections that end at the deadline, to servers with a trusted certificate."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self.deadline = deadline

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_TlsConnection, deadline=self.deadline), req)


def _connected(deadline: Deadline, address: tuple[str, int]) -> socket.socket:
    """A socket that is watched before TLS begins on it."""
    import socket

    connection = socket.create_connection(address, deadline.left())
    deadline.watch(connection)
    return connection


class _Connection(http.client.HTTPConnection):
    def __init__(self, host: str, deadline: Deadline, **settings: Any) -> None:
        super().__init__(host, **settings)
        self._create_connection = lambda address, *_: _connected(deadline, address)


class _TlsConnection(http.client.HTTPSConnection):
    def __init__(self, host: str, deadline: Deadline, **settings: Any) -> None:
        super().__init__(host, **settings)
        self._create_connection = lambda address, *_: _connected(deadline, address)
