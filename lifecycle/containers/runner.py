"""The runner of a container job, below its shim: `python -m jobtop.lifecycle.containers.runner DIRECTORY`.

It pulls, creates, attaches to and starts the container, copies its output, passes input and signals on, and exits with
its exit code. What it knows is in the file `container`, see core/run/containers/file.py. If it is killed, the container
goes on.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

from jobtop.core.errors import EngineError, ExitCode, NoSuchContainer
from jobtop.core.measure.collectors.docker.cgroup_paths import container_cgroups
from jobtop.core.measure.collectors.proc import identify, is_alive
from jobtop.core.model import Limits, known
from jobtop.core.procfs import FORWARDED, status_value
from jobtop.core.record import replace
from jobtop.core.run.containers.file import ORDER, ContainerFile, Told, read_order, write_container
from jobtop.core.run.containers.order import order_from
from jobtop.core.state_files import remove_file
from jobtop.core.units import printable
from jobtop.lifecycle.containers import cgroups
from jobtop.lifecycle.containers.early_notice import EarlyNotice
from jobtop.lifecycle.containers.endings import told_by
from jobtop.lifecycle.containers.engines import find_engine
from jobtop.lifecycle.containers.images import ready_image
from jobtop.lifecycle.containers.output import Output, feed_input
from jobtop.lifecycle.containers.settings import container_settings, host_settings, short_name
from jobtop.lifecycle.containers.start_errors import failure_of
from jobtop.lifecycle.containers.watching import ExitWatch, Signals, drops_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    from jobtop.core.measure.collectors.docker.client import Engine
    from jobtop.core.measure.collectors.docker.model import Container, PullStep
    from jobtop.core.measure.collectors.oom_notice import OomNotice

CALL_SECONDS = 120.0  # for creating and starting a container on a busy machine
RETRY_SECONDS, NOTE_PAUSE_SECONDS = 0.3, 0.05
ENGINE_SECONDS = 60.0  # for an engine to come back after its container has ended
KEYS = {b"\x03": signal.SIGINT, b"\x1c": signal.SIGQUIT}
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
PASSED = (signal.SIGTERM, *FORWARDED)


class Stopped(BaseException):
    """A signal that ends the job before its container has started."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Runner:
    """Runs the container of one job."""

    def __init__(self, directory: str, shape: dict[str, Any]) -> None:
        self.directory, self.job_id = directory, os.path.basename(directory)
        self.order = order_from(shape["container"])
        self.command: list[str] = shape["command"]
        self.limits = known(Limits, shape["limits"])
        self.gpus: list[str] = shape["gpus"]
        self.grace_seconds: float = shape["grace_seconds"]
        self.is_detached: bool = shape["is_detached"]
        self.is_tty = os.isatty(0) and os.isatty(1)
        self.has_input = self.is_tty or bool(shape["has_input"])
        self.engine: Engine
        self.signals: Signals | None = None
        self.watch: ExitWatch | None = None
        self.notice: OomNotice | None = None
        self._lost_at = 0.0  # when the connection to the engine was lost, or the container seen last
        self.file = ContainerFile(
            runner=identify(os.getpid()),
            ordered_at=shape["ordered_at"],
            image=self.order.image,
            is_kept=self.order.keep,
            is_tty=self.is_tty,
        )

    def run(self) -> int:
        """Run the container to its end; its exit code, or 125, 126 or 127 if it could not be started."""
        for number in STOPPING:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _raise_stopped)
        try:
            self._prepare()
            connection = self._create()
        except Stopped as stopped:
            self._forget()
            die_of(stopped.number)
        except EngineError as error:
            if self.file.id is None:
                return self._fail(str(error), ExitCode.FAILED)
            return self._fail(*failure_of(str(error), self._program))  # Podman looks for the command at the attach
        self._catch_signals()
        early = EarlyNotice(self.file.parents, self._id)
        early.start()
        try:
            self.engine.start(self._id)
        except EngineError as error:
            return self._fail(*failure_of(str(error), self._program))
        finally:
            self.notice = early.end()
        self._note_start()
        output = Output(self.is_tty, self._on_broken)
        if self.has_input:
            feed_input(connection, self.is_tty, self._on_keys)
        output.copy(connection)
        container = self._await_end(output)
        return self._end(container, output)

    @property
    def _id(self) -> str:
        assert self.file.id is not None
        return self.file.id

    @property
    def _program(self) -> str:
        return self.order.entrypoint or (self.command[0] if self.command else self.order.image)

    def _prepare(self) -> None:
        """Find the engine and have the image ready."""
        self.engine, self.info = find_engine(self.order.engine, os.environ)
        self.engine.timeout_seconds = CALL_SECONDS
        self.engine.close()  # connections have their timeout from the beginning
        name, url = self.engine.endpoint.name, self.engine.endpoint.url
        self._note(engine=url, engine_name=name, product=f"{self.info.product} {self.info.version}")
        image = ready_image(self.engine, self.order.image, self.order.pull, self._on_pull)
        self._note(image_id=image.id, digest=image.digest)

    def _create(self) -> socket.socket:
        """Create the container and attach to it; from then on no signal leaves it behind unseen."""
        has_parent = cgroups.may_have_parent(self.info, self.engine.endpoint.url)
        parent = cgroups.parent_name(self.job_id) if has_parent else None
        host = host_settings(self.order, self.limits, self.gpus, parent)
        settings = container_settings(self.order, self.job_id, self.is_tty, self.has_input)
        with deferred_signals():
            if has_parent:
                self._note(parents=cgroups.parent_directories(self.job_id))
            name = short_name(self.job_id)
            try:
                found = self.engine.create(self.order.image, self.command or None, host, name=name, **settings)
            except EngineError as error:
                if "in use" not in str(error):
                    raise
                name = f"jobtop-{self.job_id}"  # another job whose id begins the same has kept its container
                found = self.engine.create(self.order.image, self.command or None, host, name=name, **settings)
            self._note(id=found, name=name)
        remove_file(os.path.join(self.directory, ORDER))  # it may have secrets
        return self.engine.attach(found, self.has_input)

    def _note(self, **values: Any) -> None:
        self.file = replace(self.file, **values)
        with suppress(OSError):  # the disk is full; the container runs all the same
            write_container(self.directory, self.file)

    def _catch_signals(self) -> None:
        """From now on signals are for the container."""
        controls = type(self.engine)(self.engine.endpoint, CALL_SECONDS)
        self.signals = Signals(controls, self._id, self.grace_seconds)
        for number in PASSED:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: None)  # the thread reads it from the pipe
        signal.set_wakeup_fd(self.signals.wakeup, warn_on_full_buffer=False)
        self.signals.start()

    def _take(self, number: int) -> None:
        if self.signals is not None:
            self.signals.take(number)

    def _note_start(self) -> None:
        """Write which processes and cgroups the container has, for those that sample it."""
        with suppress(EngineError):
            container = self.engine.inspect(self._id)
            pid = container.pid or 0
            found = container_cgroups(pid, self._id) if pid and self._is_local else ()
            init = identify(pid) if found else None
            if init is not None and init.start is not None:
                self.watch = ExitWatch(init, found, self.notice)
                self.watch.start()
                if self.signals is not None:
                    self.signals.init = init
                self._note(init=init, cgroups=found)
            self._note(started_at=container.started_at)
        if self.is_tty:
            import tty

            tty.setraw(0)
            self._take(signal.SIGWINCH)

    @property
    def _is_local(self) -> bool:
        return self.engine.endpoint.url.startswith("unix://")

    def _on_broken(self) -> None:
        """The reader of the output has gone: the container ends as a command would; not if only the shim has gone."""
        if not self.is_detached and os.getppid() != 1 and _is_shim(os.getppid()):
            self._take(signal.SIGPIPE)

    def _on_keys(self, data: bytes) -> None:
        """Ctrl-C and Ctrl-\\ at a terminal end a program that is alone in its container and has no handler for them."""
        init = self.signals.init if self.signals is not None else None
        for key, number in KEYS.items():
            if key in data and init is not None and drops_key(init.pid, number):
                self._take(number)

    def _on_pull(self) -> Callable[[PullStep], None]:
        self._say(f"pulling {self.order.image}")
        return lambda _: None

    def _say(self, text: str) -> None:
        line = f"jobtop: {printable(text)}\n".encode()
        with suppress(OSError):
            os.write(2, line)
            self.file = replace(self.file, said_bytes=self.file.said_bytes + len(line))

    def _await_end(self, output: Output) -> Container | None:
        """Wait until the container has ended, also over restarts of the engine; None if it was removed or never told.

        After a lost connection the output goes on where it stopped.
        """
        is_lost, waited_at = False, 0.0
        while True:
            try:
                if not is_lost:
                    self.engine.wait(self._id)
                container = self.engine.inspect(self._id)
            except NoSuchContainer:
                return None
            except EngineError:
                self._lost_at = self._lost_at if is_lost else time.monotonic()
                is_lost = True
                if not self._may_wait():
                    return None
                time.sleep(RETRY_SECONDS)
                continue
            if is_lost:
                output.follow(self.engine, self._id, until_end=container.is_alive)
            if container.is_over:
                return container
            waited_at = waited_at or time.monotonic()  # its engine says that it has exited, and has not noted how
            if not container.is_alive and time.monotonic() - waited_at > ENGINE_SECONDS:
                return container
            time.sleep(NOTE_PAUSE_SECONDS)
            is_lost = False

    def _may_wait(self) -> bool:
        """Whether the engine may still say how the container ended: it runs, or the engine restarts."""
        if self.file.init is not None and is_alive(self.file.init):
            self._lost_at = time.monotonic()
        return time.monotonic() - self._lost_at < ENGINE_SECONDS

    def _end(self, container: Container | None, output: Output) -> int:
        """Write how it ended, then remove it; the exit code."""
        watch, sent = self.watch, self.signals.sent if self.signals is not None else []
        if watch is not None:
            watch.join(1.0)
            self._note_runtime(watch)
            self.file = replace(self.file, peak_bytes=watch.peak_bytes or None, exited_boottime=watch.exited_boottime)
        own = watch.texts if watch is not None else {}
        is_killed = container is not None and container.exit_code == 128 + signal.SIGKILL and signal.SIGKILL not in sent
        if container is not None and is_killed and not container.is_oom_killed:
            # Podman does not tell with version 1, and Docker not always of a container that ended at once.
            container = replace(container, is_oom_killed=cgroups.counted_oom(own) > 0 or self._ran_out_of_memory())
        told = told_by(container, sent)
        if self.signals is not None and self.signals.dropped is not None and told.signal == signal.SIGKILL:
            told = replace(told, signal=self.signals.dropped)
        if self.signals is not None and self.signals.had_to_kill and self.file.init is not None:
            told = replace(told, killed=f"{self.file.init.pid} {os.path.basename(self._program)}")
        parents = cgroups.existing(self.file.parents)
        texts = cgroups.merged(own, cgroups.read_evidence(parents))
        is_whole = output.is_whole or signal.SIGPIPE in sent  # what no reader wanted is not missing
        self._note(told=replace(told, is_output_whole=is_whole), texts=texts)
        if is_whole and not self.order.keep:
            with suppress(EngineError):
                self.engine.remove(self._id)
        cgroups.remove_parents(parents)
        return told.exit_code if told.exit_code is not None else int(told.failure or ExitCode.FAILED)

    def _ran_out_of_memory(self) -> bool:
        if self.watch is not None:
            return self.watch.ran_out_of_memory()
        return self.notice is not None and self.notice.has_happened()

    def _note_runtime(self, watch: ExitWatch) -> None:
        if not watch.runtime_name:
            return
        self.file = replace(
            self.file,
            runtime_seconds=round(watch.runtime_seconds + time.process_time(), 6),
            runtime_bytes=watch.runtime_bytes + status_value(os.getpid(), "VmHWM:") * 1024,
            runtime_what=f"{watch.runtime_name} and jobtop's runner",
        )

    def _fail(self, why: str, code: int) -> int:
        """Write why the container could not be started, and remove what there is of it."""
        self._note(told=Told(failure=int(code), error=why, is_output_whole=True))
        if self.is_detached:
            self._say(why)
        self._forget()
        return int(code)

    def _forget(self) -> None:
        """Remove a container that has not started, and its cgroups."""
        if self.file.id is not None:
            with suppress(EngineError):
                self.engine.remove(self.file.id, force=True)
        cgroups.remove_parents(cgroups.existing(self.file.parents))


class deferred_signals:  # noqa: N801 - used like a function
    """Holds back signals that would end the runner, for the moment in which a container exists and is not noted."""

    def __enter__(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)


def _raise_stopped(number: int, _: object) -> None:
    raise Stopped(number)


def _is_shim(pid: int) -> bool:
    from jobtop.core.procfs import SHIM_NAME, name_of

    return name_of(pid) == SHIM_NAME


def die_of(number: int) -> None:
    """End this process by a signal, as the shim expects of a process that was stopped."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def main() -> int:
    directory = os.path.abspath(sys.argv[1])
    shape = read_order(directory)
    if shape is None:
        print("jobtop: the order of this container job cannot be read", file=sys.stderr)
        return int(ExitCode.FAILED)
    return Runner(directory, shape).run()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads that wait for input or for the engine end with it
