"""What is around the pools: what a cluster writes on every object, where the cluster is, and whether the file
that was written is sound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gpupool.adopt.convert.account import ConversionAccount, Part
from gpupool.adopt.convert.cluster_objects import ClusterObjects, ours
from gpupool.adopt.convert.draft import Choices, Draft, about
from gpupool.adopt.convert.karpenter_pools import Fleet
from gpupool.adopt.convert.spec_words import fits
from gpupool.environment.plan.model import MANAGED_BY
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.findings import Finding, SpecError

_SERVER = (
    *(("status",), ("metadata", "uid"), ("metadata", "resourceVersion"), ("metadata", "generation")),
    *(("metadata", "creationTimestamp"), ("metadata", "managedFields"), ("metadata", "selfLink")),
    *(
        ("metadata", "finalizers"),
        ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"),
    ),
)
"""Fields that an API server, its clients and controllers keep for themselves."""
_PACKAGER = ("app.kubernetes.io/", "helm.sh/")
"""Labels by which Helm and similar tools recognize their own objects."""
_CONTROLLERS = ("karpenter.sh/", "karpenter.k8s.aws/", "karpenter.kwok.sh/", "meta.helm.sh/", "pulumi.com/")
_ROLE, _PROFILE = "KarpenterNodeRole-", "KarpenterNodeInstanceProfile-"
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]+")


def account_for(part: Part) -> None:
    """Mark what is not a setting of an object: fields that the server writes, and gpupool's own labels."""
    for path in _SERVER:
        part.at(*path).of_cluster()
    for key, label in part.at("metadata", "labels").items():
        if key.startswith("gpupool.dev/") or (key == MANAGED_BY and label.value == "gpupool"):
            label.derived()
        elif key.startswith(_PACKAGER) and part.document.kind:
            label.of_cluster()
    for key, annotation in part.at("metadata", "annotations").items():
        if key.startswith(_CONTROLLERS):
            annotation.of_cluster()


def place(
    draft: Draft,
    fleets: Sequence[Fleet],
    cluster: ClusterObjects,
    choices: Choices,
    account: ConversionAccount,
) -> None:
    """The draft's cluster: its name, region and version, and what machines need on EKS."""
    draft.kubernetes_version = choices.kubernetes_version
    tag, role = draft.karpenter.get("discoveryTag"), str(draft.karpenter.get("nodeRole", ""))
    suffix = role.removeprefix(_ROLE) if role.startswith(_ROLE) else ""
    said = (choices.cluster, draft.cluster_name, tag, suffix, choices.likely_cluster)
    names = [name for name in said if name and fits("name", name)]
    draft.cluster_name = names[0] if names else draft.name
    if not names:
        why = f"no input names the cluster: {draft.cluster_name} was written"
        account.note(about(draft, "cluster.name", why, "correct it"))
    if tag == draft.cluster_name:
        del draft.karpenter["discoveryTag"]
    draft.region = choices.region or _region(draft, fleets, cluster)
    if draft.platform == "eks":
        _eks(draft, fleets, account)


def _region(draft: Draft, fleets: Sequence[Fleet], cluster: ClusterObjects) -> str | None:
    regions = [fleet.bought.region for fleet in fleets if fleet.bought.region]
    regions += [match[0] for pool in draft.pools for zone in pool.zones if (match := _REGION.match(zone))]
    return [*regions, *cluster.regions(), None][0] if draft.platform == "eks" else None


def _eks(draft: Draft, fleets: Sequence[Fleet], account: ConversionAccount) -> None:
    if draft.region is None:
        draft.region = "us-east-1"
        why = "no input names the region: us-east-1 was written"
        account.note(about(draft, "cluster.region", why, "correct it"))
    for pool in draft.pools:
        outside = [zone for zone in pool.zones if not zone.startswith(draft.region)]
        if outside:
            pool.zones = [zone for zone in pool.zones if zone not in outside]
            why = f"{', '.join(outside)} of pool {pool.name} are not in region {draft.region}: left out"
            account.note(about(draft, "pools", why, "name zones of the region", "wrong"))
    if not draft.karpenter.get("nodeRole"):
        draft.karpenter["nodeRole"] = _ROLE + str(draft.cluster_name)
        role = draft.karpenter["nodeRole"]
        why = f"no input names the nodes' IAM role: {role} was written, as in Karpenter's guide"
        account.note(about(draft, "karpenter.nodeRole", why, "correct it"))
    _controller(draft, fleets, account)


def _controller(draft: Draft, fleets: Sequence[Fleet], account: ConversionAccount) -> None:
    """Set `karpenter.install`: no object says who installs Karpenter, but pools of others show that others
    do."""
    if any(fleet.part.document.api_version != "karpenter.sh/v1" for fleet in fleets):
        why = "gpupool installs Karpenter 1.14, which reads v1 objects only"
        remediation = "remove the old release and its objects after the pools have moved"
    elif any(ours(fleet.part) for fleet in fleets):
        why, remediation = "no object shows who installs Karpenter", "write install: false if others do"
    elif any(fleet.part.document.source is None for fleet in fleets):
        draft.karpenter["install"] = False
        why = "its pools are not gpupool's, so others run Karpenter: false was written"
        remediation = "enable its feature gate NodeOverlay"
    else:
        why = "gpupool installs Karpenter 1.14"
        remediation = "write install: false if it already runs, and enable its feature gate NodeOverlay"
    if fleets:
        account.note(about(draft, "karpenter.install", why, remediation))


def check(text: str, draft: Draft, account: ConversionAccount) -> tuple[Finding, ...]:
    """What `gpupool validate` says of `text`; each finding is listed as something to do."""
    findings: tuple[Finding, ...] = ()
    try:
        resolve(check_shape(parse_source(f"{draft.name}.yaml", text.encode())))
    except SpecError as error:
        findings = error.findings
    for finding in findings:
        entry = about(draft, finding.path, finding.what, finding.remediation, "todo")
        account.note(replace(entry, line=finding.line, column=finding.column))
    return findings
