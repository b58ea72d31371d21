"""What the file refers to and somebody else makes: nodes that exist already, and Secrets.

Secrets are found by their type, wherever the file may name one (`named_secrets`). Of a Secret's content no
value leaves this module, only whether it has a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from gpupool.adopt.doctor.model import CheckResult, DoctorInput, result
from gpupool.adopt.doctor.reading import guarded
from gpupool.adopt.doctor.reasons import Reason
from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.spec.environment import Environment
from gpupool.environment.spec.queue import SecretRef
from gpupool.live.objects import static_nodes


def nodes(inputs: DoctorInput) -> Iterator[CheckResult]:
    """Whether the nodes that pools name can be part of them."""
    assert inputs.api is not None
    assert inputs.plan is not None
    assert inputs.bundle is not None
    if not inputs.plan.has_existing_nodes:
        yield result("nodes", Reason.NODES_NONE)
        return
    try:
        manifests = static_nodes.resolve(inputs.plan, inputs.bundle, inputs.api)
    except static_nodes.NodeError as error:
        for problem in error.problems:
            yield result("nodes", Reason.NODE_UNFIT, problem=problem)
        return
    patches = [manifest for manifest in manifests if manifest.patch and manifest.kind == "Node"]
    yield result("nodes", Reason.NODES_FIT, count=len(patches))


@dataclass(frozen=True, slots=True)
class NamedSecret:
    field: str
    """Where the file names it."""
    namespace: str
    name: str
    key: str | None
    """None where any key may be meant."""
    for_jobs: bool = False
    """Whether only jobs use it, which may come later."""


def named_secrets(environment: Environment) -> Iterator[NamedSecret]:
    """Every Secret that the file names."""
    for field, reference in _references(environment, ()):
        yield NamedSecret(field, SYSTEM_NAMESPACE, reference.name, reference.key)
    flux = environment.delivery.flux
    if flux is not None and flux.secret is not None:
        yield NamedSecret("delivery.flux.secret", flux.namespace, flux.secret, None)
    for number, tenant in enumerate(environment.tenants):
        for index, name in enumerate(tenant.jobs.secrets or ()):
            field = f"tenants[{number}].jobs.secrets[{index}]"
            yield NamedSecret(field, tenant.namespace, name, None, for_jobs=True)


def _references(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, SecretRef]]:
    """Every SecretRef below `value`, with its field."""
    if isinstance(value, SecretRef):
        yield ".".join(path), value
    elif isinstance(value, BaseModel):
        for name, info in type(value).model_fields.items():
            yield from _references(getattr(value, name), (*path, info.alias or to_camel(name)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _references(item, (*path[:-1], f"{path[-1]}[{index}]"))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _references(item, (*path, str(key)))


def secrets(inputs: DoctorInput) -> Iterator[CheckResult]:
    """Whether each Secret that the file names is there, with the key that is named."""
    assert inputs.environment is not None
    rows = list(named_secrets(inputs.environment))
    if not rows:
        yield result("Secrets", Reason.SECRETS_NONE)
    for row in rows:
        if inputs.api is not None:
            yield from guarded(row.field, inputs, map(partial(_secret, inputs), [row]))


def _secret(inputs: DoctorInput, row: NamedSecret) -> CheckResult:
    assert inputs.api is not None
    assert inputs.plan is not None
    key = row.key or "KEY"
    create = f"kubectl create secret generic {row.name} --namespace {row.namespace} --from-file={key}=FILE"
    values = {
        "secret": f"{row.namespace}/{row.name}",
        "namespace": row.namespace,
        "key": key,
        "command": create,
    }
    if row.field.startswith("queue.") and inputs.plan.queue.chart is None:
        return result(row.field, Reason.SECRET_NOT_NEEDED, **values)
    live = inputs.api.get("v1", "Secret", row.name, row.namespace)
    if live is None:
        if row.for_jobs:
            return result(row.field, Reason.JOB_SECRET_MISSING, **values)
        there = inputs.api.get("v1", "Namespace", row.namespace) is not None
        return result(row.field, Reason.SECRET_MISSING if there else Reason.SECRET_LATER, **values)
    if row.key is None:
        return result(row.field, Reason.SECRET_THERE, **values)
    keys = sorted(live.get("data") or ())
    if row.key not in keys:
        return result(row.field, Reason.SECRET_NO_KEY, keys=", ".join(keys) or "none", **values)
    return result(row.field, Reason.SECRET_FOUND, **values)
