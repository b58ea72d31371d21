"""Every legal combination of what an environment may be, and one environment for each.

The combinations are what the documentation of the file's format permits, written down here once more: no code
that reads, checks or resolves environments is asked. `environment_of` is deterministic, so that a test which
goes through `LEGAL` or `COVERING` makes the same objects in each run; tests/environment_strategies.py draws
the details. A pool's name says what its content is, so that NodePools of equal names in two environments
differ in nothing but their node class.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, fields

from tests.environment_files import Data, environment_data


@dataclass(frozen=True, order=True)
class Combination:
    """One value of each facet."""

    platform: str
    nodes: str
    """The kinds of nodes that pools are of, joined by +: karpenter, names, selector."""
    sharing: str
    capacity: str
    """Of the pool that Karpenter starts nodes for; existing where there is none."""
    delivery: str
    operator: str
    """Who installs the GPU Operator: us, others, others under a name of their own; cloud: there is none."""
    queue: str

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of nodes, one for each pool."""
        return tuple(self.nodes.split("+"))

    def pairs(self) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
        """Every pair of facets with their values."""
        yield from itertools.combinations(((one.name, getattr(self, one.name)) for one in fields(self)), 2)


FACETS: dict[str, tuple[str, ...]] = {
    "platform": ("eks", "local", "static", "aks", "gke"),
    "nodes": (
        *("karpenter", "names", "selector", "karpenter+names", "karpenter+selector"),
        *("names+selector", "karpenter+names+selector"),
    ),
    "sharing": ("exclusive", "time-slicing", "mps", "mig"),
    "capacity": ("on-demand", "spot", "spot-first", "spot-share", "reserved", "existing"),
    "delivery": ("pulumi", "argocd", "flux"),
    "operator": ("installed", "theirs", "theirs-named", "cloud"),
    "queue": ("off", "embedded", "chart"),
}
"""Facet -> its values, in the order of `Combination`."""
KARPENTER = ("eks", "local")
"""Platforms on which Karpenter starts nodes."""


def legal(it: Combination) -> bool:
    """Whether the file's format permits it (docs/environment.md, docs/clouds.md, docs/delivery.md)."""
    started = "karpenter" in it.kinds
    return (
        (it.platform in KARPENTER or not started)
        and started == (it.capacity != "existing")
        # Google's node pools share GPUs themselves.
        and (it.platform == "gke") == (it.operator == "cloud")
    )


LEGAL = tuple(
    combination
    for combination in (Combination(*values) for values in itertools.product(*FACETS.values()))
    if legal(combination)
)


def covering(combinations: Iterable[Combination] = LEGAL) -> tuple[Combination, ...]:
    """Some of `combinations` in which every pair of values occurs that occurs in any: greedy, each time the
    one with the most pairs that are still missing."""
    left = {combination: frozenset(combination.pairs()) for combination in combinations}
    missing = set().union(*left.values())
    chosen = []
    while missing:
        best = max(left, key=lambda combination: len(left[combination] & missing))
        missing -= left.pop(best)
        chosen.append(best)
    return tuple(chosen)


COVERING = covering()

_SHARED: dict[str, Data] = {
    "exclusive": {"gpu": "l4"},
    "time-slicing": {"gpu": "t4", "sharing": {"mode": "time-slicing", "replicas": 4}},
    "mps": {"gpu": "a10g", "sharing": {"mode": "mps", "replicas": 3}},
    "mig": {"gpu": "a100-80gb", "sharing": {"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 2}}},
}
_TYPES = {
    "exclusive": (["g6.xlarge"], ["g6.xlarge", "g6.12xlarge"]),
    "time-slicing": (["g4dn.xlarge"], ["g4dn.xlarge", "g4dn.12xlarge"]),
    "mps": (["g5.xlarge"], ["g5.xlarge", "g5.12xlarge"]),
    "mig": (["p4de.24xlarge"], ["p4de.24xlarge"]),
}
"""Sharing -> instance types of its GPU: with one number of GPUs, and with several where there are such."""
_CAPACITIES: dict[str, Data] = {
    "on-demand": {"warm": 1, "consolidateAfter": "Never"},
    "spot": {"spotShare": 1, "expireAfter": "720h"},
    "spot-first": {"capacity": ["spot", "on-demand"], "terminationGracePeriod": "1h"},
    "spot-share": {"spotShare": 0.5, "zones": ["us-east-1a", "us-east-1b"]},
    "reserved": {"reserved": [{"id": "cr-0a1b2c3d4e5f60718", "count": 1, "until": "2031-02-28T11:30Z"}]},
}
_OPERATORS: dict[str, Data] = {
    "installed": {"gpuOperator": {"driver": {"enabled": False}}},
    "theirs": {"gpuOperator": {"install": False, "driver": {"enabled": False}}},
    "theirs-named": {
        "gpuOperator": {
            "install": False,
            "clusterPolicy": "gpu-cluster-policy",
            "driver": {"enabled": False},
        }
    },
    "cloud": {},
}
_REGIONS: dict[str, Data] = {"aks": {"region": "westeurope"}, "gke": {"region": "us-central1"}}
QUEUES: dict[str, Data] = {
    "off": {"enabled": False},
    "embedded": {},
    "chart": {
        "chart": {
            "repository": "oci://registry.example.com/charts",
            "image": "registry.example.com/gpupool:1.0.0",
        },
        "database": {"secretRef": {"name": "queue", "key": "url"}},
        "metricsKeySecretRef": {"name": "queue", "key": "metrics"},
    },
}


def sections(it: Combination) -> Data:
    """All of the environment but its pools, priorities and tenants."""
    cluster = {"name": "ml", **_REGIONS.get(it.platform, {})}
    found = environment_data(
        it.platform, name="random", cluster=cluster, **_OPERATORS[it.operator], queue=QUEUES[it.queue]
    )
    if it.platform == "local":
        found["karpenter"] = {"nodeRole": "nodes"}
    if it.delivery != "pulumi":
        repository = "https://git.example.com/ml/platform.git"
        found["delivery"] = {"engine": it.delivery, "repo": repository, "path": "rendered/random"}
    if it.platform != "local":
        found["monitoring"] = {"prometheusOperator": True, "grafana": True}
    return deepcopy(found)


def nodes_of(kind: str, it: Combination, pool: str, several: bool = False) -> Data:
    """`nodes` of a pool of one of the combination's kinds."""
    if kind == "names":
        return {"names": [f"{pool}-0", f"{pool}-1"], "gpus": 2}
    if kind == "selector":
        return {"selector": {"example.org/machines": pool}, "max": 2, "gpus": 2}
    types = _TYPES[it.sharing][several]
    bound = {"maxGpus": 8} if len(types) > 1 else {"max": 4}
    return {"instanceTypes": list(types), **bound, **deepcopy(_CAPACITIES[it.capacity])}


def environment_of(it: Combination) -> Data:
    """The combination as a file: a pool of each kind of nodes, and a tenant that has some of each."""
    pools = []
    for kind in it.kinds:
        several = kind == "karpenter" and it.capacity not in ("reserved", "on-demand") and it.sharing != "mig"
        name = "-".join((kind, it.sharing, *([it.capacity] if kind == "karpenter" else [])))
        pool = {"name": name, **deepcopy(_SHARED[it.sharing]), "nodes": nodes_of(kind, it, name, several)}
        if kind != "karpenter" and it.delivery != "pulumi":
            pool["taints"] = []
        if it.platform == "gke" and it.sharing == "mig":  # its node pools have one profile each
            pool["sharing"] = {"mode": "mig", "layout": {"1g.10gb": 7}}
        pools.append(pool)
    borrowed = {} if it.queue == "off" else {"upTo": 2}
    return {
        **sections(it),
        "pools": pools,
        "priorities": [
            {"name": "serving", "value": 100, "level": "high", "preempts": True},
            {"name": "research", "value": 10, "level": "low", "preemptible": True},
        ],
        "tenants": [
            {
                "name": "vision",
                "namespace": "team-vision",
                "maxPriority": "serving",
                "pools": {pool["name"]: {"gpus": 1, **borrowed} for pool in pools},
                "access": {"oidcGroups": ["vision"], "serviceAccounts": ["team-vision/default"]},
                "projects": ["search"],
                "budget": {"usd": 1_000_000},
            }
        ],
    }


def combinations_of(environment: Data) -> set[Combination]:
    """The combinations that an environment as written is of: one for each of its pools, beside whatever
    others there are; none without pools."""
    platform, delivery = environment["cluster"]["platform"], environment.get("delivery", {})
    operator = environment.get("gpuOperator", {})
    queue = environment["queue"]
    kinds = {_kind(pool) for pool in environment["pools"]}
    together = "+".join(kind for kind in ("karpenter", "names", "selector") if kind in kinds)
    started = {_capacity(pool["nodes"]) for pool in environment["pools"] if _kind(pool) == "karpenter"}
    owner = "installed" if operator.get("install", True) else "theirs"
    named = "-named" if owner == "theirs" and "clusterPolicy" in operator else ""
    return {
        Combination(
            platform,
            together,
            (pool.get("sharing") or {"mode": "exclusive"})["mode"],
            capacity,
            delivery.get("engine", "pulumi"),
            "cloud" if platform == "gke" else owner + named,
            "off" if queue.get("enabled") is False else "chart" if "chart" in queue else "embedded",
        )
        for pool in environment["pools"]
        for capacity in (
            {_capacity(pool["nodes"])} if _kind(pool) == "karpenter" else started or {"existing"}
        )
    }


def _kind(pool: Data) -> str:
    return next((kind for kind in ("names", "selector") if kind in pool["nodes"]), "karpenter")


def _capacity(nodes: Data) -> str:
    if nodes.get("reserved"):
        return "reserved"
    if nodes.get("capacity"):
        return "spot-first"
    share = nodes.get("spotShare", 0)
    return "on-demand" if not share else "spot" if share == 1 else "spot-share"
