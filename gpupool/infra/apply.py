"""Manifests -> Pulumi resources, each after what it depends on.

Resources are registered by type token and plain values, which is what the classes of
pulumi_kubernetes send as well; importing those would cost seconds for nothing. No kind is treated
specially except by what `gpupool.generators.kinds` says of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import pulumi

from gpupool.generators.kinds import RELEASE, RELEASE_NEEDS, kind_of
from gpupool.generators.manifest import HelmRelease, Manifest
from gpupool.live.objects.resource_values import (
    RELEASE_TYPE,
    logical_name,
    properties,
    release_properties,
    type_token,
)


def goes_with(manifest: Manifest, others: Iterable[Manifest]) -> Manifest | None:
    """The namespace among `others` that takes `manifest` with it. Where it is deleted as well nothing is sent
    for `manifest`, which was most of the work; the end of a namespace is waited for."""
    if manifest.patch or kind_of(manifest.kind).runs_pods:
        return None
    return next((other for other in others if other.kind == "Namespace" and not other.patch), None)


class Dependencies:
    """Which of some manifests another one depends on. They are kept by kind and namespace, so that not all
    pairs are compared: of 4,000 objects these are 16 million."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        self._kinds: dict[str, dict[str | None, list[Manifest]]] = {}
        self._namespaces: dict[str, Manifest] = {}
        for manifest in manifests:
            self._kinds.setdefault(manifest.kind, {}).setdefault(manifest.namespace, []).append(manifest)
            if manifest.kind == "Namespace":
                self._namespaces[manifest.name] = manifest

    def of(self, manifest: Manifest) -> list[Manifest]:
        """Its namespace, and what of the kinds that it needs is of its own pool or namespace."""
        inside = self._namespaces.get(manifest.namespace or "")
        manifests = [] if inside is None else [inside]
        for kind in kind_of(manifest.kind).needs:
            places = self._kinds.get(kind, {})
            near = places.keys() if manifest.namespace is None else (None, manifest.namespace)
            manifests += [
                other for place in near for other in places.get(place, ()) if _concerns(manifest, other)
            ]
        return manifests


def _concerns(manifest: Manifest, other: Manifest) -> bool:
    """Whether the two are of one namespace, or else of one pool; what has no pool is near all."""
    if other.namespace is not None and manifest.namespace is not None:
        return manifest.namespace == other.namespace
    pool, its = manifest.labels.get("gpupool.dev/pool"), other.labels.get("gpupool.dev/pool")
    return pool is None or its is None or pool == its


def register(
    manifests: Sequence[Manifest],
    releases: Sequence[HelmRelease],
    provider: pulumi.ProviderResource,
    hooks: Mapping[str, pulumi.ResourceHookBinding],
) -> list[pulumi.Resource]:
    """Register everything with this stack. `hooks` are the ones to bind, by kind of the patched object."""
    made: dict[str, pulumi.Resource] = {}
    charts: list[pulumi.Resource] = []
    ordered = sorted(manifests, key=lambda manifest: manifest.key)
    dependencies = Dependencies(ordered)

    def make(manifest: Manifest) -> None:
        needed, kind = dependencies.of(manifest), kind_of(manifest.kind)
        waits = [made[logical_name(other)] for other in needed]
        holder, timeout = goes_with(manifest, needed), kind.delete_timeout
        options = pulumi.ResourceOptions(
            provider=provider,
            depends_on=[*waits, *charts] if RELEASE in kind.needs else waits,
            protect=manifest.protect or None,
            deleted_with=made[logical_name(holder)] if holder else None,
            # pulumi-kubernetes may not know all of them as immutable.
            replace_on_changes=list(kind.immutable) or None,
            delete_before_replace=True if kind.immutable else None,
            custom_timeouts=pulumi.CustomTimeouts(delete=timeout) if timeout else None,
            hooks=hooks.get(manifest.kind) if manifest.patch else None,
        )
        name = logical_name(manifest)
        made[name] = pulumi.CustomResource(type_token(manifest), name, properties(manifest), options)

    first = [m for m in ordered if m.kind == "Namespace" or m.kind in RELEASE_NEEDS]
    for manifest in first:
        make(manifest)
    before = list(made.values())
    for release in releases:
        options = pulumi.ResourceOptions(provider=provider, depends_on=before)
        name = f"Release/{release.name}"
        charts.append(pulumi.CustomResource(RELEASE_TYPE, name, release_properties(release), options))
    for manifest in ordered:
        if logical_name(manifest) not in made:
            make(manifest)
    return [*charts, *made.values()]


async def registered(resources: Iterable[pulumi.Resource]) -> None:
    """Wait until the engine has answered for each of `resources`, in whatever way: the SDK reports failures.

    Waiting itself, the SDK looks at everything that is outstanding whenever one part of it is done
    (pulumi 3.259, runtime/stack.py, wait_for_rpcs): 200 s of work for 4,000 objects.
    """
    await asyncio.gather(*(resource.urn.future() for resource in resources), return_exceptions=True)
