"""What runs beside the pools: the GPU Operator, the Prometheus operator, the charts, and the queue's image.

Charts are looked for with the machine's own Helm, because the engine pulls them from here as well. Whether a
node can pull an image can't be known from here.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from gpupool.adopt.doctor.model import CheckResult, DoctorInput, result
from gpupool.adopt.doctor.reasons import Reason
from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.generators.emit import yaml_text
from gpupool.generators.gpu_operator import lacking
from gpupool.generators.manifest import HelmRelease
from gpupool.live.objects import foreign_operator
from gpupool.programs import binaries

_PULL_SECONDS = 30
_MONITOR = ("monitoring.coreos.com/v1", "ServiceMonitor")
_RELEASE_NAME, _RELEASE_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
"""Annotations by which Helm knows its own objects (Helm 3)."""


def reservations(inputs: DoctorInput) -> Iterator[CheckResult]:
    """Where Karpenter's gate is on, what is reserved and named nowhere is paid for beside the nodes
    (Karpenter 1.6 and later, ReservedCapacity)."""
    assert inputs.plan is not None
    plan = inputs.plan
    if plan.cluster.platform != "eks" or plan.karpenter is None:
        yield result("reservations", Reason.RESERVATIONS_NONE)
        return
    count = sum(len(pool.reserved) for pool in plan.pools)
    yield result("reservations", Reason.RESERVATIONS_NAMED, count=count, region=plan.cluster.region)


def operator(inputs: DoctorInput) -> Iterator[CheckResult]:
    """Which GPU Operator there will be, and whether it would follow the pools."""
    assert inputs.api is not None
    assert inputs.plan is not None
    assert inputs.bundle is not None
    subject = "GPU Operator"
    if inputs.plan.cluster.platform == "local":
        yield result(subject, Reason.OPERATOR_LOCAL)
        return
    if not inputs.plan.uses_gpu_operator:
        yield result(subject, Reason.OPERATOR_CLOUD)
        return
    live, place = foreign_operator.find(inputs.api)
    release = next((row for row in inputs.bundle.releases if row.chart == "gpu-operator"), None)
    if release is not None:
        elsewhere = place is not None and place.namespace != release.namespace
        fields = ["install: false"]
        fields += [f"namespace: {place.namespace}"] if place is not None and elsewhere else []
        if live is None and place is not None and elsewhere:
            values = {"namespace": place.namespace, "sign": place.sign, "fields": ", ".join(fields)}
            yield result(subject, Reason.OPERATOR_ELSEWHERE, **values)
            return
        if live is None:
            yield result(subject, Reason.OPERATOR_COMES, version=release.version)
            return
        notes = live["metadata"].get("annotations") or {}
        owner = (notes.get(_RELEASE_NAMESPACE), notes.get(_RELEASE_NAME))
        ours = owner == (release.namespace, release.name)
        reason = Reason.OPERATOR_OURS if ours else Reason.OPERATOR_TWO
        full = f"{release.namespace}/{release.name}"
        name = live["metadata"]["name"]
        fields.insert(1, f"clusterPolicy: {name}")
        yield result(subject, reason, name=name, release=full, fields=", ".join(fields))
        return
    for patch in (row for row in inputs.bundle if row.patch and row.kind == "ClusterPolicy"):
        try:
            namespace = inputs.plan.gpu_operator.namespace
            foreign_operator.check(patch, inputs.api, namespace)
            yield result(subject, Reason.OPERATOR_FOREIGN, name=patch.name, namespace=namespace)
        except foreign_operator.UnfitError as error:
            yield result(subject, Reason.OPERATOR_UNFIT, name=patch.name, problem=error)
        missing = lacking(inputs.plan, live["spec"]) if live else {}
        if missing:
            yield result(subject, Reason.OPERATOR_LACKS, name=patch.name, values=yaml_text(missing))


def prometheus(inputs: DoctorInput) -> Iterator[CheckResult]:
    """The kind that ServiceMonitors are made of, where the file asks for some."""
    assert inputs.api is not None
    assert inputs.plan is not None
    chart = inputs.plan.queue.chart
    monitor = chart.values.get("serviceMonitor") if chart else None
    fields = {
        "monitoring.prometheusOperator": inputs.plan.monitoring.prometheus_operator,
        "queue.chart.values.serviceMonitor.enabled": isinstance(monitor, dict)
        and monitor.get("enabled") is True,
    }
    asking = [field for field, asks in fields.items() if asks]
    if not asking:
        yield result("Prometheus operator", Reason.PROMETHEUS_UNUSED)
        return
    version, kind = _MONITOR
    served = inputs.api.resource(version, kind) is not None
    reason = Reason.PROMETHEUS_FOUND if served else Reason.PROMETHEUS_MISSING
    yield result("Prometheus operator", reason, version=version, kind=kind, field=" and ".join(asking))


def charts(inputs: DoctorInput) -> Iterator[CheckResult]:
    """Whether each chart can be pulled from here."""
    assert inputs.bundle is not None
    if not inputs.bundle.releases:
        yield result("charts", Reason.CHARTS_NONE)
    helm = binaries.find("helm")
    for release in inputs.bundle.releases:
        inputs.notify(f"asking for the chart {release.chart}")
        command = show(release)
        values = {
            "version": release.version,
            "repository": release.repository,
            "command": " ".join(["helm", *command]),
        }
        if helm is None:
            reason = Reason.CHART_UNTRIED
        else:
            reason = Reason.CHART_FOUND if _succeeds(helm, command) else Reason.CHART_UNPULLED
        yield result(f"chart {release.chart}", reason, **values)


def show(release: HelmRelease, verb: tuple[str, ...] = ("show", "chart")) -> list[str]:
    """Arguments of Helm that pull the chart."""
    if release.repository.startswith("oci://"):
        place = [f"{release.repository.rstrip('/')}/{release.chart}"]
    else:
        place = [release.chart, "--repo", release.repository]
    return [*verb, *place, "--version", release.version]


def _succeeds(helm: Path, arguments: list[str]) -> bool:
    try:
        done = subprocess.run(
            [str(helm), *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_PULL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def queue(inputs: DoctorInput) -> Iterator[CheckResult]:
    """The queue's image, as far as the cluster shows that it can be pulled."""
    assert inputs.api is not None
    assert inputs.plan is not None
    settings = inputs.plan.queue
    if not settings.enabled:
        yield result("queue", Reason.QUEUE_OFF)
    elif settings.chart is None:
        yield result("queue", Reason.QUEUE_SERVED, env=inputs.env)
    else:
        image = settings.chart.image
        live = inputs.api.list("apps/v1", "Deployment", SYSTEM_NAMESPACE)
        running = any(
            container.get("image") == image
            for deployment in live
            if (deployment.get("status") or {}).get("availableReplicas")
            for container in deployment["spec"]["template"]["spec"]["containers"]
        )
        yield result("queue's image", Reason.IMAGE_RUNS if running else Reason.IMAGE_UNPULLED, image=image)
