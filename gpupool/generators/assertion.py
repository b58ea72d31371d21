"""`gpupool assert` as a CronJob: compares the cluster with its file from the inside, and reports to
Prometheus.

With it go an account that may list what is compared and nothing else, and the environment file itself, under
a name made of its content: a new file is a new name, so no run ever reads a partial file. Rendered only where
`monitoring.assertion` asks for it. That the rights suffice is proved by a run with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpupool.environment.plan.model import SYSTEM_NAMESPACE, Plan
from gpupool.environment.plan.policy_files import read_objects
from gpupool.environment.spec.services import Assertion
from gpupool.generators import restricted_pod
from gpupool.generators.kinds import KINDS, OPERATORS_OWN
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import content_name, manifest_of, object_labels
from gpupool.generators.project_files import gpu_texts, policy_texts

NAME = "gpupool-assert"
FOLDER = "/etc/gpupool"
"""The working directory of the run: a project with one environment."""
_ENVIRONMENT_KEY = "environment"
_GPU_PREFIX = "gpu."
"""Begins the keys of GPU models, which may be called like a policy file."""
_RBAC = "rbac.authorization.k8s.io"
_SECONDS = 300
"""A run that takes longer hangs; one for 500 nodes takes three minutes."""


_Rules = Mapping[str, tuple[str, ...]]
"""Group -> plurals that may be listed."""
_POLICY_RULES: _Rules = {"": ("configmaps",), _RBAC: ("roles",)}
"""Where parameters of the project's policies are."""
_ALSO: Mapping[str | None, Iterable[tuple[str, str]]] = {
    None: (("", "pods"), ("karpenter.sh", "nodeclaims"), ("resource.k8s.io", "resourceslices")),
    OPERATORS_OWN: (("apps", "daemonsets"),),
}
"""Namespace as in `Kind.listed`, None for all -> group and plural of what is read and not made."""


def _rules(namespace: str | None) -> _Rules:
    """What is listed there: of kinds that are not looked for everywhere, such as ConfigMaps, no more."""
    named = [(k.group, k.plural) for k in KINDS if namespace in (k.listed or (None,))]
    found: dict[str, tuple[str, ...]] = {}
    for group, plural in [*named, *_ALSO.get(namespace, ())]:
        found[group] = (*found.get(group, ()), plural)
    return found


def generate(plan: Plan) -> Iterator[Manifest]:
    if plan.assertion is None:
        return
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM_NAMESPACE}
    yield manifest_of(plan, "ServiceAccount", NAME, SYSTEM_NAMESPACE)
    yield manifest_of(plan, "ClusterRole", NAME, rules=[*_list(_rules(None)), _charts(plan)])
    yield _binding(plan, "ClusterRole", None, account)
    own = policy_texts(plan)
    for namespace, rules in _namespaces(plan).items():
        yield manifest_of(plan, "Role", NAME, namespace, rules=_list(rules))
        yield _binding(plan, "Role", namespace, account)
    gpus = {f"{_GPU_PREFIX}{name}": text for name, text in gpu_texts(plan).items()}
    files = {_ENVIRONMENT_KEY: plan.text} | own | gpus
    name = content_name(NAME, files)
    yield manifest_of(plan, "ConfigMap", name, SYSTEM_NAMESPACE, data=files)
    yield _cron_job(plan, plan.assertion, name, _mounts(plan, own, gpus))


def _namespaces(plan: Plan) -> Mapping[str, _Rules]:
    """Where rights are needed: our own namespaces, and those of the parameters of the project's policies."""
    places = {SYSTEM_NAMESPACE: SYSTEM_NAMESPACE, plan.gpu_operator.namespace: OPERATORS_OWN}
    found = {namespace: _rules(listed) for namespace, listed in places.items()}
    for body in read_objects(plan.policies.files):
        namespace = body["metadata"].get("namespace")
        if body["kind"] == "ConfigMap" and namespace:
            found.setdefault(str(namespace), _POLICY_RULES)
    if plan.monitoring.grafana:
        found.setdefault(plan.monitoring.dashboards.namespace, {"": ("configmaps",)})
    return found


def _list(rules: _Rules) -> list[dict[str, Any]]:
    return [
        {"apiGroups": [group], "resources": list(plurals), "verbs": ["list"]}
        for group, plurals in rules.items()
    ]


def _charts(plan: Plan) -> dict[str, Any]:
    """The Deployments of the charts that the file installs, by name."""
    names = ["gpu-operator", "karpenter"] if plan.cluster.platform == "eks" else ["gpu-operator"]
    return {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": names, "verbs": ["list"]}


def _binding(plan: Plan, kind: str, namespace: str | None, account: Mapping[str, str]) -> Manifest:
    role = {"apiGroup": _RBAC, "kind": kind, "name": NAME}
    return manifest_of(plan, f"{kind}Binding", NAME, namespace, roleRef=role, subjects=[dict(account)])


def _mounts(plan: Plan, own: Mapping[str, str], gpus: Mapping[str, str]) -> dict[str, str]:
    """Path in the container -> key of the ConfigMap."""
    mounts = {f"{FOLDER}/environments/{plan.environment}.yaml": _ENVIRONMENT_KEY}
    mounts |= {f"{FOLDER}/policies/{name}": name for name in own}
    return mounts | {f"{FOLDER}/catalog/{name.removeprefix(_GPU_PREFIX)}": name for name in gpus}


def _cron_job(plan: Plan, wanted: Assertion, files: str, mounts: Mapping[str, str]) -> Manifest:
    labelled = {"metadata": {"labels": object_labels(plan)}}
    pod = {
        **restricted_pod.POD,
        "automountServiceAccountToken": True,
        "serviceAccountName": NAME,
        "restartPolicy": "Never",
        "containers": [_container(plan, wanted, mounts)],
        "volumes": [{"name": "files", "configMap": {"name": files}}],
    }
    job = {
        # The next run compares again; the failed Job and the metrics report the failure.
        "backoffLimit": 0,
        "activeDeadlineSeconds": _SECONDS,
        "template": {**labelled, "spec": pod},
    }
    spec = {
        "schedule": wanted.schedule,
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": _SECONDS,
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 3,
        "jobTemplate": {**labelled, "spec": job},
    }
    return manifest_of(plan, "CronJob", NAME, SYSTEM_NAMESPACE, spec=spec)


def _container(plan: Plan, wanted: Assertion, mounts: Mapping[str, str]) -> dict[str, Any]:
    # One by one: a mounted folder holds links, and a file's project is where the file really lies.
    push = ["--push", wanted.pushgateway] if wanted.pushgateway else []
    return {
        **restricted_pod.CONTAINER,
        "name": "assert",
        "image": wanted.image,
        "command": ["gpupool", "assert", plan.environment, "--no-record", *push],
        "workingDir": FOLDER,
        "volumeMounts": [
            {"name": "files", "mountPath": path, "subPath": key, "readOnly": True}
            for path, key in mounts.items()
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
    }
