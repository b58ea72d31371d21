"""The environment file as strict types: what may be written, and nothing of what it means.

Used at the edge: `load` reads a file into these models, and `resolve` turns them into a Plan, which keeps a
section as it is where nothing has to be worked out. Every attribute docstring here is the field's description
in the published JSON Schema (`gpupool/environment/schema/environment.schema.json`).

No cross-checks live here: whatever needs a second field or the catalog is in
`gpupool.environment.plan.checks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, JsonValue, StringConstraints

from gpupool.environment.spec.delivery import Delivery
from gpupool.environment.spec.field_types import (
    PAUSE_IMAGE,
    AmiAlias,
    Compute,
    Count,
    Duration,
    DurationOrNever,
    ExtendedResource,
    Hint,
    Image,
    LabelKey,
    LabelValue,
    Memory,
    Model,
    Moment,
    Name,
    NodeFact,
    NodeName,
    Positive,
    ReservationId,
    Share,
    Text,
    Usd,
    Version,
)
from gpupool.environment.spec.machines import (
    Kubelet,
    PlacementGroup,
    RootVolume,
    SecurityGroupTerm,
    SubnetTerm,
)
from gpupool.environment.spec.promotion import Promotion
from gpupool.environment.spec.queue import Queue
from gpupool.environment.spec.services import Cost, Monitoring, Policies
from gpupool.environment.spec.tenants import Tenant

API_VERSION = "gpupool.dev/v1alpha1"
QUEUED = "-queued"
"""Ends the name of the second class of a priority that preempts."""
SLICES_PER_GPU_MAX = 3000
"""The kubelet takes the list of a node's slices as one message of 4 MiB at most (kubernetes#109304), at some
65 bytes each: 3000 on each of 16 GPUs still fit."""


class Metadata(Model):
    name: Name
    """Name of the environment: the file's name without .yaml, and the Pulumi stack."""
    annotations: dict[str, str] = {}
    """Free text for people and other tools; gpupool reads none of it."""


class Cluster(Model):
    platform: Annotated[
        Literal["eks", "gke", "aks", "static", "generic", "local"],
        AfterValidator(lambda platform: "static" if platform == "generic" else platform),
    ]
    """eks: Karpenter starts AWS nodes; pools of existing nodes are possible too. static, or generic: existing
    nodes, wherever they are. aks: the same on Azure. gke: the same on Google Cloud, whose node pools share
    GPUs themselves. local: the local control plane."""
    name: Name
    """The cluster's name."""
    region: str | None = None
    """Cloud region; needed on eks."""
    kubernetes_version: Annotated[
        str,
        StringConstraints(pattern=r"^1\.[0-9]{2}$"),
        Hint('a Kubernetes minor version in quotes, such as "1.36"'),
    ] = "1.36"
    """Kubernetes minor version, in quotes, such as "1.36"."""
    kube_context: str | None = None
    """Context in the kubeconfig; default: the current context (local: the local control plane's)."""


class Driver(Model):
    enabled: bool = True
    """Whether the operator installs the driver; false if the machine image includes it."""
    version: Version | None = None
    """Driver version; default: that of the operator's release."""


CLUSTER_POLICY = "cluster-policy"
"""As the operator's chart calls its ClusterPolicy."""


OPERATOR_NAMESPACE = "gpu-operator"
"""Where NVIDIA's documentation has its chart installed."""


class GpuOperator(Model):
    install: bool = True
    """Install the operator (Helm release); false if others run it: gpupool then points its ClusterPolicy to
    the pools' configurations, and its DaemonSets must already tolerate the pools' taints."""
    namespace: Name = OPERATOR_NAMESPACE
    """Namespace that the operator runs in, whose ConfigMaps its pods can mount; OLM's (OpenShift) is
    nvidia-gpu-operator."""
    cluster_policy: NodeName = CLUSTER_POLICY
    """Name of the ClusterPolicy of an operator that others run; OLM's (OpenShift) is gpu-cluster-policy."""
    version: Version = "v26.7.0"
    """Release of the NVIDIA GPU Operator; default: the release that gpupool is tested with."""
    driver: Driver = Driver()
    """The NVIDIA driver."""
    values: dict[str, JsonValue] = {}
    """Additional Helm values, deep-merged last. They must not contradict a pool."""


class Karpenter(Model):
    install: bool = True
    """Install the controller (Helm release, NodeOverlay gate on); false if others run it."""
    version: Version = "1.14.1"
    """Karpenter release. NodeOverlay exists since 1.7."""
    node_role: str | None = None
    """IAM role of the nodes (EC2NodeClass `role`); needed on eks."""
    discovery_tag: str | None = None
    """Value of the tag karpenter.sh/discovery on subnets and security groups; default: the cluster's name."""
    subnets: Annotated[list[SubnetTerm], Field(max_length=30)] = []
    """Subnets of machines, instead of the discovery tag; `pools[].nodes.subnets` takes precedence."""
    security_groups: Annotated[list[SecurityGroupTerm], Field(max_length=30)] = []
    """Security groups of machines, instead of the discovery tag; `pools[].nodes.securityGroups` takes
    precedence."""
    ami_alias: AmiAlias = "al2023@latest"
    """EC2NodeClass AMI alias, family@version; `pools[].nodes.image` takes precedence."""
    warm_pod_image: Image = PAUSE_IMAGE
    """Image of the pods that keep `pools[].nodes.warm` nodes; the default does nothing, as any user, on any
    architecture. Name a copy if `policies.limits.registries` does not allow its registry."""
    interruption_queue: str | None = None
    """Name of the SQS queue with spot interruption notices; it must exist. Default: no queue."""
    values: dict[str, JsonValue] = {}
    """Helm values for the controller, deep-merged last, e.g. its service account's role."""


class Exclusive(Model):
    mode: Literal["exclusive"]
    """A whole GPU per request."""


class TimeSlicing(Model):
    mode: Literal["time-slicing"]
    """Several pods take turns on a GPU; memory is not isolated."""
    replicas: Annotated[int, Field(le=SLICES_PER_GPU_MAX)]
    """Slices per GPU, at least 2."""
    rename_by_default: bool = False
    """Whether the resource of a slice is called nvidia.com/gpu.shared, so that quotas count slices and whole
    GPUs separately; only where the GPU Operator shares GPUs."""


class Mps(Model):
    mode: Literal["mps"]
    """Several pods run side by side on a GPU, each with an equal share of memory and threads."""
    replicas: int
    """Shares per GPU, at least 2."""
    rename_by_default: bool = False
    """Whether the resource of a slice is called nvidia.com/gpu.shared, so that quotas count slices and whole
    GPUs separately; only where the GPU Operator shares GPUs."""


class Mig(Model):
    mode: Literal["mig"]
    """GPUs are partitioned in hardware."""
    layout: dict[str, int]
    """MIG profiles and their number of instances per GPU; the same on every GPU."""


Sharing = Annotated[Exclusive | TimeSlicing | Mps | Mig, Field(discriminator="mode")]
SHARING_VARIANTS: Mapping[str, type[Model]] = {
    get_args(model.model_fields["mode"].annotation)[0]: model for model in get_args(get_args(Sharing)[0])
}
"""By mode."""


class UsdPerHour(Model):
    on_demand: Usd | None = None
    """Price of one node, USD per hour."""
    spot: Usd | None = None
    """Spot price of one node, USD per hour."""
    reserved: Usd | None = None
    """Price of one reserved node, USD per hour, used or not; default: the on-demand price."""


class Reservation(Model):
    id: ReservationId | None = None
    """Id of the Capacity Reservation or Capacity Block; or `tags`."""
    tags: Annotated[dict[Text, Text], Field(min_length=1, max_length=20)] | None = None
    """Tags of the reservation; the value * matches any."""
    count: Positive
    """Number of reserved nodes."""
    until: Moment | None = None
    """End of the reservation, in UTC; default: it has no end."""


_AmiId = Annotated[
    str, StringConstraints(pattern=r"^ami-[0-9a-z]+$"), Hint("an image's id such as ami-0123456789abcdef0")
]


class ImageTerm(Model):
    """One way to find a machine image; what is in one term holds together (EC2NodeClass, Karpenter 1.14)."""

    alias: AmiAlias | None = None
    """An Amazon image, family@version; without other fields."""
    id: _AmiId | None = None
    """The image's id, such as ami-0123456789abcdef0; without other fields."""
    name: Text | None = None
    """The image's name; * matches anything."""
    owner: Text | None = None
    """The image's account, or self, amazon, aws-marketplace; with name or tags."""
    ssm_parameter: Text | None = None
    """Name or ARN of the SSM parameter with the image's id."""
    tags: Annotated[dict[Text, Text], Field(max_length=20)] | None = None
    """Tags of the image; the value * matches any."""


class MachineImage(Model):
    family: Literal["AL2023", "Bottlerocket", "Custom"]
    """How the node is bootstrapped; Custom: only by `userData`. Bottlerocket is refused (known limits)."""
    selector_terms: Annotated[list[ImageTerm], Field(min_length=1, max_length=30)]
    """EC2NodeClass amiSelectorTerms: by alias, id, name and owner, tags or ssmParameter."""
    user_data: str | None = None
    """Script that the machine runs when it first boots."""

    def terms(self) -> list[dict[str, Any]]:
        """How the image is found, in the words of the EC2NodeClass and the order of the file."""
        return [term.model_dump(by_alias=True, exclude_none=True) for term in self.selector_terms]


class Taint(Model):
    key: LabelKey
    """Taint key."""
    value: LabelValue = ""
    """Taint value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    """What happens to pods that do not tolerate it."""


class Nodes(Model):
    instance_types: list[str] = []
    """Cloud instance types that carry the pool's GPU (eks, local)."""
    max: Positive | None = None
    """Maximum number of nodes; every pool has a maximum."""
    max_gpus: Positive | None = None
    """Maximum number of physical GPUs, instead of `max`, for machines with different numbers of GPUs, where
    Karpenter does not keep to a number of nodes (eks, local)."""
    warm: Count = 0
    """Number of nodes that are kept ready, whatever the demand."""
    spot_share: Share = 0.0
    """Share of the nodes that are spot capacity, 0 to 1; the other nodes have a hard limit."""
    capacity: Annotated[list[Literal["spot", "on-demand"]], Field(max_length=2)] = []
    """[spot, on-demand], instead of `spotShare`: spot nodes while they are available, otherwise on-demand
    nodes (eks, local)."""
    reserved: Annotated[list[Reservation], Field(max_length=30)] = []
    """Reserved capacity, including Capacity Blocks; these nodes count towards `max` and are filled first
    (eks, local)."""
    image: MachineImage | None = None
    """Machine image, instead of `karpenter.amiAlias` (eks)."""
    root_volume: RootVolume = RootVolume()
    """The root disk (eks)."""
    subnets: Annotated[list[SubnetTerm], Field(max_length=30)] = []
    """Subnets; default: `karpenter.subnets` (eks)."""
    security_groups: Annotated[list[SecurityGroupTerm], Field(max_length=30)] = []
    """Security groups; default: `karpenter.securityGroups` (eks)."""
    kubelet: Kubelet | None = None
    """Kubelet settings; default: those of the image (eks)."""
    startup_taints: list[Taint] = []
    """Startup taints: taints of a new node that another component removes when the node is ready (eks,
    local)."""
    placement_group: PlacementGroup | None = None
    """Placement group (eks)."""
    efa: bool = False
    """Whether multi-node jobs get the machines' EFA network cards, and one zone (eks)."""
    tags: Annotated[dict[Text, str], Field(max_length=40)] = {}
    """Tags of machines and their disks, in addition to gpupool's (eks)."""
    zones: list[NodeFact] = []
    """Availability zones; default: any."""
    consolidate_after: DurationOrNever = "10m"
    """How long an empty node stays, unless it is reserved."""
    reserved_consolidate_after: DurationOrNever = "Never"
    """How long an empty node of `reserved` stays; default: it stays, since it is paid for anyway. With a
    duration, other clusters can use the reservation meanwhile (eks, local)."""
    expire_after: DurationOrNever = "Never"
    """Age at which a node is replaced; Never protects long training runs."""
    termination_grace_period: Duration | None = None
    """How long a terminating node waits for its pods, whatever grace period they ask for (Karpenter);
    default: until they end."""
    usd_per_hour: UsdPerHour = UsdPerHour()
    """Prices that differ from the catalog's, for every instance type of the pool."""
    names: list[NodeName] = []
    """Existing nodes by name (static)."""
    selector: dict[LabelKey, LabelValue] = {}
    """Existing nodes by label (static); `max` is then their maximum number."""
    gpus: Positive | None = None
    """GPUs per existing node (static); default 1."""
    size: Compute | None = None
    """CPU and memory of one existing node (static); they limit what tenants' pods request there."""
    extended_resources: Annotated[dict[ExtendedResource, Positive], Field(max_length=20)] = {}
    """Extended resources of each node other than GPUs, such as rdma/hca: pods share them as they share CPU.
    EFA cards of instance types are known (`vpc.amazonaws.com/efa`)."""
    disk: Memory | None = None
    """Disk of one node that the queue's jobs share for local files; default: 20Gi for each slice."""


class Maintenance(Model):
    max_unavailable: Positive = 1
    """Number of nodes that may be replaced or drained at once."""
    window: str | None = None
    """When nodes may be replaced, such as "Sat 02:00-06:00 UTC" or "daily 01:00-03:00 UTC"; default: any
    time."""


class Pool(Model):
    name: Name
    """Name of the pool; label gpupool.dev/pool on its nodes."""
    description: str = ""
    """Purpose of the pool, in one sentence."""
    gpu: str
    """GPU model: a key of the catalog (`gpupool catalog`)."""
    sharing: Sharing = Exclusive(mode="exclusive")
    """How each GPU is shared; default: not at all."""
    nodes: Nodes
    """The machines of the pool."""
    labels: dict[LabelKey, LabelValue] = {}
    """Labels on every node of the pool."""
    taints: list[Taint] | None = None
    """Taints on every node; default gpupool.dev/pool=<name>:NoSchedule; [] for none."""
    fallback_to: list[str] = []
    """Time-sliced pools that accept this pool's jobs when it is full."""
    overcommit: bool = False
    """Whether the sum of grants may exceed the pool's maximum; tenants then can't use all grants at once."""
    jobs_only: bool = False
    """Whether only Jobs may use the pool, so that every workload there ends."""
    maintenance: Maintenance = Maintenance()
    """When nodes may be replaced, and how many at once."""


class Priority(Model):
    name: Name
    """Name of the PriorityClass."""
    value: Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)]
    """Priority; higher goes first."""
    level: Literal["critical", "high", "medium", "low"]
    """Queue level."""
    preempts: bool = False
    """Whether its jobs may preempt preemptible jobs."""
    preemptible: bool = False
    """Whether its jobs may be preempted."""
    description: str = ""
    """Purpose of the priority, in one sentence."""

    @property
    def queue_class(self) -> str:
        """Name of the PriorityClass of the queue's pods. It never preempts: which job goes for another is
        for the queue to decide, which knows shares, minimum run times and what would be lost."""
        return f"{self.name}{QUEUED}" if self.preempts else self.name


class Environment(Model):
    """One environment: its GPU pools, who may use them, and what it costs."""

    api_version: Literal["gpupool.dev/v1alpha1"]
    """Always gpupool.dev/v1alpha1."""
    kind: Literal["Environment"]
    """Always Environment."""
    metadata: Metadata
    """Name and annotations."""
    cluster: Cluster
    """The environment's cluster."""
    gpu_operator: GpuOperator = GpuOperator()
    """The NVIDIA GPU Operator."""
    karpenter: Karpenter = Karpenter()
    """The node autoscaler (eks, local)."""
    pools: list[Pool] = []
    """GPU pools."""
    priorities: list[Priority] = []
    """Priorities, highest first."""
    tenants: list[Tenant] = []
    """Teams that share the pools."""
    queue: Queue = Queue()
    """The job queue."""
    cost: Cost = Cost()
    """Limits on the total cost."""
    policies: Policies = Policies()
    """Which policies are enforced, and how."""
    delivery: Delivery = Delivery()
    """How objects are applied to the cluster."""
    promotion: Promotion | None = None
    """The environment that changes come from, and what may differ; default: this environment is the first."""
    monitoring: Monitoring = Monitoring()
    """Metrics and dashboards."""
