"""Faults of names: what is named is missing, twice there, or never reached. One list per rule."""

from __future__ import annotations

from tests.policy.rules.changes import (
    REACHES,
    TENANT,
    Change,
    admission_policy,
    another_version,
    config_data,
    config_map,
    edit,
    policy_binding,
    pool_affinity,
    put,
    reading,
    selecting,
    warm_pod,
    without_config,
)
from tests.policy.rules.drafts import job

NAMING: dict[str, list[tuple[str, Change, str, str]]] = {
    # rule: environment, change, part of the object and path, part of the message
    "unique-objects": [
        ("prod", another_version, "NodePool notebooks metadata.name", "appears twice in the bundle"),
        (
            "prod",
            lambda d: d.releases.append(d.releases[0]),
            "HelmRelease gpu-operator/gpu-operator",
            "twice",
        ),
    ],
    "namespaces-exist": [
        (
            "prod",
            lambda d: d.drop("Namespace", TENANT),
            "metadata.namespace",
            "nothing creates namespace 'team-vision'",
        ),
        ("prod", lambda d: d.drop("Namespace", "gpu-operator"), "ConfigMap", "and 3 more objects"),
    ],
    "priorities-exist": [
        (
            "prod",
            lambda d: d.drop("PriorityClass", "gpupool-warm"),
            "priorityClassName",
            "gpupool-warm does not",
        ),
        ("prod", lambda d: d.drop("PriorityClass", "training"), "matchExpressions[0].values[2]", "training"),
        (
            "prod",
            lambda d: d.bodies.append(job(TENANT, priorityClassName="reserch")),
            "Job team-vision/try spec.template.spec.priorityClassName",
            "did you mean 'research'",
        ),
    ],
    "accounts-exist": [
        (
            "homelab",
            lambda d: d.drop("ServiceAccount", "gpupool-launcher"),
            "subjects[0].name",
            "gpupool-launcher",
        ),
        (
            "prod",
            lambda d: d.drop("ClusterRole", "gpupool-tenant"),
            "roleRef.name",
            "ClusterRole gpupool-tenant",
        ),
        (
            "dev",
            lambda d: d.bodies.append(job("default", serviceAccountName="ci")),
            "serviceAccountName",
            "ci",
        ),
    ],
    "configs-exist": [
        (
            "prod",
            lambda d: d.bodies.append(job(TENANT, **reading("ConfigMap", "s", key="k"))),
            "env[0]",
            "s does not",
        ),
        (
            "prod",
            lambda d: d.bodies.extend(
                [job(TENANT, **reading("ConfigMap", "s", key="k")), config_map("s", j="1")]
            ),
            "Job",
            "no key 'k'",
        ),
        (
            "prod",
            lambda d: d.bodies.append(job(TENANT, volumes=[{"name": "v", "configMap": {"name": "s"}}])),
            "volumes[0].configMap.name",
            "does not exist",
        ),
    ],
    "secrets-exist": [
        (
            "prod",
            lambda d: d.bodies.append(job(TENANT, **reading("Secret", "s", key="k"))),
            "secretKeyRef",
            "s does",
        ),
        (
            "prod",
            lambda d: d.bodies.append(job(TENANT, imagePullSecrets=[{"name": "registry"}])),
            "imagePullSecrets[0].name",
            "registry does not exist",
        ),
    ],
    "node-classes-exist": [
        (
            "prod",
            lambda d: d.drop("EC2NodeClass", "notebooks"),
            "nodeClassRef.name",
            "EC2NodeClass notebooks",
        ),
        ("local", lambda d: d.drop("KWOKNodeClass", "default"), "NodePool", "KWOKNodeClass default"),
        ("dev", lambda d: d.drop("NodePool", "notebooks-spot"), "NodeOverlay notebooks", "notebooks-spot"),
    ],
    "admission-complete": [
        ("prod", lambda d: d.bodies.append(policy_binding("gone")), "spec.policyName", "gone does not exist"),
        (
            "prod",
            lambda d: d.bodies.extend([policy_binding("p"), admission_policy("p")]),
            "paramRef",
            "ConfigMap team-vision/limits",
        ),
    ],
    "selectors-match": [
        (
            "prod",
            lambda d: d.bodies.append(selecting("NetworkPolicy", {"matchLabels": {"a": "b"}})),
            "pod",
            "2 pods",
        ),
        (
            "prod",
            lambda d: d.bodies.append(
                selecting("PodDisruptionBudget", {"matchExpressions": [{"key": "a", "operator": "Exists"}]})
            ),
            "spec.selector",
            "selects none",
        ),
        ("prod", lambda d: d.bodies.append(selecting("Service", {"a": "b"})), "Service", "none"),
    ],
    "device-plugin-configs-exist": [
        ("prod", without_config("gpupool-device"), "HelmRelease", "does not exist"),
        (
            "local",
            without_config("gpupool-device"),
            "ClusterPolicy cluster-policy spec.devicePlugin",
            "does not exist",
        ),
        (
            "prod",
            lambda d: config_data(d, "gpupool-device")[0].pop("batch-l4"),
            "NodePool batch-l4",
            "=batch-l4, which",
        ),
        ("homelab", lambda d: config_data(d, "gpupool-device")[0].pop("desk"), "Node k3s-gpu-0", "=desk"),
        (
            "prod",
            lambda d: config_data(d, "gpupool-device")[0].pop("gpupool.default"),
            "config.default",
            "default",
        ),
        (
            "prod",
            lambda d: put(config_data(d, "gpupool-device")[0], "notebooks", "a: [b"),
            "data[notebooks]",
            "YAML",
        ),
        (
            "prod",
            lambda d: d.values("gpu-operator").pop("devicePlugin"),
            "NodePool",
            "uses no ConfigMap",
        ),
        ("dev", lambda d: d.releases.clear(), "NodePool", "uses no ConfigMap"),
    ],
    "exporter-fields-exist": [
        ("prod", without_config("gpupool-dcgm"), "HelmRelease", "does not exist"),
        (
            "dev",
            lambda d: config_data(d, "gpupool-dcgm")[0].clear(),
            "ConfigMap",
            "is missing",
        ),
    ],
    "mig-configs-exist": [
        ("prod", without_config("gpupool-mig"), "HelmRelease", "does not exist"),
        (
            "prod",
            lambda d: edit(d, "gpupool-mig", "config.yaml", '"7x1g', '"6x1g'),
            "small",
            "=7x1g.10gb, which",
        ),
        (
            "prod",
            lambda d: edit(d, "gpupool-mig", "config.yaml", "all-dis", "dis"),
            "config.default",
            "not a layout",
        ),
        (
            "prod",
            lambda d: put(config_data(d, "gpupool-mig")[0], "config.yaml", "[]"),
            "config.yaml",
            "no mapping",
        ),
        ("prod", lambda d: d.values("gpu-operator").pop("migManager"), "NodePool", "uses no ConfigMap"),
    ],
    "operator-tolerates-pools": [
        (
            "prod",
            lambda d: d.values("gpu-operator")["daemonsets"]["tolerations"].pop(),
            "values.daemonsets",
            "=note",
        ),
        (
            "local",
            lambda d: d.one("ClusterPolicy")["spec"].pop("daemonsets"),
            "spec.daemonsets",
            "not tolerated",
        ),
        (
            "prod",
            lambda d: d.values("gpu-operator").pop("node-feature-discovery"),
            "worker.tolerations",
            "gpu=mig",
        ),
    ],
    "pods-reach-pools": [
        (
            "prod",
            lambda d: warm_pod(d).pop("tolerations"),
            "Deployment",
            "gpupool.dev/pool=notebooks:NoSchedule",
        ),
        (
            "prod",
            lambda d: d.bodies.append(
                job(TENANT, nodeSelector={"gpupool.dev/pool": "note"}, tolerations=[REACHES])
            ),
            "nodeSelector[gpupool.dev/pool]",
            "there is no pool 'note'",
        ),
        (
            "prod",
            lambda d: d.bodies.append(job(TENANT, affinity=pool_affinity("batch-l4", "notebooks"))),
            "spec.template.spec.tolerations",
            "never starts",
        ),
    ],
}
