"""Sends a message by e-mail: SMTP with TLS, or with STARTTLS; without either only to this machine, or when asked."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import formatdate

from jobtop.core.alerts.actions.delivery import Deadline, DeliveryFailed, problem_text, text_field
from jobtop.core.alerts.message_text import body_text
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from jobtop.core.alerts.model import Action, Message
    from jobtop.core.alerts.secrets import Secrets

STARTTLS, TLS, NONE = "starttls", "tls", "none"
PORTS = {STARTTLS: 587, TLS: 465, NONE: 25}
HERE = ("localhost", "127.0.0.1", "::1")
SHOWN_CHARACTERS = 120
TRANSIENT = range(400, 500)  # replies of a server that ask to try again


def send(message: Message, action: Action, secrets: Secrets, timeout: float) -> None:
    """Send one message; DeliveryFailed unless the server accepts it for everybody within the time."""
    server = text_field(action, "server", secrets, "localhost")
    tls = tls_mode(action, server)
    try:
        port = int(text_field(action, "port", secrets, str(PORTS[tls])))
    except ValueError:
        raise DeliveryFailed("port is not a number") from None
    mail = mail_of(message, action, secrets)
    with Deadline(timeout) as deadline:
        try:
            with (_TlsClient if tls == TLS else _Client)(deadline, server, port) as client:
                _send(client, mail, action, secrets, tls)
        except smtplib.SMTPException as error:
            raise _refusal(error, server, deadline, secrets) from None
        except ssl.SSLCertVerificationError as error:
            why = f"its certificate is not trusted: {printable(error.verify_message)}"
            raise DeliveryFailed(f"{printable(server)}: {why}") from None
        except (OSError, ValueError) as error:
            raise DeliveryFailed(secrets.hide(f"{printable(server)}: {problem_text(error, deadline)}")) from None


def tls_mode(action: Action, server: str) -> str:
    """How the connection is encrypted: by default with STARTTLS, unless the server is this machine."""
    default = NONE if server in HERE else STARTTLS
    given = action.fields.get("tls")
    tls = default if given is None else STARTTLS if given is True else NONE if given is False else str(given).lower()
    if tls not in PORTS:
        raise DeliveryFailed(f"tls is not one of {', '.join(PORTS)}")
    if tls == NONE and "password" in action.fields and server not in HERE:
        raise DeliveryFailed('a password is sent only with tls = "starttls" or "tls"')
    return tls


def mail_of(message: Message, action: Action, secrets: Secrets) -> EmailMessage:
    """The mail. Every header is one line: the policy of the e-mail library refuses any other."""
    receivers = action.fields.get("to")
    to = ", ".join(map(str, receivers)) if isinstance(receivers, list | tuple) else text_field(action, "to", secrets)
    sender = text_field(action, "from", secrets, to.partition(",")[0].strip())
    mail = EmailMessage(policy=SMTP_POLICY)
    try:
        mail["Subject"] = f"[{message.severity}] {message.title}"
        mail["From"], mail["To"] = sender, to
        mail["Date"] = formatdate(message.at, localtime=True)
        mail["Message-ID"] = f"<{_identifier(message.key)}@{_identifier(message.host) or 'localhost'}.jobtop>"
        mail["Idempotency-Key"] = message.key
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(body_text(message) + "\n")
    except (ValueError, UnicodeError, IndexError) as error:
        raise DeliveryFailed(f"to or from is not an address ({type(error).__name__})") from None
    if not all("@" in (address.addr_spec or "") for name in ("From", "To") for address in mail[name].addresses):
        raise DeliveryFailed("to or from is not an address such as ada@example.org")
    return mail


def _send(client: smtplib.SMTP, mail: EmailMessage, action: Action, secrets: Secrets, tls: str) -> None:
    client.ehlo_or_helo_if_needed()
    if tls == STARTTLS:
        client.starttls(context=ssl.create_default_context())
        client.ehlo_or_helo_if_needed()
    if "password" in action.fields:
        user = text_field(action, "user", secrets, mail["From"].addresses[0].addr_spec)
        password = text_field(action, "password", secrets)
        secrets.remember(password)
        client.login(user, password)
    refused = client.send_message(mail)
    if refused:
        names = ", ".join(map(printable, refused))
        raise DeliveryFailed(f"the server refused {names}; the others got it", is_final=True)


def _refusal(error: smtplib.SMTPException, server: str, deadline: Deadline, secrets: Secrets) -> DeliveryFailed:
    """What the server said. Only a refused content is final: an address or a password can be corrected."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code, said = next(iter(error.recipients.values()), (0, b""))
    elif isinstance(error, smtplib.SMTPResponseException):
        code, said = error.smtp_code, error.smtp_error if isinstance(error.smtp_error, bytes) else b""
    elif isinstance(error, smtplib.SMTPNotSupportedError):
        return DeliveryFailed(f"{printable(server)} does not offer what is needed (STARTTLS or a login); see tls")
    else:
        why = deadline.words() if deadline.has_expired else "it closed the connection"
        return DeliveryFailed(f"{printable(server)}: {why}")
    if deadline.has_expired or code < 0:
        return DeliveryFailed(f"{printable(server)}: {deadline.words() if deadline.has_expired else 'no SMTP server'}")
    words = secrets.hide(printable(said.decode("utf-8", "replace")))[:SHOWN_CHARACTERS]
    is_final = isinstance(error, smtplib.SMTPDataError) and code not in TRANSIENT
    return DeliveryFailed(f"{printable(server)} answered {code}: {words}", is_final)


def _identifier(text: str) -> str:
    return "".join(letter for letter in text if letter.isascii() and (letter.isalnum() or letter in "-_."))[:100]


class _Client(smtplib.SMTP):
    """A connection that ends at the deadline. Its name is given: finding it would ask the name server."""

    def __init__(self, deadline: Deadline, server: str, port: int) -> None:
        self.deadline = deadline
        super().__init__(server, port, local_hostname="localhost", timeout=deadline.left())

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return _connected(self.deadline, host, port)


class _TlsClient(_Client):
    """The same, with TLS from the start."""

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        connection = _connected(self.deadline, host, port)
        return ssl.create_default_context().wrap_socket(connection, server_hostname=host)


def _connected(deadline: Deadline, host: str, port: int) -> socket.socket:
    import socket

    connection = socket.create_connection((host, port), deadline.left())
    deadline.watch(connection)
    return connection
