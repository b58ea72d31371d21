"""Whether the cluster serves every kind that the environment has, and whether Karpenter acts on all of them.

Which kinds these are follows from the manifests; what brings a kind is in `gpupool.generators.kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpupool.adopt.doctor.model import CheckResult, DoctorInput, result
from gpupool.adopt.doctor.reasons import Reason
from gpupool.generators.kinds import kind_of
from gpupool.generators.manifest import Manifest
from gpupool.live.cluster.karpenter_gates import is_on
from gpupool.live.cluster.kube_api import KubeApi

_KARPENTER = "app.kubernetes.io/name=karpenter"
"""What Karpenter's chart labels its Deployment with (chart karpenter v1.14.1)."""
_RESERVED = ("karpenter.sh/capacity-type", "reserved")


def _has_reserved(manifest: Manifest) -> bool:
    spec = manifest.body.get("spec") or {}
    template = (spec.get("template") or {}).get("spec") or {}
    key, value = _RESERVED
    return "capacityReservationSelectorTerms" in spec or any(
        row.get("key") == key and value in (row.get("values") or ())
        for row in (*(template.get("requirements") or ()), *(spec.get("requirements") or ()))
    )


GATES: Mapping[str, Callable[[Manifest], bool]] = {
    "NodeOverlay": lambda manifest: manifest.kind == "NodeOverlay",
    "ReservedCapacity": _has_reserved,
}
"""Feature gates of Karpenter, and which manifests need each."""


def kinds(inputs: DoctorInput) -> Iterator[CheckResult]:
    """How many kinds are served, and each that is not."""
    assert inputs.api is not None
    assert inputs.bundle is not None
    used = dict.fromkeys((manifest.api_version, manifest.kind) for manifest in inputs.bundle)
    charts = {release.chart for release in inputs.bundle.releases}
    served = 0
    for version, kind in used:
        if inputs.api.resource(version, kind) is not None:
            served += 1
        else:
            yield _unserved(inputs, inputs.api, version, kind, charts)
    yield result("kinds", Reason.KINDS_SERVED, count=served, used=len(used))


def _unserved(inputs: DoctorInput, api: KubeApi, version: str, kind: str, charts: set[str]) -> CheckResult:
    assert inputs.target is not None
    chart = kind_of(kind).chart
    if chart is None:
        return result(kind, Reason.KIND_TOO_OLD, version=version)
    if inputs.target.cluster.platform == "local":
        return result(kind, Reason.KIND_LOCAL_MISSING)
    if served := list(_versions(api, version, kind)):
        return result(kind, Reason.KIND_OTHER_VERSION, served=", ".join(served), version=version, chart=chart)
    if chart in charts:
        return result(kind, Reason.KIND_COMES, chart=chart)
    return result(kind, Reason.KIND_MISSING, version=version, chart=chart)


def _versions(api: KubeApi, version: str, kind: str) -> Iterator[str]:
    """The versions of the group of `version` in which the server has the kind."""
    group = version.rpartition("/")[0]
    for row in api.request("GET", "/apis")[1]["groups"]:
        if row["name"] == group:
            names = (entry["groupVersion"] for entry in row["versions"])
            yield from (name for name in names if api.resource(name, kind) is not None)


def gates(inputs: DoctorInput) -> Iterator[CheckResult]:
    """Whether Karpenter has the gates on that the manifests need."""
    assert inputs.api is not None
    assert inputs.bundle is not None
    assert inputs.target is not None
    needed = [gate for gate, needs in GATES.items() if any(map(needs, inputs.bundle))]
    if not needed:
        yield result("Karpenter", Reason.GATES_NONE)
        return
    if inputs.target.cluster.platform == "local":
        yield from (result(gate, Reason.GATE_LOCAL) for gate in needed)
        return
    chart = next((release for release in inputs.bundle.releases if release.chart == "karpenter"), None)
    deployments = inputs.api.list("apps/v1", "Deployment", selector=_KARPENTER)
    for gate in needed:
        if chart is not None:
            yield result(gate, Reason.GATE_COMES, version=chart.version)
        elif not deployments:
            yield result(gate, Reason.KARPENTER_UNSEEN, gate=gate)
        else:
            yield from (_in(deployment, gate) for deployment in deployments)


def _in(deployment: Mapping[str, Any], gate: str) -> CheckResult:
    metadata = deployment["metadata"]
    reason = Reason.GATE_ON if is_on(deployment, gate) else Reason.GATE_OFF
    return result(gate, reason, gate=gate, where=f"{metadata['namespace']}/{metadata['name']}")
