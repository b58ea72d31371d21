"""The kinds of objects that an environment has, and every fact about each: the one table.

Its order is the order in which a cluster accepts them: an object never refers to a kind that comes after its
own, so deletion follows the reverse order. Waves are for engines that apply rendered files: everything in a
wave exists and is ready before the next one begins, so what an object needs is in an earlier wave, or earlier
in the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpupool.environment.plan.model import SYSTEM_NAMESPACE


@dataclass(frozen=True, slots=True)
class Wave:
    number: int
    """Lower goes first. Two digits, so that folders sort alike by name and by number."""
    name: str

    def __str__(self) -> str:
        return f"{self.number}-{self.name}"


NAMESPACES = Wave(10, "namespaces")
ACCESS = Wave(20, "access")
PARAMETERS = Wave(30, "parameters")
"""Parameters are applied before the objects they validate; otherwise a larger quota would be rejected by the
old parameters, and nothing after it, the new parameters included, would ever be applied."""
POLICIES = Wave(40, "policies")
ENFORCEMENT = Wave(50, "enforcement")
BOUNDS = Wave(60, "bounds")
OPERATORS = Wave(70, "operators")
"""Helm releases as well: with them come the definitions (CRDs) of all kinds behind this wave. And the
operator's configurations, so that Flux, which deletes what is no longer wanted at the end of each wave, drops
the old one no earlier than the operator knows the new one."""
MACHINES = Wave(80, "machines")
POOLS = Wave(90, "pools")
"""Far behind the policies: a cloud that has no such machine today must not keep a policy from its cluster."""
WORKLOADS = Wave(95, "workloads")
"""And every kind that is not in the table. Nothing waits for them: our Deployments keep nodes warm, and a
cloud that has no such machine today is no reason to call the environment not applied."""

RELEASE = "Release"
"""A chart, where a kind is asked for."""
OPERATORS_OWN = "<operator>"
"""Stands for the GPU Operator's namespace in `Kind.listed`; no namespace has such a name."""
RELEASE_NEEDS = ("ConfigMap", "PriorityClass", "ServiceAccount")


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    api_version: str
    wave: Wave
    needs: tuple[str, ...] = ()
    """The kinds that it must follow, of its own pool or namespace. Deletion runs the other way: NodePools go
    first and take their nodes with them while Karpenter and the operator still run. A namespace comes before
    everything in it."""
    chart: str | None = None
    """The chart that brings its definition (CRD); None for kinds of Kubernetes itself."""
    listed: tuple[str | None, ...] = (None,)
    """Namespaces where those that an earlier file made are looked for, None for all. Of some kinds a cluster
    has many that gpupool does not manage. Empty: looked for where the file has one."""
    owned: bool = True
    """False where others own the objects and gpupool sets only some fields."""
    awaited: bool = True
    """Whether `up` waits until it is ready."""
    accepted: str | None = None
    """The condition that says that its controller takes it."""
    refusal_lasts: bool = False
    """Whether that condition is False only until the file changes; of others the reason may pass."""
    immutable: tuple[str, ...] = ()
    """Fields that the API server never lets change, so that a new value needs a new object (Kubernetes:
    pkg/apis/scheduling/validation, pkg/apis/rbac/validation)."""
    recreated: bool = False
    """Whether an environment's file can change one of these fields. An engine that may recreate
    an object may do so for other reasons too, and no user must lose access meanwhile."""
    holds_jobs: bool = False
    """Whether jobs go with it."""
    runs_pods: bool = False
    """Whether it is gone before what its pods run on, and does not go with its namespace."""
    dependents: bool = False
    """Whether its controller makes objects that it owns, so that its deletion waits for theirs."""
    delete_timeout: str | None = None
    """How long to wait where deletion takes other things with it; 10 minutes for the rest."""
    cluster_wide: bool = False
    """Whether it is in no namespace."""

    @property
    def plural(self) -> str:
        name = self.name.lower()
        return f"{name[:-1]}ies" if name.endswith("cy") else f"{name}es" if name.endswith("s") else f"{name}s"

    def namespaces(self, operator: str) -> tuple[str | None, ...]:
        """`listed`, where the GPU Operator's namespace is `operator`."""
        return tuple(operator if name == OPERATORS_OWN else name for name in self.listed)

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


_RBAC = "rbac.authorization.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"
_PROMETHEUS = "monitoring.coreos.com/v1"
_POLICY = "ValidatingAdmissionPolicy"
_OURS = (OPERATORS_OWN, SYSTEM_NAMESPACE)
_ROLES = ("Role", "ClusterRole", "ServiceAccount")
NODE_CLASSES = ("KWOKNodeClass", "EC2NodeClass")

KINDS = (
    Kind("Namespace", "v1", NAMESPACES, delete_timeout="15m", cluster_wide=True),
    Kind(
        "PriorityClass",
        "scheduling.k8s.io/v1",
        ACCESS,
        immutable=("value", "preemptionPolicy"),
        recreated=True,
        cluster_wide=True,
    ),
    Kind("ServiceAccount", "v1", ACCESS, listed=(SYSTEM_NAMESPACE,)),
    Kind("ClusterRole", _RBAC, ACCESS, cluster_wide=True),
    Kind("ClusterRoleBinding", _RBAC, ACCESS, _ROLES[1:], immutable=("roleRef",), cluster_wide=True),
    Kind("Role", _RBAC, ACCESS, listed=_OURS),
    Kind("RoleBinding", _RBAC, ACCESS, _ROLES, immutable=("roleRef",)),
    Kind("ResourceQuota", "v1", BOUNDS),
    Kind("LimitRange", "v1", BOUNDS),
    Kind("NetworkPolicy", "networking.k8s.io/v1", BOUNDS),
    Kind("ConfigMap", "v1", PARAMETERS, listed=_OURS),
    Kind("ServiceMonitor", _PROMETHEUS, OPERATORS, chart="kube-prometheus-stack", listed=_OURS),
    Kind("PrometheusRule", _PROMETHEUS, OPERATORS, chart="kube-prometheus-stack", listed=_OURS),
    Kind("GrafanaDashboard", "grafana.integreatly.org/v1beta1", OPERATORS, chart="grafana-operator"),
    Kind(
        "ClusterPolicy",
        "nvidia.com/v1",
        OPERATORS,
        ("ConfigMap",),
        "gpu-operator",
        dependents=True,
        cluster_wide=True,
    ),
    Kind(
        "KWOKNodeClass",
        "karpenter.kwok.sh/v1alpha1",
        MACHINES,
        (RELEASE,),
        "karpenter",
        (),
        holds_jobs=True,
        cluster_wide=True,
    ),
    Kind(
        "EC2NodeClass",
        "karpenter.k8s.aws/v1",
        MACHINES,
        (RELEASE,),
        chart="karpenter",
        listed=(),
        accepted="Ready",
        holds_jobs=True,
        cluster_wide=True,
    ),
    # It holds no jobs, and one that is left behind contradicts its successors.
    Kind(
        "NodeOverlay",
        "karpenter.sh/v1alpha1",
        MACHINES,
        (RELEASE,),
        chart="karpenter",
        accepted="ValidationSucceeded",
        refusal_lasts=True,
        cluster_wide=True,
    ),
    # Karpenter drains the nodes of one that goes, jobs and all, and needs its class until then.
    Kind(
        "NodePool",
        "karpenter.sh/v1",
        POOLS,
        ("ClusterPolicy", RELEASE, *NODE_CLASSES, "NodeOverlay"),
        chart="karpenter",
        accepted="Ready",
        holds_jobs=True,
        dependents=True,
        delete_timeout="30m",
        cluster_wide=True,
    ),
    Kind("Node", "v1", POOLS, ("ClusterPolicy", RELEASE), listed=(), owned=False, cluster_wide=True),
    Kind(
        "Deployment",
        "apps/v1",
        WORKLOADS,
        ("PriorityClass", "ServiceAccount", "NodePool"),
        listed=(SYSTEM_NAMESPACE,),
        awaited=False,
        runs_pods=True,
        dependents=True,
    ),
    Kind(
        "CronJob",
        "batch/v1",
        WORKLOADS,
        ("ServiceAccount", "ConfigMap"),
        listed=(SYSTEM_NAMESPACE,),
        runs_pods=True,
        dependents=True,
    ),
    Kind(_POLICY, _ADMISSION, POLICIES, cluster_wide=True),
    # What a policy judges by is there before it is enforced.
    Kind(f"{_POLICY}Binding", _ADMISSION, ENFORCEMENT, (_POLICY, "ConfigMap"), cluster_wide=True),
)

_RANK = {kind.name: rank for rank, kind in enumerate(KINDS)}


def rank_of(name: str) -> int:
    """Its place in the table; kinds that are not in it come last."""
    return _RANK.get(name, len(KINDS))


def kind_of(name: str) -> Kind:
    """The row of a kind; for one that is not in the table, an empty row that comes last."""
    rank = rank_of(name)
    return KINDS[rank] if rank < len(KINDS) else Kind(name, "", WORKLOADS, listed=())


WAVES: Mapping[Wave, tuple[Kind, ...]] = {
    wave: tuple(kind for kind in KINDS if kind.wave is wave)
    for wave in sorted({kind.wave for kind in KINDS}, key=lambda wave: wave.number)
}
"""In order, each with its kinds."""
