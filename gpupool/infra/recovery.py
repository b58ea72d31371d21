"""What an interrupted run leaves behind, and how the next one gets past it.

Two things in the state: operations noted as begun and never as ended; objects that were made but never
noted, which the provider takes over. The state itself is never edited but for the notes. `locks` and
`state_files` handle left-over locks and files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.findings import GpupoolError, UsageError
from gpupool.live.cluster.kube_api import KubeApi


class OtherClusterError(GpupoolError):
    """The current cluster is not the one that the stack was applied to."""


class ProtectedError(GpupoolError):
    """The run would delete something that is protected; the text says how to consent."""


@dataclass(frozen=True)
class Losses:
    """Protected things that a run would delete."""

    urns: tuple[str, ...] = ()
    """Those in the state."""
    refused: str | None = None
    """Why `up` refuses, and how to consent; None where all that would go is allowed."""


NO_LOSSES = Losses()


def pending(deployment: Mapping[str, Any]) -> list[str]:
    """Operations that were begun and never ended, as `creating NodePool/a100`."""
    rows = deployment.get("pending_operations") or ()
    return [f"{row['type']} {name_of(row['resource']['urn'])}" for row in rows]


def begun(deployment: Mapping[str, Any]) -> frozenset[str]:
    """Names in Pulumi of what those operations are about."""
    rows = deployment.get("pending_operations") or ()
    return frozenset(name_of(row["resource"]["urn"]) for row in rows)


def recorded(deployment: Mapping[str, Any]) -> frozenset[str]:
    """Names in Pulumi of everything in the state."""
    return frozenset(name_of(row["urn"]) for row in deployment.get("resources") or ())


def without_pending(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """The state with those notes taken out: the next run does over what they were about."""
    return {key: value for key, value in deployment.items() if key != "pending_operations"}


def has_hooks(deployment: Mapping[str, Any]) -> bool:
    """Whether something in the state must be deleted with the program running."""
    return any(row.get("resourceHooks") for row in deployment.get("resources") or ())


def protected(deployment: Mapping[str, Any]) -> dict[str, str]:
    """Name in Pulumi -> URN of everything that is protected."""
    rows = deployment.get("resources") or ()
    return {name_of(row["urn"]): row["urn"] for row in rows if row.get("protect")}


def losses(deployment: Mapping[str, Any], kept: Iterable[str]) -> dict[str, str]:
    """Protected things that the next `up` would delete, because `kept` does not name them."""
    names = set(kept)
    return {name: urn for name, urn in protected(deployment).items() if name not in names}


def consent(lost: Iterable[str], environment: str) -> str | None:
    """The message when something protected would be deleted: how to consent. None where nothing would."""
    names = sorted(lost)
    if not names:
        return None
    flags = " ".join(f"--allow-delete {name}" for name in names)
    return (
        f"up would delete {', '.join(names)} and everything in it, so it refuses; restore it in the file, "
        f"or confirm with: gpupool up {environment} {flags}"
    )


def require_going(allowed: Iterable[str], deployment: Mapping[str, Any], kept: Iterable[str]) -> None:
    """Raise UsageError when a name in `allowed` names nothing that the next `up` would delete.

    What goes and is protected no more counts as well: a run that was stopped after the consent is
    repeated with the same words.
    """
    names = set(kept)
    going = recorded(deployment) - names
    wrong = sorted(set(allowed) - going)
    if wrong:
        lost = ", ".join(sorted(losses(deployment, names)))
        able = (
            f"it would delete {lost}" if lost else "nothing protected would be deleted, so remove the option"
        )
        raise UsageError(f"--allow-delete {', '.join(wrong)}: up would not delete that; {able}")


def require_same_cluster(deployment: Mapping[str, Any], api: KubeApi, environment: str) -> None:
    """Raise OtherClusterError when none of the stack's namespaces is in the cluster that `api` reaches.

    A kubeconfig's current context changes easily, and applying to another cluster would delete nothing
    here and remember everything wrongly. Raises UnreachableError when the cluster does not answer.
    """
    known = {}
    for row in deployment.get("resources") or ():
        if row.get("type") == "kubernetes:core/v1:Namespace" and not row.get("delete"):
            metadata = (row.get("outputs") or {}).get("metadata") or {}
            known[str(metadata.get("name"))] = metadata.get("uid")
    for name, uid in known.items():
        live = api.get("v1", "Namespace", name)
        if live is not None and live["metadata"]["uid"] == uid:
            return
    if known:
        raise OtherClusterError(
            f"{api.server} (context {api.context}) has none of the namespaces that {environment} was "
            f"applied to ({', '.join(sorted(known))}): this is another cluster, or everything was deleted. "
            "Check the context (cluster.kubeContext pins it); if everything was deleted, run: "
            f"gpupool refresh {environment}"
        )


def name_of(urn: str) -> str:
    """The last part of a URN: the name in Pulumi."""
    return urn.rpartition("::")[2]
