"""Whether the cluster would accept an environment's objects: a server-side dry run of each.

The server authorizes a dry run like the write itself (Kubernetes documentation, API concepts: dry run), so
the account needs the rights of the engine that delivers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gpupool.generators.manifest import Manifest
from gpupool.live.cluster.beforehand import has_place, may
from gpupool.live.cluster.kube_api import ApiError, KubeApi

Report = Callable[[str], None]
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Refusal:
    """One object that the server does not accept."""

    object: Manifest
    message: str
    """What the server says."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What the server says of all of them."""

    refused: tuple[Refusal, ...]
    untried: tuple[Manifest, ...]
    """Those whose kind or namespace is not there yet, and those that are recreated where they change."""


def dry_run(api: KubeApi, manifests: Iterable[Manifest], manager: str, report: Report) -> DryRun:
    """Try every object as the engine with this field manager would apply it, several at once.

    Raises ApiError where the account may not do that.
    """
    rows = list(manifests)
    refused: list[Refusal] = []
    untried: list[Manifest] = []
    with ThreadPoolExecutor(_AT_ONCE, "dry-run") as pool:
        answers = pool.map(lambda manifest: _tried(api, manifest, manager), rows)
        for number, (manifest, answer) in enumerate(zip(rows, answers, strict=True), 1):
            report(f"{number} of {len(rows)}: {manifest}")
            if answer is None:
                untried.append(manifest)
            elif answer:
                refused.append(Refusal(manifest, answer))
    return DryRun(tuple(refused), tuple(untried))


def _tried(api: KubeApi, manifest: Manifest, manager: str) -> str | None:
    """Why the server refuses it, empty where it does not; None where it can't be tried."""
    if not _can_be_tried(api, manifest):
        return None
    try:
        api.apply(manifest.body, manager, force=True, dry_run=True)
    except ApiError as error:
        if error.reason == "Forbidden" and not _may_write(api, manifest):
            raise
        return str(error)
    return ""


def _can_be_tried(api: KubeApi, manifest: Manifest) -> bool:
    if not has_place(api, manifest.body):
        return False
    there = api.get(manifest.api_version, manifest.kind, manifest.name, manifest.namespace) is not None
    # A patch is for an object of somebody else's; what is immutable is deleted and made again.
    return there if manifest.patch else not (there and manifest.recreated)


def _may_write(api: KubeApi, manifest: Manifest) -> bool:
    """Whether a refusal was a policy's, and not for lack of rights."""
    return may(
        api,
        group=manifest.api_version.rpartition("/")[0],
        resource=api.require(manifest.api_version, manifest.kind).plural,
        verb="patch",
        name=manifest.name,
        namespace=manifest.namespace or "",
    )
