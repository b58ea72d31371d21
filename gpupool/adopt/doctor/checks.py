"""The checks, in the order in which they are reported, and the one function that runs them.

A check is left out, and said to be, where what it needs is not there: it never guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

from gpupool.adopt.doctor import access, components, kinds, machine, references, rights, running, tenant_roles
from gpupool.adopt.doctor.model import Check, CheckResult, Diagnosis, DoctorInput, NamedCluster, result
from gpupool.adopt.doctor.needed_rights import Right
from gpupool.adopt.doctor.reading import guarded
from gpupool.adopt.doctor.reasons import Reason
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import Loaded, find_environment, load
from gpupool.findings import Finding, SpecError
from gpupool.generators import generate
from gpupool.policy.gate import beyond_limits


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
    lists: tuple[tuple[str, str], ...] = ()
    """Group and resource of what it lists in all namespaces; `up` may need some of it as well."""


_OPERATOR = (("nvidia.com", "clusterpolicies"), ("", "pods"))
_BINDINGS = tuple(
    ("rbac.authorization.k8s.io", name)
    for name in ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
)
_GPUS = (("", "nodes"), ("resource.k8s.io", "resourceslices"))

CHECKS = (
    Registered("project", Need.NOTHING, machine.project, of_up=True),
    Registered("engine", Need.NOTHING, machine.engine_program, of_up=True),
    Registered("plugin", Need.TARGET, machine.kubernetes_plugin, of_up=True),
    Registered("charts", Need.PLAN, components.charts, of_up=True),
    Registered("version", Need.API, access.version),
    Registered("rights", Need.CLUSTER, rights.check, of_up=True),
    Registered("kinds", Need.CLUSTER, kinds.kinds),
    Registered("gates", Need.CLUSTER, kinds.gates, lists=(("apps", "deployments"),)),
    Registered("reservations", Need.PLAN, components.reservations),
    Registered("operator", Need.CLUSTER, components.operator, lists=_OPERATOR),
    Registered("prometheus", Need.CLUSTER, components.prometheus),
    Registered("queue", Need.CLUSTER, components.queue),
    Registered("nodes", Need.CLUSTER, references.nodes, lists=(("", "nodes"),)),
    Registered("secrets", Need.CLUSTER, references.secrets),
    Registered("tenants", Need.CLUSTER, tenant_roles.check, lists=_BINDINGS),
    Registered("workloads", Need.CLUSTER, running.workloads, lists=(("", "pods"), ("", "namespaces"))),
    Registered("images", Need.CLUSTER, running.images, lists=(("karpenter.k8s.aws", "ec2nodeclasses"),)),
    Registered("claims", Need.CLUSTER, running.claims, lists=_GPUS),
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
        inputs.reads = _reads(inputs)
    else:
        api, reached = None, (result("context", Reason.NOT_CHECKED_FILE),)
    for registered in CHECKS:
        if registered.name == "version":
            results += _results("context", reached)
        results += _results(registered.name, _run(registered, inputs))
    if api is not None:
        api.close()
    lacking = [right for result in results for right in result.grants]
    name = inputs.target.environment if inputs.target else path.stem
    return Diagnosis(name, str(path), tuple(results), rights.grant(lacking, inputs.user))


def _read(env: str, path: Path, notify: Callable[[str], None]) -> tuple[DoctorInput, tuple[Finding, ...]]:
    inputs = DoctorInput(env, notify)
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
            problem=finding.what,
            place=place,
            remediation=finding.remediation,
        )


def _run(registered: Registered, inputs: DoctorInput) -> Iterator[CheckResult]:
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
    for row in guarded(registered.name, inputs, registered.check(inputs)):
        granted = row.grants or (
            inputs.reads.get(registered.name, ()) if row.reason is Reason.FORBIDDEN else ()
        )
        yield replace(row, grants=granted)


def _reads(inputs: DoctorInput) -> dict[str, tuple[Right, ...]]:
    """What each check lists, as rights."""
    plan = inputs.plan
    if plan is None:
        return {}
    eks = plan.cluster.platform == "eks"
    unused = {"tenants"} if not plan.tenants else set[str]()
    unused |= {"gates", "images"} if not eks else set()
    return {
        row.name: tuple(Right(group, resource, "list") for group, resource in row.lists)
        for row in CHECKS
        if row.lists and row.name not in unused
    }


def _results(name: str, rows: Iterable[CheckResult]) -> Iterator[CheckResult]:
    for row in rows:
        yield replace(row, check=name)
