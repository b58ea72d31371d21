"""Manifest -> what Pulumi's Kubernetes provider gets: type tokens, stable names, values, the fields' owner.

Plain values: nothing here loads Pulumi, so that what only compares (`gpupool assert`, a report) does without.
`apply` registers them.
"""

from __future__ import annotations

import re
from typing import Any

from gpupool.generators.kinds import kind_of
from gpupool.generators.manifest import HelmRelease, Manifest
from gpupool.live.objects.owner import FIELD_MANAGER

FIELD_MANAGER_ANNOTATION = "pulumi.com/patchFieldManager"
"""Makes pulumi-kubernetes own fields under one name instead of a random one per object."""

RELEASE_TYPE = "kubernetes:helm.sh/v3:Release"

_CONTENT_HASH = re.compile(r"-[0-9a-f]{10}$")


def logical_name(manifest: Manifest) -> str:
    """The resource's name in Pulumi: `NodePool/research-a100`, `ResourceQuota/team-vision/gpupool`.

    A ConfigMap named after its content keeps one name here whatever the content, so that Pulumi makes the
    new one, moves its readers over, and only then deletes the old one.
    """
    name = manifest.name
    if manifest.kind == "ConfigMap":
        name = _CONTENT_HASH.sub("", name)
    return "/".join(filter(None, (manifest.kind, manifest.namespace, name)))


def type_token(manifest: Manifest) -> str:
    """`kubernetes:karpenter.sh/v1:NodePool`; the core group is called core."""
    group = manifest.api_version if "/" in manifest.api_version else f"core/{manifest.api_version}"
    return f"kubernetes:{group}:{manifest.kind}{'Patch' if manifest.patch else ''}"


def properties(manifest: Manifest) -> dict[str, Any]:
    """What the provider gets: the body, with the name under which its fields are owned."""
    metadata = dict(manifest.body["metadata"])
    notes = {FIELD_MANAGER_ANNOTATION: FIELD_MANAGER}
    if not kind_of(manifest.kind).awaited:
        notes["pulumi.com/skipAwait"] = "true"
    if not kind_of(manifest.kind).dependents:
        # In the foreground each deletion is two writes more, and of a NodeOverlay a new generation, for
        # which Karpenter judges all the others again.
        notes["pulumi.com/deletionPropagationPolicy"] = "background"
    metadata["annotations"] = {**metadata.get("annotations", {}), **notes}
    return {**manifest.body, "metadata": metadata}


def release_properties(release: HelmRelease) -> dict[str, Any]:
    """A chart as pulumi-kubernetes' Helm Release takes it (an oci:// chart carries its repository)."""
    oci = release.repository.startswith("oci://")
    return {
        "name": release.name,
        "namespace": release.namespace,
        "chart": f"{release.repository.rstrip('/')}/{release.chart}" if oci else release.chart,
        **({} if oci else {"repositoryOpts": {"repo": release.repository}}),
        "version": release.version,
        "values": dict(release.values),
        "compat": "true",
    }
