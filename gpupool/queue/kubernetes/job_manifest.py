"""A decided attempt -> its batch/v1 Job, and the Job's headless Service where it spans several nodes. Pure.

One Job per attempt, under a name that follows from both, so that creating it twice is harmless. The queue
itself retries, so the Job never does. Sources: Kubernetes 1.36 documentation, Jobs; pod failure policy;
facts on MIG and device plugins are the Plan's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gpupool.environment import workspace
from gpupool.environment.expansion import escaped
from gpupool.environment.plan.capacity import EFA
from gpupool.environment.plan.model import SPOT_FIRST, Plan, Pool
from gpupool.environment.plan.pods import (
    ATTEMPT_LABEL,
    BORROWED_LABEL,
    DATABASE_LABEL,
    JOB_LABEL,
    RECORDED_FINALIZER,
    RUN_LOCALLY,
    SHARES_LABEL,
    pod_fields,
)
from gpupool.environment.plan.priority_classes import classes_of
from gpupool.environment.plan.tenants import Tenant, memory_quantity
from gpupool.queue.records import MICRO, Job
from gpupool.queue.variables import POD, pod_variables, variables
from vapcheck import quantity

Object = dict[str, Any]

CONTAINER = "job"
GRACE_S = 30
"""What a container gets between SIGTERM and SIGKILL, to write its checkpoint."""
USER: Object = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 1000,
    "fsGroup": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Pods run as this user whatever their image says: most images say root, and kubelets refuse that here."""
TTL_S = 600
"""How long an ended Job stays for people to see; its result is the queue's by then (the finalizer)."""
CAPACITY_TYPE = "karpenter.sh/capacity-type"
ZONE = "topology.kubernetes.io/zone"
NODE_POOL = "karpenter.sh/nodepool"
HOSTNAME = "kubernetes.io/hostname"
BUDGET = "gpupool.dev/budget-usd"
"""What the attempt may cost, as the policy `long-jobs-name-a-budget` wants it of long Jobs."""
SECRETS = "gpupool.dev/secrets"
"""The Secrets that the accepted request names, apart by spaces: the policy `queue-jobs-are-as-made` lets the
Job use no others."""
DISK = "ephemeral-storage"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
INDEX = "batch.kubernetes.io/job-completion-index"
FROM_REQUEST = {
    "image": "container_image",
    "command": "container_command",
    "env": "env",
    "envFrom": "env_from_secrets",
    "imagePullSecrets": "image_pull_secrets",
    "volumes": "volumes",
    "volumeMounts": "volumes",
    "emptyDir": "scratch_size",
    "activeDeadlineSeconds": "timeout_seconds",
    "priorityClassName": "priority",
    "nodeSelector": "gpu_pool_requested",
}
"""Field of the manifest -> the field of the request that it follows from."""
PARTS = 3
"""Of a Job's name, between dashes."""


def name_of(job: str, attempt: int) -> str:
    """The Job's name: at most 63 characters, since pods carry it as a label."""
    return f"gp-{job.replace('-', '')}-{attempt}"


def nodes_of(job: Job, pool: Pool) -> int:
    """How many nodes, and so pods, the attempt spans."""
    size = pool.slices_per_node.get(job.resource or "", 1)
    return max(1, -(-job.gpu_count // size)) if len(job.placement) > 1 else 1


def manifest(job: Job, plan: Plan, tenant: Tenant, avoid: Collection[str] = (), *, database: str) -> Object:
    """The Job of an attempt. `avoid`: nodes where others failed. `database`: the id of the one it is in."""
    assert job.pool is not None
    pool = plan.pool(job.pool)
    name = name_of(job.id, job.attempt)
    labels = {JOB_LABEL: job.id, ATTEMPT_LABEL: str(job.attempt), DATABASE_LABEL: database}
    labels |= {BORROWED_LABEL: "true"} if job.borrowed else {}
    nodes = nodes_of(job, pool)
    spec: Object = {
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [
                {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
            ]
        },
        "activeDeadlineSeconds": deadline_s(job, plan),
        "ttlSecondsAfterFinished": min(TTL_S, plan.policies.limits.job_ttl_seconds),
        "completions": nodes,
        "parallelism": nodes,
        "template": _template(job, plan, pool, nodes, labels, avoid),
    }
    if nodes > 1:
        spec["completionMode"] = "Indexed"
    annotations = {BUDGET: f"{(job.hold_micro or 0) / MICRO:.6f}"}
    secrets = {*(job.request.get("env_from_secrets") or ()), *(job.request.get("image_pull_secrets") or ())}
    if secrets:
        annotations[SECRETS] = " ".join(sorted(secrets))
    metadata = {
        "name": name,
        "namespace": tenant.namespace,
        "labels": labels,
        "annotations": annotations,
        "finalizers": [RECORDED_FINALIZER],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def where(made: Object) -> Object:
    """What of a Job decides which nodes its pods can have."""
    spec = made["spec"]["template"]["spec"]
    limits = spec["containers"][0]["resources"]["limits"]
    return {
        "nodeSelector": spec.get("nodeSelector") or {},
        "tolerations": [tuple(sorted(one.items())) for one in spec.get("tolerations") or ()],
        "resources": {name: str(value) for name, value in limits.items() if "/" in name},
    }


def service(made: Object) -> Object | None:
    """By which the pods of a Job of several nodes find each other; it goes with the Job."""
    if made["spec"].get("completionMode") != "Indexed":
        return None
    about = made["metadata"]
    labels = {label: about["labels"][label] for label in (JOB_LABEL, ATTEMPT_LABEL)}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": about["name"], "uid": about["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": about["name"],
            "namespace": about["namespace"],
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": True},
    }


def deadline_s(job: Job, plan: Plan) -> int:
    """The Job's own deadline, which counts from its creation: a net below the launcher, which counts from the
    container's start. Never above what the environment's policies allow."""
    queue = plan.queue
    wanted = job.attempt_limit_s + queue.unscheduled_s + queue.not_started_s + GRACE_S
    return min(wanted, queue.longest_timeout_s)


def _template(
    job: Job, plan: Plan, pool: Pool, nodes: int, labels: dict[str, str], avoid: Collection[str]
) -> Object:
    assert job.resource is not None
    units = job.gpu_count // nodes
    fields = pod_fields(pool, job.resource, units)
    share = pool.share(job.resource)
    size = (share * units).as_dict() if share else {}
    disk = memory_quantity(pool.disk_share_mib(job.resource) * units)
    request = job.request
    memory = workspace.shm_mib(share.memory_mib * units if share else None)
    shm = str(quantity(request.get("shm_size") or memory_quantity(memory)))
    scratch = str(quantity(request.get("scratch_size") or disk))
    cards = {EFA: str(pool.machine.efa)} if nodes > 1 and pool.machine.efa else {}
    container: Object = {
        "name": CONTAINER,
        "image": request["container_image"],
        "env": _variables(job, nodes),
        "envFrom": [{"secretRef": {"name": name}} for name in request.get("env_from_secrets") or ()],
        "resources": {
            # None of the disk: a limit alone is requested too, and a node with less would never be chosen.
            "requests": {**size, DISK: "0"},
            "limits": {
                **fields.limits,
                **{name: size[name] for name in ("memory",) if name in size},
                DISK: disk,
                **cards,
            },
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": workspace.mounts()
        + [
            {
                "name": f"claim-{number}",
                "mountPath": volume["path"],
                "readOnly": bool(volume.get("read_only")),
            }
            for number, volume in enumerate(request.get("volumes") or ())
        ],
    }
    if request.get("container_command"):
        container["command"] = [escaped(word) for word in request["container_command"]]
    selector = dict(fields.spec["nodeSelector"])
    if len(pool.capacities) > 1:
        # Beside reserved nodes; which of the two it is, is for Karpenter.
        if job.capacity_type == SPOT_FIRST:
            selector[NODE_POOL] = pool.name
        else:
            selector[CAPACITY_TYPE] = job.capacity_type
    spec: Object = {
        **fields.spec,
        "nodeSelector": selector,
        "restartPolicy": "Never",
        # A pod that is cut loose from its Job ends all the same (propagationPolicy Orphan).
        "activeDeadlineSeconds": deadline_s(job, plan),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": min(GRACE_S, plan.policies.limits.pod_grace_seconds),
        "securityContext": USER,
        "imagePullSecrets": [{"name": name} for name in request.get("image_pull_secrets") or ()],
        "volumes": workspace.volumes(shm, scratch)
        + [
            {"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": volume["claim"]}}
            for number, volume in enumerate(request.get("volumes") or ())
        ],
        "containers": [container],
    }
    if nodes > 1:
        spec["subdomain"] = name_of(job.id, job.attempt)
    priority = _class(job, plan)
    if priority is not None:
        spec["priorityClassName"] = priority
    affinity = _affinity(job, pool, avoid)
    if cards:
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [_in_one_zone(labels)]}
    if affinity:
        spec["affinity"] = affinity
    annotations = dict(fields.annotations)
    if job.isolation == "exclusive" or not job.preemptible:
        annotations[DO_NOT_DISRUPT] = "true"
    if plan.cluster.platform == "local":
        annotations[RUN_LOCALLY] = "true"
    metadata = {
        "labels": {**labels, **fields.labels},
        "annotations": annotations,
        "finalizers": [RECORDED_FINALIZER],
    }
    return {"metadata": metadata, "spec": spec}


def _variables(job: Job, nodes: int) -> list[Object]:
    """The job's, and what lets its pods find each other: texts, which arrive as they are given."""
    own = {**variables(job, workspace.SCRATCH), "GPUPOOL_NODES": str(nodes)}
    if nodes > 1:
        name = name_of(job.id, job.attempt)
        own["GPUPOOL_FIRST_NODE"] = f"{name}-0.{name}"
    fields = {f"{POD}_{part.upper()}": f"metadata.{part}" for part in ("name", "uid")}
    whole = pod_variables(*(f"$({name})" for name in fields))[POD]
    return [
        *(
            {"name": name, "value": escaped(value)}
            for name, value in own.items()
            if name not in (POD, *fields)
        ),
        *(
            {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
            for name, path in fields.items()
        ),
        {"name": POD, "value": whole},
    ]


def _class(job: Job, plan: Plan) -> str | None:
    """The PriorityClass of the job's level: the highest that the tenant may use on its pool; of a borrowed
    job its own. It never preempts: the queue preempts, and two of them must not act at once."""
    tenant = next(row for row in plan.tenants if row.name == job.tenant)
    classes = [planned for planned in classes_of(plan, tenant, job.pool) if planned.queued]
    if job.borrowed and plan.allows_borrowing:
        return next(planned.name for planned in classes if planned.borrowed)
    level = job.level.name.lower()
    of_level = [planned for planned in classes if planned.priority and planned.priority.level == level]
    unranked = [planned for planned in classes if planned.priority is None and not planned.borrowed]
    return next((planned.name for planned in of_level + unranked), None)


def _in_one_zone(labels: Mapping[str, str]) -> Object:
    """With the other pods of the attempt: EFA does not reach beyond a zone (AWS, EC2 User Guide, EFA)."""
    own = {label: labels[label] for label in (JOB_LABEL, ATTEMPT_LABEL)}
    return {"topologyKey": ZONE, "labelSelector": {"matchLabels": own}}


def _affinity(job: Job, pool: Pool, avoid: Collection[str]) -> Object:
    affinity: Object = {}
    if job.isolation == "exclusive" and pool.lends_whole_gpus:
        term = {
            "topologyKey": HOSTNAME,
            "namespaceSelector": {},
            "labelSelector": {"matchExpressions": [{"key": SHARES_LABEL, "operator": "Exists"}]},
        }
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if avoid:
        # By name: the label kubernetes.io/hostname may be another, or missing.
        elsewhere = [
            {"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in sorted(set(avoid))
        ]
        # Preferred: a pool that may have no other node would never run the job again.
        affinity["nodeAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "preference": {"matchFields": elsewhere}}
            ]
        }
    return affinity
