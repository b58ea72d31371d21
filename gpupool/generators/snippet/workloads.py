"""The object of each kind of workload, complete but for image and command.

Sources for kinds that are not Kubernetes' own: ray.io/v1 RayCluster (KubeRay), sparkoperator.k8s.io/v1beta2
SparkApplication, kubeflow.org/v1 PyTorchJob, argoproj.io/v1alpha1 Workflow, which is what a pipeline of
Kubeflow runs as. From memory, not run with these operators. Their container names are those that each
operator looks for. It must not print, nor check what is asked for (`wish` does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpupool.environment import workspace
from gpupool.environment.expansion import escaped
from gpupool.environment.plan.pods import pod_fields
from gpupool.environment.plan.priority_classes import own_class
from gpupool.environment.plan.tenants import DEFAULT_REQUESTS, NOTHING, MachineShare, memory_quantity
from gpupool.findings import UsageError
from gpupool.generators.emit import yaml_text
from gpupool.generators.snippet.wish import SnippetRequest

Object = dict[str, Any]
_OVERHEAD_MIB, _OVERHEAD = 384, 0.3
"""Memory of a Spark executor beside its heap: at least so much, and so much of all for Python."""


def workload(wish: SnippetRequest, kind: str) -> Object:
    """What a workload of `kind`, a key of KINDS, says. Raises UsageError where the pool takes Jobs only."""
    if wish.pool.jobs_only and kind != "job":
        raise UsageError(f"pool {wish.pool.name} is for Jobs only (jobsOnly); use --for job, or another pool")
    return KINDS[kind](wish)


def _pod(wish: SnippetRequest) -> Object:
    """It ends with its command: restarted for ever, it would keep its GPU."""
    template = _template(wish, restartPolicy="Never")
    made = _object(wish, "v1", "Pod", template["spec"])
    return {**made, "metadata": {**made["metadata"], **template.get("metadata", {})}}


def _deployment(wish: SnippetRequest) -> Object:
    labels = {"app": wish.pool.name}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": _template(wish, labels=labels),
    }
    return _object(wish, "apps/v1", "Deployment", spec)


def _deadline_s(wish: SnippetRequest) -> int:
    """Longer ones name what they may cost (gpupool.dev/budget-usd)."""
    limits = wish.plan.policies.limits
    return min(limits.job_deadline_seconds, limits.budget_after_seconds)


def _job(wish: SnippetRequest) -> Object:
    limits = wish.plan.policies.limits
    spec = {
        "backoffLimit": min(2, limits.job_retries),
        "activeDeadlineSeconds": _deadline_s(wish),
        "ttlSecondsAfterFinished": min(3600, limits.job_ttl_seconds),
        "template": _template(wish, restartPolicy="Never"),
    }
    return _object(wish, "batch/v1", "Job", spec)


def _ray_cluster(wish: SnippetRequest) -> Object:
    """Ray's autoscaler, which KubeRay runs beside the head, is what changes the number of workers."""
    head = {"spec": {"containers": [{"name": "ray-head", "image": _image(wish)}]}}
    workers = {
        "groupName": wish.pool.name,
        "replicas": 1,
        "minReplicas": 0,
        "maxReplicas": 2,
        "rayStartParams": {"num-gpus": str(wish.count)},
        "template": _template(wish, "ray-worker"),
    }
    spec = {
        "enableInTreeAutoscaling": True,
        "headGroupSpec": {"rayStartParams": {"num-gpus": "0"}, "template": head},
        "workerGroupSpecs": [workers],
    }
    return _object(wish, "ray.io/v1", "RayCluster", spec)


def _spark_application(wish: SnippetRequest) -> Object:
    executor: Object = {"instances": 1}
    share = wish.pool.share(wish.resource)
    template = _template(wish, "spark-kubernetes-executor", requests=False)
    if share:
        share = share * wish.count
        overhead = max(_OVERHEAD_MIB, int(share.memory_mib * _OVERHEAD))
        executor |= {
            "cores": max(1, share.cpu_millis // 1000),
            "coreRequest": share.as_dict()["cpu"],
            "memory": f"{share.memory_mib - overhead}m",
            "memoryOverhead": f"{overhead}m",
        }
    spec = {
        "type": "Python",
        "mode": "cluster",
        "image": _image(wish),
        "sparkVersion": "4.0.0",
        "mainApplicationFile": "local:///opt/app/main.py",
        "driver": {"cores": 1, "memory": "1g", "serviceAccount": "spark"},
        "executor": {**executor, "template": template},
    }
    return _object(wish, "sparkoperator.k8s.io/v1beta2", "SparkApplication", spec)


def _pytorch_job(wish: SnippetRequest) -> Object:
    limits = wish.plan.policies.limits
    template = _template(wish, "pytorch")
    replica = {"replicas": 1, "restartPolicy": "Never", "template": template}
    spec = {
        "runPolicy": {
            "activeDeadlineSeconds": _deadline_s(wish),
            "ttlSecondsAfterFinished": min(3600, limits.job_ttl_seconds),
        },
        "pytorchReplicaSpecs": {"Master": replica, "Worker": replica},
    }
    return _object(wish, "kubeflow.org/v1", "PyTorchJob", spec)


def _workflow(wish: SnippetRequest) -> Object:
    """Of one step. What sends the step to the pool is beside its container, so that it can be copied into the
    templates of any other Workflow. Argo's container `wait` beside it gets the default requests."""
    template = _template(wish, beside=DEFAULT_REQUESTS)
    spec = template.pop("spec")
    (container,) = spec["containers"]
    # By names and paths, Argo merges these lists into those of the container that it makes of the step.
    patched = {name: container[name] for name in ("resources", "env", "volumeMounts")}
    patch = {**spec, "containers": [{"name": "main", **patched}]}
    step = {
        "name": "step",
        **template,
        "podSpecPatch": yaml_text(patch),
        "container": {"image": container["image"]},
    }
    return _object(wish, "argoproj.io/v1alpha1", "Workflow", {"entrypoint": "step", "templates": [step]})


def _object(wish: SnippetRequest, version: str, kind: str, spec: Object) -> Object:
    where = {"namespace": wish.tenant.namespace} if wish.tenant else {}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": wish.pool.name, **where},
        "spec": spec,
    }


def _template(
    wish: SnippetRequest,
    container: str = "main",
    *,
    labels: Mapping[str, str] | None = None,
    requests: bool = True,
    beside: MachineShare = NOTHING,
    **spec: Any,
) -> Object:
    """A pod template with one container, which gets its share of the node's CPU and memory, less what is for
    containers that an operator adds `beside` it."""
    priority_class = own_class(wish.plan, wish.tenant, wish.pool.name) if wish.tenant else None
    fields = pod_fields(wish.pool, wish.resource, wish.count, priority_class)
    share = wish.pool.share(wish.resource) if requests else None
    asked = {"requests": _left(wish, share * wish.count, beside).as_dict()} if share else {}
    whole = wish.pool.share(wish.resource)
    shm = memory_quantity(workspace.shm_mib((whole * wish.count).memory_mib if whole else None))
    scratch = memory_quantity(wish.pool.disk_share_mib(wish.resource) * wish.count)
    variables = workspace.variables(workspace.SCRATCH)
    metadata = {"labels": {**(labels or {}), **fields.labels}, "annotations": dict(fields.annotations)}
    filled = {key: value for key, value in metadata.items() if value}
    return {
        **({"metadata": filled} if filled else {}),
        "spec": {
            **spec,
            **({"activeDeadlineSeconds": _deadline_s(wish)} if wish.pool.jobs_only else {}),
            **fields.spec,
            "volumes": workspace.volumes(wish.shm or shm, wish.scratch or scratch),
            "containers": [
                {
                    "name": container,
                    "image": _image(wish),
                    "env": [{"name": name, "value": escaped(text)} for name, text in variables.items()],
                    "resources": {**asked, "limits": dict(fields.limits)},
                    "volumeMounts": workspace.mounts(),
                }
            ],
        },
    }


def _left(wish: SnippetRequest, share: MachineShare, beside: MachineShare) -> MachineShare:
    left = share - beside
    if min(left.cpu_millis, left.memory_mib) <= 0:
        has, needs = (" and ".join(part.as_dict().values()) for part in (share, beside))
        raise UsageError(
            f"--slices {wish.count}: pool {wish.pool.name} has {has} of CPU and memory for the pod, "
            f"but Argo's sidecar needs {needs}; request more slices or use another pool"
        )
    return left


def _image(wish: SnippetRequest) -> str:
    """To be replaced; from a registry that the environment allows."""
    registries = wish.plan.policies.limits.registries
    return f"{registries[0] if registries else 'registry.example'}/your-image:1.0"


KINDS: Mapping[str, Callable[[SnippetRequest], Object]] = {
    "pod": _pod,
    "deployment": _deployment,
    "job": _job,
    "raycluster": _ray_cluster,
    "sparkapplication": _spark_application,
    "pytorchjob": _pytorch_job,
    "kubeflow": _workflow,
}
