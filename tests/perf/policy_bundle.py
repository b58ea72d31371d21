"""A bundle of manifests of any size for the policy figures, the same on every machine.

Seven kinds in fixed shares, of which one in nineteen breaks a rule of policy_rules. It must not read the
policies or evaluate anything: conftest and Kyverno get the same files as we do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Body = dict[str, Any]
SHARES = {
    "Deployment": 24,
    "Job": 22,
    "Pod": 20,
    "CronJob": 10,
    "Service": 14,
    "ConfigMap": 8,
    "NodePool": 2,
}
"""How many of every hundred objects are of a kind."""
BREAKS_EVERY = 19
"""One object in so many breaks the rule that its number chooses."""
_PER_FILE = 100
_POOLS = ("a100-shared", "h100-mig", "t4-sliced", "l4-whole")


class _Dumper(yaml.CSafeDumper):
    """Texts of several lines as blocks and schedules in quotes, as people write them."""


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else '"' if "*" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def write(folder: Path, objects: int) -> Path:
    """Write so many objects into `folder`, a hundred in a file, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    bodies = itertools.islice(manifests(), objects)
    for start in range(0, objects, _PER_FILE):
        chunk = itertools.islice(bodies, _PER_FILE)
        text = yaml.dump_all(chunk, Dumper=_Dumper, sort_keys=False, explicit_start=True)
        (folder / f"objects-{start // _PER_FILE:04}.yaml").write_text(text)
    return folder


def manifests() -> Iterator[Body]:
    """Objects without end; the first so many are the same whatever comes after."""
    order = _interleaved()
    for number in itertools.count():
        kind = order[number % len(order)]
        yield _MAKERS[kind](number, number % BREAKS_EVERY == 0)


def _interleaved() -> list[str]:
    """The kinds of a hundred objects, mixed, so that any part of a bundle is like the whole."""
    places = [((turn + 0.5) / share, kind) for kind, share in SHARES.items() for turn in range(share)]
    return [kind for _, kind in sorted(places)]


def _meta(number: int, name: str, namespaced: bool = True) -> Body:
    meta: Body = {
        "name": f"{name}-{number:05}",
        "labels": {
            "app.kubernetes.io/name": f"{name}-{number % 37}",
            "app.kubernetes.io/component": ("trainer", "server", "loader")[number % 3],
            "example.dev/team": f"team-{number % 29:02}",
        },
        "annotations": {
            "example.dev/owner": f"owner-{number % 29:02}@example.dev",
            "example.dev/budget": str(100 + number % 900),
        },
    }
    if namespaced:
        meta["namespace"] = f"team-{number % 29:02}"
    return meta


def _container(number: int, breaks: bool) -> Body:
    slices = 2 if breaks and number % 7 == 0 else 1
    tag = "latest" if breaks and number % 7 == 1 else f"1.{number % 50}.{number % 9}"
    memory = "900Gi" if breaks and number % 7 == 2 else f"{8 + number % 56}Gi"
    return {
        "name": "work",
        "image": f"registry.example.dev/team-{number % 29:02}/work:{tag}",
        "env": [
            {"name": "RUN", "value": f"run-{number}"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "LEVEL", "value": "info"},
        ],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {
            "requests": {"cpu": "4", "memory": memory, "nvidia.com/gpu": "1"},
            "limits": {"cpu": "4", "memory": memory, "nvidia.com/gpu": str(slices)},
        },
        "securityContext": {
            "privileged": breaks and number % 7 == 3,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }


def _side_container(number: int) -> Body:
    return {
        "name": "proxy",
        "image": f"registry.example.dev/proxy:2.{number % 11}.0",
        "resources": {
            "requests": {"cpu": "100m", "memory": "64Mi"},
            "limits": {"cpu": "100m", "memory": "64Mi"},
        },
        "securityContext": {"privileged": False, "allowPrivilegeEscalation": False},
    }


def _pod_spec(number: int, breaks: bool, restart: str) -> Body:
    pool = _POOLS[number % len(_POOLS)]
    volume: Body = {"persistentVolumeClaim": {"claimName": f"data-{number % 29:02}"}}
    if breaks and number % 7 == 4:
        volume = {"hostPath": {"path": "/var/data"}}
    spec: Body = {
        "restartPolicy": restart,
        "nodeSelector": {"example.dev/pool": pool},
        "tolerations": [{"key": "example.dev/pool", "operator": "Equal", "value": pool}],
        "priorityClassName": ("batch", "normal")[number % 2],
        "containers": [_container(number, breaks)],
        "volumes": [{"name": "data", **volume}],
    }
    if breaks and number % 7 == 5:
        del spec["nodeSelector"]
    if breaks and number % 7 == 6:
        spec["tolerations"] = []
    if number % 3 == 0:
        spec["containers"].append(_side_container(number))
    return spec


def _template(number: int, breaks: bool, restart: str) -> Body:
    labels = {"app.kubernetes.io/name": f"work-{number % 37}", "example.dev/team": f"team-{number % 29:02}"}
    return {"metadata": {"labels": labels}, "spec": _pod_spec(number, breaks, restart)}


def _deployment(number: int, breaks: bool) -> Body:
    spec = {
        "replicas": 1 + number % 5,
        "selector": {"matchLabels": {"app.kubernetes.io/name": f"work-{number % 37}"}},
        "template": _template(number, breaks, "Always"),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta(number, "serve"),
        "spec": spec,
    }


def _job_spec(number: int, breaks: bool) -> Body:
    spec: Body = {
        "backoffLimit": number % 4,
        "activeDeadlineSeconds": 3600 * (1 + number % 24),
        "ttlSecondsAfterFinished": 86400,
        "template": _template(number, breaks, "Never"),
    }
    if breaks and number % 3 == 0:
        del spec["ttlSecondsAfterFinished"]
    return spec


def _job(number: int, breaks: bool) -> Body:
    spec = _job_spec(number, breaks)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _meta(number, "train"), "spec": spec}


def _cron_job(number: int, breaks: bool) -> Body:
    spec = {
        "schedule": f"{number % 60} {number % 24} * * *",
        "concurrencyPolicy": "Forbid",
        "jobTemplate": {"spec": _job_spec(number, breaks)},
    }
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": _meta(number, "nightly"), "spec": spec}


def _pod(number: int, breaks: bool) -> Body:
    spec = _pod_spec(number, breaks, "Never")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _meta(number, "probe"), "spec": spec}


def _service(number: int, breaks: bool) -> Body:
    spec = {
        "type": "LoadBalancer" if breaks else "ClusterIP",
        "selector": {"app.kubernetes.io/name": f"work-{number % 37}"},
        "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": _meta(number, "serve"), "spec": spec}


def _config_map(number: int, breaks: bool) -> Body:
    data = {
        f"part-{part}.conf": "".join(f"key-{row} = {number * row % 991}\n" for row in range(22))
        for part in range(3)
    }
    if breaks:
        data["password"] = "not-so-secret"
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(number, "settings"), "data": data}


def _node_pool(number: int, breaks: bool) -> Body:
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p4d.24xlarge"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    ]
    node_class = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}
    template = {"nodeClassRef": node_class, "requirements": requirements, "expireAfter": "720h"}
    spec: Body = {
        "template": {"spec": template},
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"},
    }
    if not breaks:
        spec["limits"] = {"nvidia.com/gpu": "64"}
    meta = _meta(number, "pool", namespaced=False)
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": meta, "spec": spec}


_MAKERS = {
    "Deployment": _deployment,
    "Job": _job,
    "Pod": _pod,
    "CronJob": _cron_job,
    "Service": _service,
    "ConfigMap": _config_map,
    "NodePool": _node_pool,
}
