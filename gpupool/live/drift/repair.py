"""What fixes differences, as it is printed, and as the tests run it: a `Command` for a shell, or, where no
command can do it alone, instructions in words, which are plain text.

Nothing is run here. `up` alone would not see an edit by hand, because the engine compares the file with what
it noted last; so `refresh` goes first. Where Argo CD or Flux delivers, they are asked to apply again.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NewType

from gpupool.environment.plan.model import Plan
from gpupool.generators.delivery import ENGINES
from gpupool.generators.manifest import Bundle, Part
from gpupool.live.objects.changes import Step

Command = NewType("Command", str)
"""One line for a shell, which may be joined to others with `&&`."""


def restore(plan: Plan, env: str, parts: Iterable[Part] = ()) -> Command:
    """Bring everything to what the file says, edits by hand included. Where Argo CD or Flux delivers, `parts`
    are what has to be restored: charts and objects are not all delivered by the same."""
    engine = ENGINES.get(plan.delivery.engine)
    if engine is not None:
        return Command(engine.resync(plan, tuple(parts)))
    name = shlex.quote(env)
    return Command(f"gpupool refresh {name} && gpupool up {name}")


def apply(plan: Plan, env: str, *options: str, parts: Iterable[Part] = ()) -> str:
    """Apply the file where no object was edited by hand: a command, or instructions where Argo CD or Flux
    delivers, since a commit is needed. `parts`: see `restore`."""
    if plan.delivery.gitops:
        render = f"gpupool render {shlex.quote(env)} -o {shlex.quote(plan.delivery.path)}"
        return f"{render}, commit it, then {restore(plan, env, parts)}"
    return " ".join(["gpupool up", shlex.quote(env), *options])


def define(plan: Plan, env: str, bundle: Bundle, api_version: str) -> str:
    """Install the definition of a kind that the server has lost: neither `refresh` nor `up` brings one. A
    command, or instructions where no chart of the environment has the definition.

    The embedded control plane serves all of them again when it starts; a chart has its own (helm show crds,
    Helm 3 documentation; Helm itself does not install them again on an upgrade).
    """
    if plan.cluster.platform == "local":
        return all_of(Command("gpupool local up"), restore(plan, env))
    group = api_version.partition("/")[0]
    chart = next((name for end, name in _CHARTS.items() if group.endswith(end)), None)
    release = next((release for release in bundle.releases if release.chart == chart), None)
    if release is None:
        return f"install the CRD of {api_version} again, then {restore(plan, env)}"
    where = f"{chart} --repo {release.repository}"
    if release.repository.startswith("oci://"):
        where = f"{release.repository.rstrip('/')}/{chart}"
    crds = f"helm show crds {where} --version {release.version}"
    install = Command(f"{crds} | kubectl apply --server-side --force-conflicts -f -")
    return all_of(install, restore(plan, env))


_CHARTS: Mapping[str, str] = {
    "karpenter.sh": "karpenter",
    "karpenter.k8s.aws": "karpenter",
    "nvidia.com": "gpu-operator",
}
"""API group -> the chart that has its CRDs."""


def delete(kind: str, name: str, namespace: str | None = None) -> Command:
    """Delete one object. `kind` as kubectl takes it."""
    where = f"-n {shlex.quote(namespace)} " if namespace else ""
    return Command(f"kubectl {where}delete {kind.lower()} {shlex.quote(name)}")


def remove_field(kind: str, name: str, namespace: str | None, path: Iterable[Step]) -> Command:
    """Take one field out of an object."""
    return _patch(kind, name, namespace, {"op": "remove", "path": _pointer(path)})


def set_field(kind: str, name: str, namespace: str | None, path: Iterable[Step], value: Any) -> Command:
    """Set one field of an object, even if another manager owns it."""
    return _patch(kind, name, namespace, {"op": "replace", "path": _pointer(path), "value": value})


def _pointer(path: Iterable[Step]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _patch(kind: str, name: str, namespace: str | None, change: Mapping[str, Any]) -> Command:
    patch = shlex.quote(json.dumps([change]))
    where = f"-n {shlex.quote(namespace)} " if namespace else ""
    return Command(f"kubectl {where}patch {kind.lower()} {shlex.quote(name)} --type=json -p {patch}")


def label(node: str, key: str, value: str | None) -> Command:
    """Set, or (None) remove, a label of a node."""
    if value is None:
        return Command(f"kubectl label node {node} {key}-")
    return Command(f"kubectl label node {node} {key}={value} --overwrite")


def taint(node: str, key: str, value: str, effect: str) -> Command:
    """Put a taint on a node, in the place of one with the same key and effect."""
    text = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
    return Command(f"kubectl taint node {node} {text} --overwrite")


def untaint(node: str, key: str, effect: str) -> Command:
    """Take a taint off a node."""
    return Command(f"kubectl taint node {node} {key}:{effect}-")


def repartition(env: str, pool: str) -> Command:
    """Bring the pool's nodes to the file's layout or replicas, one after the other, jobs first."""
    return Command(f"gpupool repartition {shlex.quote(env)} {pool}")


def all_of(*commands: Command) -> Command:
    """One after the other, each only if the one before it went well."""
    return Command(" && ".join(commands))


def wait_label(node: str, key: str, value: str) -> Command:
    """Wait until a node's label has a value."""
    escaped = key.replace(".", "\\.")
    path = f"{{.metadata.labels.{escaped}}}"
    return Command(f"kubectl wait --for=jsonpath='{path}'={value} node/{node} --timeout=15m")
