"""The engine, started for one request: the stack, its state as a whole, and the disk space for it.

The first stage of a run. It changes nothing but what killed runs have left beside the state.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pulumi import automation
from pulumi.automation import errors as automation_errors

from gpupool.environment import project
from gpupool.environment.plan.model import Plan
from gpupool.generators.manifest import Bundle
from gpupool.infra import locks, plugin, state_files
from gpupool.infra.disk_reserve import DiskReserve
from gpupool.infra.engine import PROJECT, Command, EngineError, EngineStack, Report, work_dir
from gpupool.infra.pulumi_plugins import callers
from gpupool.infra.pulumi_plugins import env as pulumi_env
from gpupool.live.cluster import access
from gpupool.programs import binaries
from gpupool.programs.failures import LocalError


@dataclass(frozen=True)
class Request:
    """What the engine is asked to do."""

    operation: str
    """preview, up, refresh or destroy."""
    plan: Plan
    bundle: Bundle
    report: Report

    @property
    def environment(self) -> str:
        """The environment's name, which is the stack's."""
        return self.plan.environment

    @property
    def applies(self) -> bool:
        """Whether objects are applied, or would be."""
        return self.operation in ("up", "preview")

    def note(self, text: str) -> str:
        """Report `text` as progress; returns it, for the result's notes."""
        self.report(text)
        return text


@dataclass(frozen=True)
class Session:
    """The engine at hand. Methods raise EngineError, and LockedError where another run works on the stack."""

    request: Request
    stack: EngineStack
    command: Command
    """The engine's process, through which it is interrupted."""
    disk: DiskReserve
    started: float
    """By the monotonic clock, in seconds."""
    notes: tuple[str, ...]
    """What killed runs had left, and is removed."""

    @property
    def backend(self) -> str:
        """URL of where the state lies."""
        return _backend(self.stack)

    def exported(self) -> dict[str, Any] | None:
        """The stack's state; None where there is no such stack."""
        with self._errors():
            try:
                return dict(self.stack.export_stack().deployment or {})
            except automation_errors.StackNotFoundError:
                return None

    def create(self) -> None:
        """Make the stack, with an empty state."""
        with self._errors(), contextlib.suppress(automation_errors.StackAlreadyExistsError):
            self.stack.workspace.create_stack(self.stack.name)  # unless another run just did

    def save(self, deployment: dict[str, Any]) -> None:
        """Replace the stack's state."""
        with self._errors():
            self.stack.import_stack(automation.Deployment(version=3, deployment=deployment))

    def unprotect(self, what: str) -> None:
        """Allow one URN, or `--all`, to be deleted."""
        args = ["state", "unprotect", what, "--yes", "--stack", self.stack.name]
        workspace = self.stack.workspace
        with self._errors():
            workspace.pulumi_command.run(args, workspace.work_dir, workspace.env_vars)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """What the engine says about a command on the state, as GpupoolError."""
        name = self.stack.name
        try:
            yield
        except automation_errors.ConcurrentUpdateError as error:
            raise locks.locked(self.backend, PROJECT, name) from error
        except automation_errors.CommandError as error:
            text = plain_error(error)
            damaged = state_files.damaged(self.backend, PROJECT, name, text)
            raise damaged or EngineError(state_files.disk_problem([text], self.backend) or text) from error


@contextlib.contextmanager
def started(request: Request) -> Iterator[Session]:
    """The engine for `request`, on a cluster that answers, with room on the disk for the state.

    Raises GpupoolError: KubeconfigError or UnreachableError, EngineError, LockedError, DiskFullError.
    """
    since, environment = time.monotonic(), request.environment
    # A preview of a cluster that is not local shows what it can without it.
    if request.operation != "preview" or request.plan.cluster.platform == "local":
        request.report("connecting to the cluster")
        access.require_cluster(request.plan)
    stack, command = opened(environment, request.plan.cluster.platform, request.report)
    backend, notes = _backend(stack), []
    # A killed run's lock would refuse every command on the state.
    if locks.clear_locks(backend, PROJECT, environment):
        notes.append(request.note("removed the lock of a run that was killed"))
    if state_files.clear_left(backend, PROJECT, environment):
        notes.append(request.note("removed partial files that a killed run left beside the state"))
    disk = DiskReserve("" if request.operation == "preview" else backend, PROJECT, environment)
    try:
        # A full disk is found before the state is written, and nothing of ours is written before.
        disk.take(len(request.bundle.manifests) if request.operation == "up" else 0)
        yield Session(request, stack, command, disk, since, tuple(notes))
    finally:
        disk.release()


def opened(name: str, platform: str, report: Report = lambda _: None) -> tuple[EngineStack, Command]:
    """A handle on the stack `name`, which may not exist yet, and the engine.

    Raises EngineError where there is no project of ours, or no engine can be had.
    """
    callers.guard()  # the library serves the program, and hears of events, on ports of its own
    folder = work_dir()
    try:
        path = binaries.locate("pulumi", report)
    except LocalError as error:
        raise EngineError(str(error)) from error
    variables = pulumi_env.backend(platform)
    plugin.require_plugin(path, report)
    variables |= pulumi_env.provider_variables()
    with contextlib.suppress(OSError):  # where nothing can be written, nothing is opened either
        # The engine writes settings there, and would make it for everybody.
        project.make_private(folder / project.OWN)
    command = Command(path)
    if "GOGC" not in os.environ:  # it lives no longer than the run, so memory is cheaper than time
        variables["GOGC"] = "300"
    workspace = automation.LocalWorkspace(
        work_dir=str(folder),
        env_vars=variables,
        pulumi_command=command,
    )
    return EngineStack(name, workspace, variables), command


def plain_error(error: Exception) -> str:
    """What the engine wrote to stderr, without the SDK's frame around it."""
    text = str(error)
    _, _, stderr = text.partition("stderr:")
    lines = [line.strip() for line in (stderr or text).splitlines()]
    reported = [line.removeprefix("error: ") for line in lines if line and not line.startswith("code:")]
    return "\n".join(reported) or text


def _backend(stack: EngineStack) -> str:
    return stack.variables.get("PULUMI_BACKEND_URL") or os.environ.get("PULUMI_BACKEND_URL", "")
