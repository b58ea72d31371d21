"""Random valid environment files for properties: plain values, as a person might write them.

Each is of one of the legal combinations (tests/environment_combinations.py), with details that are drawn.
Valid by construction, from the catalog and the rules of the file's format alone; no code that reads, checks
or resolves environments is asked what is valid. tests/environment_files.py writes and resolves them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from copy import deepcopy
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from hypothesis import strategies as st

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.plan.operator_releases import load_operator_releases, release_problems
from gpupool.environment.sharing import Exclusive, MigSharing, maximal_layouts
from tests.environment_combinations import KARPENTER, LEGAL, QUEUES, Combination, sections
from tests.environment_files import Data

GKE_CLIENTS = 48
"""Pods that share a GPU of a node pool of Google's at most."""
GKE_NODE = "gke-"
"""Begins the names of nodes on Google Kubernetes Engine, and of no others here."""
GKE_SELECTOR = "cloud.google.com/gke-nodepool"

AWKWARD = ("no", "yes", "y", "1e3", "0777", "0o17", "null", "true", "on", "0x1f", "2027-03-31", "e5", "12")
"""Words that readers of YAML take for something else when they stand without quotes."""
LEVELS = ("critical", "high", "medium", "low")
DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


def names(longest: int = 30) -> st.SearchStrategy[str]:
    """DNS labels, the awkward ones among them."""
    made = st.from_regex(rf"[a-z0-9]([-a-z0-9]{{0,{longest - 2}}}[a-z0-9])?", fullmatch=True)
    return st.one_of(st.sampled_from(AWKWARD), made)


label_keys = st.one_of(
    st.sampled_from(AWKWARD),
    st.from_regex(
        r"([a-z][-a-z0-9]{0,8}[a-z0-9]\.example/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?",
        fullmatch=True,
    ),
)
label_values = st.one_of(
    st.sampled_from(("", *AWKWARD)),
    st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True),
)
taints = st.lists(
    st.fixed_dictionaries(
        {"key": label_keys},
        optional={
            "value": label_values,
            "effect": st.sampled_from(("NoSchedule", "PreferNoSchedule", "NoExecute")),
        },
    ),
    max_size=3,
    unique_by=lambda taint: (taint["key"], taint.get("effect", "NoSchedule")),
)
durations = st.sampled_from(("30s", "10m", "1h30m", "Never"))


@st.composite
def windows(draw: st.DrawFn) -> str:
    """A maintenance window as text."""
    days = draw(
        st.one_of(st.just("daily"), st.lists(st.sampled_from(DAYS), min_size=1, max_size=7, unique=True))
    )
    start, end = draw(st.lists(st.integers(0, 1439), min_size=2, max_size=2, unique=True))
    clock = [f"{minute // 60:02}:{minute % 60:02}" for minute in (start, end)]
    return f"{days if isinstance(days, str) else ','.join(days)} {'-'.join(clock)} UTC"


def gpus_of(gpu: GpuModel, instance_type: str) -> int:
    """GPUs of an instance type, straight from the catalog's row."""
    return next(row.gpus for row in gpu.instance_types if row.name == instance_type)


def startable(gpu: GpuModel, platform: str) -> list[str]:
    """Instance types of `gpu` that the platform can start."""
    return [row.name for row in gpu.instance_types if platform == "local" or row.karpenter]


@st.composite
def sharings(draw: st.DrawFn, gpu: GpuModel, platform: str = "") -> Data | None:
    """A way to share `gpu` that the platform and the tested operator release support; None for the
    default."""
    release = load_operator_releases().releases[load_operator_releases().tested]
    modes = ["exclusive", "time-slicing", "mps"]
    layouts = maximal_layouts(gpu)
    if platform == "gke" and gpu.mig is not None:
        layouts = [{profile.name: profile.max_count} for profile in gpu.mig.profiles]
    mode = draw(st.sampled_from([*modes, *(["mig"] * 2 if layouts else [])]))
    if mode == "exclusive":
        return draw(st.sampled_from((None, {"mode": "exclusive"})))
    if mode == "mig":
        whole = draw(st.sampled_from(layouts))
        kept = {name: draw(st.integers(0, count)) for name, count in whole.items()}
        layout = {name: count for name, count in kept.items() if count and platform != "gke"} or whole
        if release_problems(release, gpu, MigSharing(layout)):
            return None
        return {"mode": "mig", "layout": layout}
    most = min(gpu.mps_clients if mode == "mps" else 32, GKE_CLIENTS)
    shared = {"mode": mode, "replicas": draw(st.integers(2, most))}
    if platform != "gke" and draw(st.booleans()):
        return {**shared, "renameByDefault": True}
    return shared


@st.composite
def pools(
    draw: st.DrawFn, platform: str, name: str, kinds: Collection[str] = (), by_files: bool = False
) -> Data:
    """One pool called `name`, of one of these kinds of nodes (default: of one that the platform may have).
    `by_files`: Argo CD or Flux delivers it."""
    kinds = kinds or (("karpenter",) if platform in KARPENTER else ("names", "selector"))
    kind = draw(st.sampled_from(sorted(kinds)))
    release = load_operator_releases().releases[load_operator_releases().tested]
    models = [
        gpu
        for gpu in load_catalog().models.values()
        if not release_problems(release, gpu, Exclusive())
        and (kind != "karpenter" or startable(gpu, platform))
    ]
    gpu = draw(st.sampled_from(models))
    nodes = draw(
        _cloud_nodes(gpu, platform) if kind == "karpenter" else _existing_nodes(name, kind, platform)
    )
    pool: Data = {"name": name, "gpu": gpu.key, "nodes": nodes}
    most = nodes_max(pool)
    sharing = draw(sharings(gpu, platform))
    if sharing is not None:
        pool["sharing"] = sharing
    if nodes.get("warm") or (sharing or {}).get("mode", "exclusive") != "exclusive":
        nodes.pop("efa", None)
    if draw(st.booleans()):
        pool["labels"] = draw(st.dictionaries(label_keys, label_values, max_size=3))
    if draw(st.booleans()):
        pool["taints"] = draw(taints)
    if by_files and kind != "karpenter":
        pool["taints"] = []
    if draw(st.booleans()):
        pool["jobsOnly"] = draw(st.booleans())
    if draw(st.booleans()):
        pool["maintenance"] = {"maxUnavailable": draw(st.integers(1, most)), "window": draw(windows())}
    return pool


DETAILS: Data = {
    "rootVolume": {
        "size": "1Ti",
        "iops": 4000,
        "throughput": 1000,
        "kmsKey": "alias/gpus",
        "snapshot": "snap-0a",
    },
    "subnets": [{"id": "subnet-0a"}, {"tags": {"tier": "gpu"}}],
    "securityGroups": [{"name": "gpus"}, {"id": "sg-0a"}],
    "kubelet": {"podsPerCore": 20, "systemReserved": {"memory": "1Gi"}, "clusterDNS": ["10.0.0.10"]},
    "startupTaints": [{"key": "example.com/agent", "effect": "NoExecute"}],
    "placementGroup": {"name": "gpus"},
    "tags": {"team": "ml"},
}
"""What machines may be made of, each with a value."""


@st.composite
def _cloud_nodes(draw: st.DrawFn, gpu: GpuModel, platform: str) -> Data:
    types = draw(st.lists(st.sampled_from(startable(gpu, platform)), min_size=1, max_size=3, unique=True))
    sizes = [gpus_of(gpu, name) for name in types]
    least = -(-max(sizes) // min(sizes))
    most = draw(st.integers(least, 50))
    both = most >= 2 * least
    shares = st.sampled_from((0, 0.01, 0.3, 0.5, 0.7, 0.99, 1)) if both else st.sampled_from((0, 1))
    bound = {"max": most} if len(set(sizes)) == 1 else {"maxGpus": most * min(sizes)}
    nodes: Data = {"instanceTypes": types, **bound, "spotShare": draw(shares)}
    if len(set(sizes)) == 1 and most > 2 and draw(st.booleans()):
        nodes["reserved"] = [{"id": "cr-0", "count": draw(st.integers(1, most - 2))}]
        if draw(st.booleans()):
            nodes["reservedConsolidateAfter"] = draw(durations)
    if nodes["spotShare"] == 0 and draw(st.booleans()):
        nodes |= {"capacity": ["spot", "on-demand"]}
        del nodes["spotShare"]
    if platform == "eks" and all(gpu.instance_type(name).efa for name in types) and draw(st.booleans()):
        nodes["efa"] = True
    if platform == "eks":
        nodes |= {
            name: deepcopy(DETAILS[name])
            for name in draw(st.lists(st.sampled_from(sorted(DETAILS)), unique=True))
        }
    nodes["warm"] = draw(st.sampled_from((0, 0, 1, most)))
    nodes["consolidateAfter"] = draw(durations)
    if draw(st.booleans()):
        nodes["terminationGracePeriod"] = draw(durations.filter(lambda duration: duration != "Never"))
    if draw(st.booleans()):
        nodes["zones"] = ["us-east-1a", "us-east-1b"]
    if draw(st.booleans()):
        nodes["disk"] = draw(st.sampled_from(("31Gi", "2Ti")))
    return nodes


@st.composite
def _existing_nodes(draw: st.DrawFn, pool: str, kind: str, platform: str) -> Data:
    nodes: Data = {"gpus": draw(st.integers(1, 8))}
    if draw(st.booleans()):
        nodes["size"] = {"cpus": draw(st.integers(1, 256)), "memory": draw(st.sampled_from(("31Gi", "2Ti")))}
    if kind == "names":
        prefix = GKE_NODE if platform == "gke" else ""
        return nodes | {"names": [f"{prefix}{pool}-{number}" for number in range(draw(st.integers(1, 3)))]}
    key = GKE_SELECTOR if platform == "gke" else "example.org/machines"
    return nodes | {"selector": {key: pool}, "max": draw(st.integers(1, 5))}


def in_node_pool(pool: Data) -> bool:
    """Whether Google's node pools share the GPUs of a pool as written, so that all slices have one name."""
    nodes = pool["nodes"]
    return GKE_SELECTOR in nodes.get("selector", ()) or any(
        name.startswith(GKE_NODE) for name in nodes.get("names", ())
    )


def gpus_per_node(pool: Data) -> int:
    """GPUs of the largest machine of a pool as written."""
    gpu, nodes = load_catalog()[pool["gpu"]], pool["nodes"]
    if "instanceTypes" not in nodes:
        return int(nodes.get("gpus", 1))
    return max(gpus_of(gpu, name) for name in nodes["instanceTypes"])


def slice_name(pool: Data, profile: str) -> str:
    """Extended resource of a pool's slices of one MIG profile."""
    return "nvidia.com/gpu" if in_node_pool(pool) else f"nvidia.com/mig-{profile.replace('+', '.')}"


def per_gpu(pool: Data) -> dict[str, int]:
    """Extended resource -> slices of one GPU of a pool as written."""
    sharing = pool.get("sharing") or {"mode": "exclusive"}
    if sharing["mode"] == "mig" and in_node_pool(pool):
        return {"nvidia.com/gpu": sum(sharing["layout"].values())}
    if sharing["mode"] == "mig":
        return {slice_name(pool, name): count for name, count in sharing["layout"].items()}
    name = "nvidia.com/gpu.shared" if sharing.get("renameByDefault") else "nvidia.com/gpu"
    return {name: sharing.get("replicas", 1)}


def gpus_max(pool: Data) -> int:
    """GPUs that a pool as written may have."""
    return int(pool["nodes"].get("maxGpus") or gpus_per_node(pool) * nodes_max(pool))


def nodes_max(pool: Data) -> int:
    """Nodes that a pool as written may have."""
    nodes = pool["nodes"]
    if "maxGpus" in nodes:
        gpu = load_catalog()[pool["gpu"]]
        return int(nodes["maxGpus"] // min(gpus_of(gpu, name) for name in nodes["instanceTypes"]))
    return int(nodes.get("max") or len(nodes["names"]))


@st.composite
def grants(draw: st.DrawFn, pool: Data) -> Data:
    """Something of `pool` that it can have."""
    gpus = gpus_max(pool)
    if draw(st.booleans()):
        return {"gpus": draw(st.integers(1, gpus))}
    sharing = pool.get("sharing") or {"mode": "exclusive"}
    if sharing["mode"] == "mig":
        chosen = draw(st.lists(st.sampled_from(sorted(sharing["layout"])), min_size=1, unique=True))
        return {"profiles": {name: draw(st.integers(1, gpus * sharing["layout"][name])) for name in chosen}}
    return {"slices": draw(st.integers(1, gpus * sharing.get("replicas", 1)))}


def mark_overcommitted(pools: list[Data], tenants: list[Data]) -> None:
    """Say of the pools that are granted more than once over that it is meant."""
    for pool in pools:
        slices, total = per_gpu(pool), Counter[str]()
        for tenant in tenants:
            grant = tenant["pools"].get(pool["name"], {})
            if "profiles" in grant:
                for name, count in grant["profiles"].items():
                    total[slice_name(pool, name)] += count
            elif "slices" in grant:
                total.update(dict.fromkeys(slices, grant["slices"]))
            elif "gpus" in grant:
                total.update({name: grant["gpus"] * count for name, count in slices.items()})
        if any(count > slices[name] * gpus_max(pool) for name, count in total.items()):
            pool["overcommit"] = True


@st.composite
def up_to(draw: st.DrawFn, pool: Data, grant: Data) -> Any:
    """What a tenant with that grant may use in all, in its words."""
    gpus, sharing = gpus_max(pool), pool.get("sharing") or {"mode": "exclusive"}
    if "profiles" in grant:
        return {
            name: draw(st.integers(count, gpus * sharing["layout"][name]))
            for name, count in grant["profiles"].items()
        }
    unit = "gpus" if "gpus" in grant else "slices"
    each = sharing.get("replicas", 1) if unit == "slices" else 1
    return draw(st.integers(grant[unit], gpus * each))


@st.composite
def tenants(draw: st.DrawFn, name: str, of: list[Data]) -> Data:
    """One tenant with grants on some of the pools."""
    wanted = (
        draw(st.lists(st.sampled_from(of), max_size=3, unique_by=lambda pool: pool["name"])) if of else []
    )
    tenant: Data = {"name": name, "namespace": f"team-{name}"}
    tenant["pools"] = {pool["name"]: draw(grants(pool)) for pool in wanted}
    if draw(st.booleans()):
        groups = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=20)
        groups = groups.filter(lambda group: not group.startswith("system:"))  # Kubernetes' own
        tenant["access"] = {
            "oidcGroups": draw(st.lists(groups, max_size=2)),
            "serviceAccounts": draw(st.sampled_from(([], [f"team-{name}/default"]))),
            "exposure": draw(st.lists(st.sampled_from(("LoadBalancer", "NodePort")), unique=True)),
        }
    if draw(st.booleans()):
        listed = st.lists(st.sampled_from(("data", "keys.example")), unique=True)
        tenant["jobs"] = draw(st.fixed_dictionaries({}, optional={"secrets": listed, "claims": listed}))
        tenant["jobs"]["checkpoints"] = f"s3://models/team-{name}/"
    if draw(st.booleans()):
        tenant["id"] = _id(name)
    if draw(st.booleans()):
        tenant["projects"] = [
            draw(
                st.sampled_from((project, {"name": project, "id": _id(name, project), "budget": {"usd": 5}}))
            )
            for project in draw(st.lists(names(), max_size=3, unique=True))
        ]
    sized = all("instanceTypes" in pool["nodes"] or "size" in pool["nodes"] for pool in wanted)
    if sized and draw(st.booleans()):
        tenant["extra"] = {"cpus": draw(st.integers(1, 64)), "memory": "64Gi"}
    return tenant


def _id(*names: str) -> str:
    """A UUID that no other name has."""
    return str(uuid5(NAMESPACE_DNS, "/".join(names)))


queues = st.fixed_dictionaries(
    {},
    optional={
        "ordering": st.sampled_from(("fifo", "priority", "fair-share")),
        "defaultTimeout": st.sampled_from(("1h", "90m", "336h")),
        # Copies: tests that damage an environment must not damage the next one.
        "targets": st.sampled_from(([], ["http://example"], ["https://a.example.com:8443"])).map(list),
        "logs": st.just({"keepMiB": 1, "keepFor": "36h"}).map(dict),
        "idle": st.just(
            {"prometheus": "http://prometheus:9090", "below": 0.1, "for": "1h", "action": "stop"}
        ).map(dict),
    },
)


@st.composite
def environments(
    draw: st.DrawFn,
    platform: str | None = None,
    most_pools: int = 4,
    among: Sequence[Combination] = LEGAL,
) -> Data:
    """A whole environment that is valid, of one of these combinations."""
    it = draw(st.sampled_from([it for it in among if platform in (None, it.platform)]))
    by_files = it.delivery != "pulumi"
    distinct = st.lists(names(), max_size=most_pools, unique=True)
    pool_names = [name for name in draw(distinct) if not name.endswith(("-spot", "-reserved"))]
    made = [draw(pools(it.platform, name, it.kinds, by_files)) for name in pool_names]
    for index, pool in enumerate(made):
        for reservation in pool["nodes"].get("reserved", ()):
            reservation["id"] = f"cr-{index}"
    tenant_names = draw(st.lists(names(), max_size=3, unique=True))
    values = draw(
        st.lists(st.integers(-1000, 1000), max_size=4, unique=True).map(lambda v: sorted(v, reverse=True))
    )
    priorities: list[Data] = [
        {"name": f"p{index}", "value": value, "level": level, "preempts": draw(st.booleans())}
        for index, (value, level) in enumerate(zip(values, LEVELS, strict=False))
    ]
    sharing = [draw(tenants(name, made)) for name in tenant_names]
    mark_overcommitted(made, sharing)
    if priorities and it.queue != "off" and draw(st.booleans()):
        priorities[-1]["preemptible"] = True  # which all tenants may use
        for tenant in sharing:
            for pool in made:
                if (grant := tenant["pools"].get(pool["name"])) and draw(st.booleans()):
                    grant["upTo"] = draw(up_to(pool, grant))
    environment = {**sections(it), "pools": made, "priorities": priorities, "tenants": sharing}
    if it.queue != "off":
        environment["queue"] = draw(queues) | deepcopy(QUEUES[it.queue])
    environment.pop("monitoring", None)  # it draws nothing, and takes most of the time
    return environment
