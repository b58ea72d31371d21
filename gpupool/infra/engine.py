"""The Pulumi engine as a child process: how its commands run, and how they are interrupted.

A thin layer over the Automation API. What is run is decided in `gpupool.infra.stack`; what its events mean in
`gpupool.infra.stack_events`.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import yaml
from pulumi import automation
from pulumi.automation import _cmd as automation_cmd
from semver import VersionInfo

from gpupool.environment import project
from gpupool.findings import GpupoolError
from gpupool.programs import binaries

PROJECT = "gpupool"
Report = Callable[[str], None]

# When a run fails, the engine may exit before the library's server has sent its last message. The library
# then logs a useless traceback; the engine's events report what failed.
logging.getLogger("grpc._server").addHandler(logging.NullHandler())
logging.getLogger("grpc._server").propagate = False

_STOP_SECONDS = 10.0
"""How long a short command (state export and the like) may take to end after Ctrl-C."""

_LOOK_SECONDS = 0.2
"""How often to check whether Ctrl-C was pressed."""


class EngineError(GpupoolError):
    """The engine failed; the text is what it said, fit to be shown."""


class Command(automation.PulumiCommand):
    """One engine binary. Ctrl-C reaches it through `interrupt` alone, so each is passed on exactly once."""

    def __init__(self, path: Path) -> None:
        # Not calling the base class: it would run `pulumi version`, which our binaries are pinned to anyway.
        self.command = str(path)
        self.version = VersionInfo.parse(binaries.programs()["pulumi"].version.removeprefix("v"))
        self._child: subprocess.Popen[str] | None = None
        self._interrupted = False
        self._lock = threading.Lock()
        """So that a Ctrl-C that comes while a command starts is passed on once, neither never nor twice."""

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Callable[[str], Any] | None = None,
        on_error: Callable[[str], Any] | None = None,
    ) -> Any:
        """Run one command to its end. Raises the Automation API's CommandError where it fails."""
        env = {**os.environ, **additional_env, "PULUMI_AUTOMATION_API": "true"}
        if "--non-interactive" not in args:
            args.insert(0, "--non-interactive")
        child = subprocess.Popen(
            [self.command, *args],
            cwd=cwd,
            env=env,
            text=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        with self._lock:
            self._child = child
            if self._interrupted:  # before there was any output
                child.send_signal(signal.SIGINT)
        try:
            stdout, stderr = _read(child, on_output, on_error)
        finally:
            self._child = None
        result = automation_cmd.CommandResult(stdout=stdout, stderr=stderr, code=child.returncode)
        if child.returncode != 0:
            raise automation.errors.create_command_error(result)
        return result

    def interrupt(self) -> None:
        """Ask the running command to stop after what is under way; asked again it stops at once.

        Where none runs yet, the next one is stopped at its start.
        """
        with self._lock:
            self._interrupted = True
            if self._child is not None and self._child.poll() is None:
                self._child.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End the running command at once; the next run clears up what it leaves behind."""
        with self._lock:
            if self._child is not None and self._child.poll() is None:
                self._child.kill()


def _read(child: subprocess.Popen[str], *notify: Callable[[str], Any] | None) -> tuple[str, str]:
    """What the command writes to stdout and stderr until its end. Ctrl-C in this thread ends it first."""
    assert child.stdout is not None
    assert child.stderr is not None
    streams = (child.stdout, child.stderr)
    texts: tuple[list[str], list[str]] = ([], [])
    readers = [
        threading.Thread(target=_drain, args=part, daemon=True)
        for part in zip(streams, texts, notify, strict=True)
    ]
    try:
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        child.wait()
    except BaseException:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(_STOP_SECONDS)
        except BaseException:  # too slow, or Ctrl-C once more
            child.kill()
            child.wait()
        raise
    finally:
        for reader in readers:
            if reader.ident is not None:
                reader.join(1.0)  # the pipes are closed at the other end: it is at its last lines
    return "\n".join(texts[0]), "\n".join(texts[1])


def _drain(stream: IO[str], lines: list[str], notify: Callable[[str], Any] | None) -> None:
    with stream:
        for line in stream:
            lines.append(line.rstrip())
            if notify is not None:
                notify(lines[-1])


def interruptible(
    work: Callable[[], Any],
    command: Command,
    report: Report,
    watch: Callable[[Command], None] = lambda _: None,
) -> tuple[BaseException | None, bool]:
    """Run `work` in a thread, passing Ctrl-C on to the engine: what it raised, and whether it was stopped.

    `watch` is called several times a second, and may stop the engine.
    """
    failure: list[BaseException] = []
    ended = threading.Event()

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # handed to the caller's thread
            failure.append(error)
        finally:
            ended.set()

    with _noted_interrupts() as noted:
        threading.Thread(target=guarded, name="engine").start()
        passed_on = 0
        while not ended.wait(_LOOK_SECONDS):
            if passed_on < len(noted):
                passed_on += 1
                report("stopping after the current operations (Ctrl-C again to stop at once)")
                command.interrupt()
            watch(command)
    return (failure[0] if failure else None), bool(noted)


@contextmanager
def _noted_interrupts() -> Iterator[list[int]]:
    """Every Ctrl-C during the run, recorded and not raised: an exception could come between any two lines of
    ours.

    Empty outside the main thread, which gets none, and where a shell has the process ignore it.
    """
    noted: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (None, signal.SIG_IGN):
        yield noted
        return
    signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


class EngineStack(automation.Stack):
    """A stack of this project, without the three extra processes that the SDK spends after every run."""

    variables: dict[str, str]
    """Environment of the engine's processes; may be added to between them."""

    def __init__(self, name: str, workspace: automation.LocalWorkspace, variables: dict[str, str]) -> None:
        # Not calling the base class: it would run `stack select`, which changes the user's own selection.
        self.name = name
        self.workspace = workspace
        self.variables = variables
        self._mode = automation._stack.StackInitMode.SELECT

    def outputs(self) -> automation.OutputMap:
        """Nothing: our outputs are figures of the plan, which we have."""
        return {}

    def info(self, show_secrets: bool | None = None) -> Any:  # noqa: ARG002 - the SDK's signature
        """Nothing: events report what was done."""
        return SimpleNamespace(result="")


def work_dir() -> Path:
    """The folder of the Pulumi project, which must be one of ours. Raises EngineError."""
    folder = project.root()
    file = folder / project.FILE
    make = "`gpupool init` creates a project in a new folder"
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EngineError(f"{folder}: no {project.FILE} here or above; {make}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise EngineError(f"{file}: can't be read: {error}; correct it") from error
    name = content.get("name") if isinstance(content, dict) else None
    if name != PROJECT:
        raise EngineError(f"{file}: name is {name!r} and must be {PROJECT}, which identifies states; {make}")
    return folder
