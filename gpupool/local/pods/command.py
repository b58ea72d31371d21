"""What the process of a pod is started with, from its spec: command line and environment.

It starts nothing. References and fields follow the API reference of Pod (Kubernetes 1.36: EnvVarSource,
EnvFromSource, Container.command), and `$(NAME)` stands for variables that the pod declares, never for those
that its image brings.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.environment import workspace
from gpupool.environment.expansion import expanded

Object = dict[str, Any]
Read = Callable[[str, str], Awaitable[Object | None]]
"""Get `secrets` or `configmaps` of the pod's namespace by name; None where there is none."""

ADDRESS = "127.0.0.1"
"""Of every pod and node."""
_PLAIN_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
)
_ENTRY = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class UnsupportedPod(Exception):
    """The pod uses a feature that the pod runner does not have; the message names it."""


class NotYetError(Exception):
    """A Secret or ConfigMap that the pod needs is not there, or its key is not."""


@dataclass(frozen=True)
class PodCommand:
    """A program and its surroundings."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


def check(pod: Object) -> None:
    """Raise Refused for what is not run here."""
    spec = pod["spec"]
    if spec.get("restartPolicy") != "Never":
        raise UnsupportedPod(
            f"restartPolicy is {spec.get('restartPolicy')}; pods that run locally must have Never"
        )
    if spec.get("initContainers") or len(spec["containers"]) > 1:
        raise UnsupportedPod(
            "it has several containers; pods that run locally have one, and no init containers"
        )
    if not spec["containers"][0].get("command"):
        raise UnsupportedPod(
            "its container has no command; the image of a pod that runs locally is not used, so set command"
        )


def claims(pod: Object) -> list[str]:
    """Names of the PersistentVolumeClaims that the pod mounts."""
    volumes = pod["spec"].get("volumes") or []
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in volumes
        if "persistentVolumeClaim" in volume
    ]


def volume_variable(claim: str) -> str:
    """The environment variable that holds the folder of a claim."""
    return "GPUPOOL_VOLUME_" + re.sub("[-.]", "_", claim).upper()


async def prepare(pod: Object, base: Mapping[str, str], read: Read) -> PodCommand:
    """The pod's command with the variables of `base`, which the pod may override. Nothing is mounted: HOME of
    `base` stands for the queue's scratch volume, in the variables that lead there.

    Raises UnsupportedPod, and NotYetError where a reference can't be resolved now.
    """
    check(pod)
    container = pod["spec"]["containers"][0]
    declared: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        for resource, key in (("secrets", "secretRef"), ("configmaps", "configMapRef")):
            if key in source:
                found = await _values(resource, source[key], read)
                declared |= {source.get("prefix", "") + name: value for name, value in found.items()}
    for variable in container.get("env") or []:
        value = await _value(pod, variable, declared, read)
        if value is not None:
            declared[variable["name"]] = workspace.moved(variable["name"], value, base["HOME"])
    words = [*container["command"], *(container.get("args") or [])]
    return PodCommand(tuple(expanded(word, declared) for word in words), {**base, **declared})


async def _value(pod: Object, variable: Object, known: Mapping[str, str], read: Read) -> str | None:
    """The value of one entry of `env`; None for an optional reference to nothing."""
    source = variable.get("valueFrom")
    if not source:
        return expanded(variable.get("value") or "", known)
    if "fieldRef" in source:
        return _field(pod, source["fieldRef"]["fieldPath"])
    for resource, kind in (("secrets", "secretKeyRef"), ("configmaps", "configMapKeyRef")):
        if kind in source:
            reference = source[kind]
            found = await _values(resource, reference, read)
            if reference["key"] not in found and not reference.get("optional"):
                raise NotYetError(f'{resource[:-1]} "{reference["name"]}" has no key {reference["key"]}')
            return found.get(reference["key"])
    raise UnsupportedPod(
        f"env {variable['name']}: {', '.join(source)} is not supported for pods that run locally"
    )


async def _values(resource: str, reference: Object, read: Read) -> dict[str, str]:
    found = await read(resource, reference["name"])
    if found is None:
        if reference.get("optional"):
            return {}
        raise NotYetError(f'{resource[:-1]} "{reference["name"]}" not found')
    data: dict[str, str] = found.get("data") or {}
    if resource == "configmaps":
        return data
    return {key: base64.b64decode(text).decode(errors="surrogateescape") for key, text in data.items()}


def _field(pod: Object, path: str) -> str:
    entry = _ENTRY.fullmatch(path)
    if entry:
        return str((pod["metadata"].get(entry[1]) or {}).get(entry[2], ""))
    if path in ("status.podIP", "status.hostIP"):
        return ADDRESS
    if path not in _PLAIN_FIELDS:
        raise UnsupportedPod(f"fieldRef {path} is not supported for pods that run locally")
    part, name = path.split(".")
    return str(pod[part].get(name, ""))
