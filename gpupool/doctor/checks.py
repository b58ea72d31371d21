"""The checks, in the order in which they are reported, and the one function that runs them.

A check is left out, and said to be, where what it needs is not there: it never guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

from gpupool.cluster.kube_api import ApiError, UnreachableError
from gpupool.doctor import access, components, kinds, machine, references, rights
from gpupool.doctor.model import Check, CheckResult, Diagnosis, Inputs, NamedCluster, result
from gpupool.doctor.reasons import Reason
from gpupool.findings import Finding, GpupoolError, SpecError
from gpupool.generators import generate
from gpupool.infra.policy_gate import beyond_limits
from gpupool.plan.resolve import resolve
from gpupool.spec.load import Loaded, find_environment, load


class Need(IntEnum):
    """What has to be there for a check; each includes those before it."""

    NOTHING = 0
    TARGET = 1
    """The file says which cluster."""
    PLAN = 2
    """The file is valid."""
    API = 3
    """The cluster can be used; the file need not be valid."""
    CLUSTER = 4
    """Both."""


@dataclass(frozen=True, slots=True)
class Registered:
    name: str
    """In JSON: a contract."""
    need: Need
    check: Check
    of_up: bool = False
    """Whether it is about what `up` alone needs, and not Argo CD or Flux."""


CHECKS = (
    Registered("project", Need.NOTHING, machine.project, of_up=True),
    Registered("engine", Need.NOTHING, machine.engine_program, of_up=True),
    Registered("plugin", Need.TARGET, machine.kubernetes_plugin, of_up=True),
    Registered("charts", Need.PLAN, components.charts, of_up=True),
    Registered("version", Need.API, access.version),
    Registered("rights", Need.CLUSTER, rights.check, of_up=True),
    Registered("kinds", Need.CLUSTER, kinds.kinds),
    Registered("gates", Need.CLUSTER, kinds.gates),
    Registered("reservations", Need.PLAN, components.reservations),
    Registered("operator", Need.CLUSTER, components.operator),
    Registered("prometheus", Need.CLUSTER, components.prometheus),
    Registered("queue", Need.CLUSTER, components.queue),
    Registered("nodes", Need.CLUSTER, references.nodes),
    Registered("secrets", Need.CLUSTER, references.secrets),
)


def diagnose(env: str, notify: Callable[[str], None]) -> Diagnosis:
    """Run every check for ENV, an environment's name or a file's path. Changes nothing.

    Raises UsageError where there is no such file.
    """
    path = find_environment(env)
    inputs, findings = _read(env, path, notify)
    results = list(_results("file", _of_file(findings)))
    if inputs.target is not None:
        notify("asking the cluster")
        api, user, reached = access.cluster(inputs.target)
        inputs.api, inputs.user = api, user
    else:
        reached = (result("context", Reason.NOT_CHECKED_FILE),)
    for registered in CHECKS:
        if registered.name == "version":
            results += _results("context", reached)
        results += _results(registered.name, _run(registered, inputs))
    if inputs.api is not None:
        inputs.api.close()
    lacking = [right for result in results if result.blocks for right in result.grants]
    name = inputs.target.environment if inputs.target else path.stem
    return Diagnosis(name, str(path), tuple(results), rights.grant(lacking, inputs.user))


def _read(env: str, path: Path, notify: Callable[[str], None]) -> tuple[Inputs, tuple[Finding, ...]]:
    inputs = Inputs(env, notify)
    try:
        loaded = load(path)
        inputs.target = _target(loaded)
        inputs.plan = resolve(loaded)
        inputs.environment = loaded.environment
        inputs.bundle = generate(inputs.plan)
    except SpecError as error:
        return inputs, error.findings
    return inputs, tuple(beyond_limits(loaded, inputs.plan, inputs.bundle))


def _target(loaded: Loaded) -> NamedCluster | None:
    """The cluster that the file names, None where it is among what could not be read."""
    if loaded.environment is None or loaded.gaps.touches(("cluster",)):
        return None
    return NamedCluster(loaded.environment.metadata.name, loaded.environment.cluster)


def _of_file(findings: Iterable[Finding]) -> Iterator[CheckResult]:
    rows = list(findings)
    if not rows:
        yield result("file", Reason.FILE_VALID)
    for finding in rows:
        place = f"{finding.file}:{finding.line}:{finding.column}"
        yield result(
            finding.path or "file",
            Reason.FILE_FINDING,
            problem=finding.message,
            place=place,
            hint=finding.hint,
        )


def _run(registered: Registered, inputs: Inputs) -> Iterator[CheckResult]:
    delivery = inputs.plan.delivery if inputs.plan else None
    if registered.of_up and delivery is not None and delivery.gitops:
        yield result(registered.name, Reason.NOT_BY_UP, engine=delivery.by.title)
        return
    need = registered.need
    if (need >= Need.TARGET and inputs.target is None) or (
        need in (Need.PLAN, Need.CLUSTER) and inputs.plan is None
    ):
        yield result(registered.name, Reason.NOT_CHECKED_FILE)
        return
    if need >= Need.API and inputs.api is None:
        yield result(registered.name, Reason.NOT_CHECKED_CLUSTER)
        return
    try:
        yield from registered.check(inputs)
    except ApiError as error:
        reason = Reason.FORBIDDEN if error.status == 403 else Reason.FAILED
        yield result(registered.name, reason, problem=error)
    except UnreachableError as error:
        inputs.api = None  # it is waited for once, and not by each check
        yield result(registered.name, Reason.SERVER_SILENT, problem=error)
    except GpupoolError as error:
        yield result(registered.name, Reason.FAILED, problem=error)


def _results(name: str, rows: Iterable[CheckResult]) -> Iterator[CheckResult]:
    for row in rows:
        yield replace(row, check=name)
