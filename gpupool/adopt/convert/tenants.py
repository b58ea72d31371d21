"""Namespaces with quotas -> tenants.

A quota counts a resource over all pools that offer it, so the split among pools is unknown; gpupool's own
objects show which pools a tenant may use, and the sum is spread over those. Weights, limits in the queue and
budgets are in no object; the list says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpupool.adopt.convert import priorities
from gpupool.adopt.convert import sharing as sharings
from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.bounds import gpus_of
from gpupool.adopt.convert.cluster_objects import TENANT_LABEL, ClusterObjects, list_as_foreign, ours
from gpupool.adopt.convert.device_plugin import RENAMED
from gpupool.adopt.convert.draft import Draft, DraftPool
from gpupool.adopt.convert.quantities import quantity
from gpupool.environment.catalog.models import mig_resource
from gpupool.environment.catalog.project import catalog_here
from gpupool.environment.plan.capacity import overgranted
from gpupool.environment.plan.checks.names import is_reserved
from gpupool.environment.plan.device_classes import uncounted_devices
from gpupool.environment.plan.model import POOL_LABEL, SYSTEM_NAMESPACE

_TENANTS = "gpupool-tenants"
"""The ConfigMap from which policies know the tenants (generators.policy_parameters)."""
_QUOTA, _GRANTED, _PRIORITIES = "gpupool", "gpupool-granted", "gpupool-priorities"
"""Names of gpupool's ResourceQuotas (generators.quotas)."""
_GRANTS, _UP_TO, _EXTRA = "gpupool.dev/grants", "gpupool.dev/up-to", "gpupool.dev/extra"
"""Annotations of the first of them: what it is the sum of."""
_NOWHERE = "no object of a cluster has weight, projects, limits, budget and the split of quotas among pools"


def make(cluster: ClusterObjects, draft: Draft) -> None:
    """Add the cluster's priorities and tenants to `draft`, whose pools are complete."""
    draft.priorities = priorities.read(cluster)
    first: Part | None = None  # namespace of the first tenant, where what concerns all tenants is noted
    for namespace in cluster.all("Namespace"):
        name = namespace.document.name
        if any(tenant["namespace"] == name for tenant in draft.tenants):
            namespace.left("another document has the same namespace", "remove one of them")
            continue
        tenant = _tenant(namespace, cluster, draft)
        if tenant is not None:
            draft.tenants.append(tenant)
            first = first or namespace
            namespace.named()
            if namespace.document.source is None or ours(namespace):
                namespace.rest_of_cluster()
        elif ours(namespace):
            namespace.of_cluster()
        else:
            list_as_foreign(namespace, "it has no quota of GPUs, so it is not a tenant")
    _make_preemptible(cluster, draft)
    if first is not None:
        first.note("assumed", f"{_NOWHERE}; defaults were written", "complete `tenants`")
        _allow_overcommit(draft, first)


def _make_preemptible(cluster: ClusterObjects, draft: Draft) -> None:
    """Where tenants borrow, some priority must be preemptible: assume the lowest."""
    grants = [grant for tenant in draft.tenants for grant in tenant.get("pools", {}).values()]
    if draft.priorities and any("upTo" in grant for grant in grants):
        lowest = draft.priorities[-1]
        lowest["preemptible"] = True
        why = f"no object shows which priorities may be preempted; {lowest['name']} may, since tenants borrow"
        cluster.all("PriorityClass")[0].note("assumed", why, "complete `priorities`")


def _allow_overcommit(draft: Draft, first: Part) -> None:
    """Set `overcommit` of the pools of which more is granted than they have. `first`: where that is noted."""
    for pool in draft.pools:
        granted = [tenant.get("pools", {}).get(pool.name) for tenant in draft.tenants]
        over = overgranted(_slices_max(pool), [_counts(pool, grant) for grant in granted if grant])
        for resource, (total, most) in over.items():
            pool.overcommit = True
            why = f"quotas grant {total} x {resource} of pool {pool.name}, which has only {most}"
            first.note("assumed", f"{why}: overcommit was written", "grant less, or raise the pool's limit")


def _tenant(namespace: Part, cluster: ClusterObjects, draft: Draft) -> dict[str, Any] | None:
    """The tenant of the namespace; None where it is none: without a quota of GPUs and gpupool's label."""
    name = namespace.document.name
    quotas = list(cluster.in_namespace("ResourceQuota", name))
    counts = _allowed_by_all([_counted(quota) for quota in quotas])
    notes = next((_notes(quota) for quota in quotas if quota.document.name == _QUOTA and ours(quota)), {})
    label = namespace.at("metadata", "labels", TENANT_LABEL)
    if (not label and not any(counts.values())) or is_reserved(name, cluster.operator_namespace):
        return None
    allowed_pools = cluster.parameter(_TENANTS, f"pools.{name}").split()
    tenant: dict[str, Any] = {"name": str(label.value) if label else name, "namespace": name}
    if highest := _max_priority(cluster, name, draft):
        tenant["maxPriority"] = highest
    pools = [pool for pool in draft.pools if not allowed_pools or pool.name in allowed_pools]
    grants = _noted_grants(pools, counts, notes.get(_GRANTS, ""), notes.get(_UP_TO, ""))
    if not grants:
        grants, excess = _spread_grants(pools, counts, each_gets_some=bool(allowed_pools))
        for resource, count in excess.items():
            why = f"its quota of {resource} is {count} more than the maximum of all pools"
            namespace.note("wrong", why, "raise nodes.max or nodes.maxGpus")
    if grants:
        tenant["pools"] = grants
    if extra := _extra(notes.get(_EXTRA, "")):
        tenant["extra"] = extra
    return tenant | _access(cluster, name) | _jobs(cluster, name)


def _allowed_by_all(quotas: Sequence[Mapping[str, tuple[int, Part]]]) -> Counter[str]:
    """Resource -> what all of a namespace's quotas allow together: the least, since each is enforced."""
    counts = Counter[str]()
    for resource in dict.fromkeys(name for quota in quotas for name in quota):
        (allowed, _), *more = sorted(
            (quota[resource] for quota in quotas if resource in quota), key=lambda row: row[0]
        )
        counts[resource] += allowed
        for _, part in more:
            part.left(f"another quota of the namespace allows {allowed}, and both are enforced")
    return counts


def _counted(quota: Part) -> dict[str, tuple[int, Part]]:
    """Resource -> the count that a quota allows to all pods of its namespace, and the part that says so; mark
    the rest of the quota."""
    quota.named("namespace")
    counts: dict[str, tuple[int, Part]] = {}
    of_pool = quota.at("metadata", "labels", POOL_LABEL)
    if (quota.document.name in (_PRIORITIES, _GRANTED) or of_pool) and ours(quota):
        quota.derived()
        return counts
    scoped = next((part for name in ("scopes", "scopeSelector") if (part := quota.at("spec", name))), None)
    if scoped:
        why = "it counts only some pods of the namespace, but gpupool's quotas count all of a tenant's pods"
        quota.at("spec").left(
            why, "keep it in addition to gpupool's, or set priorities with tenants[].maxPriority"
        )
        return counts
    for key, part in quota.at("spec", "hard").items():
        resource = key.removeprefix("requests.").removeprefix("limits.")
        amount = quantity(part.value)
        if not resource.startswith("nvidia.com/") and ours(quota):
            part.derived()  # they follow from the grants
        elif key in uncounted_devices() and amount == 0:
            part.derived()
        elif not resource.startswith("nvidia.com/"):
            part.left("gpupool's quotas count only GPUs", "keep a separate quota for it")
        elif key != f"requests.{resource}":  # in the words of the policy quotas-count-gpus
            part.wrong(f"quota on {key} is never enforced", f"write requests.{resource}")
        elif amount is None or amount.denominator != 1:
            part.wrong("not a whole number of GPUs", "correct it")
        elif resource.startswith(mig_resource("")) and resource.endswith(RENAMED):
            part.left("it counts slices of MIG instances, which gpupool does not share")
        else:
            part.used()
            counts[resource] = (int(amount), part)
    return counts


def _notes(quota: Part) -> dict[str, str]:
    """What gpupool's own quota says of its parts."""
    annotations = quota.at("metadata", "annotations")
    return {key: annotations.text(key) or "" for key in (_GRANTS, _UP_TO, _EXTRA)}


def _noted_grants(
    pools: Sequence[DraftPool], counts: Mapping[str, int], grants: str, up_to: str
) -> dict[str, Any]:
    """Pool -> grant as gpupool has noted it on its quota; empty where the quota's `counts` are not the sum of
    it any more."""
    known = {pool.name: pool for pool in pools}
    granted, most = _parsed(known, grants), _parsed(known, up_to)
    if granted is None or most is None or not most.keys() <= granted.keys():
        return {}
    if sum(map(Counter, {**granted, **most}.values()), Counter()) != counts:
        return {}
    result = {pool: _grant(known[pool], grant) for pool, grant in granted.items()}
    for pool, amounts in most.items():
        (result[pool]["upTo"],) = _grant(known[pool], amounts).values()
    return result


def _parsed(known: Mapping[str, DraftPool], text: str) -> dict[str, dict[str, int]] | None:
    """Pool -> resource -> count of `pool/resource=count` words; None where one is of no pool here."""
    noted: dict[str, dict[str, int]] = {}
    for word in text.split():
        place, _, count = word.rpartition("=")
        pool, _, resource = place.partition("/")
        if pool not in known or resource not in _slices_max(known[pool]) or not count.isdecimal():
            return None
        noted.setdefault(pool, {})[resource] = int(count)
    return noted


def _extra(noted: str) -> dict[str, Any]:
    amounts = dict(word.partition("=")[::2] for word in noted.split())
    cpus, memory = amounts.get("cpu", ""), amounts.get("memory", "")
    return {"cpus": int(cpus), "memory": memory} if cpus.isdecimal() and memory else {}


def _spread_grants(
    pools: Sequence[DraftPool], counts: Mapping[str, int], each_gets_some: bool
) -> tuple[dict[str, Any], dict[str, int]]:
    """Pool -> grant, and resource -> what is more than the pools have. The `counts` are spread over the
    pools; with `each_gets_some` so that no pool is left without any, if there is enough."""
    offers = {pool.name: _slices_max(pool) for pool in pools}
    granted: dict[str, dict[str, int]] = {pool.name: {} for pool in pools}
    excess: dict[str, int] = {}
    for resource, total in counts.items():
        most = {name: offer[resource] for name, offer in offers.items() if resource in offer}
        for name, share in _spread(total, most, 1 if each_gets_some else 0).items():
            if share:
                granted[name][resource] = share
        if total > sum(most.values()):
            excess[resource] = total - sum(most.values())
    return {pool.name: _grant(pool, granted[pool.name]) for pool in pools if granted[pool.name]}, excess


def _spread(total: int, most: Mapping[str, int], least: int) -> dict[str, int]:
    """`total` divided in proportion to `most`, what each takes at most, and at least `least` to each if there
    is enough."""
    shares: dict[str, int] = {}
    rest, room = total, sum(most.values())
    for number, (name, own_room) in enumerate(most.items(), start=1):
        room_after = room - own_room
        kept_for_others = least * (len(most) - number)
        proportional = rest * own_room // room if room else 0
        # What the following ones have no room for goes here, within this one's own room.
        share = min(max(proportional, least, rest - room_after), own_room, rest - kept_for_others)
        shares[name] = max(share, 0)
        rest, room = rest - shares[name], room_after
    return shares


def _slices_max(pool: DraftPool) -> dict[str, int]:
    """Extended resource -> what all nodes of the pool have together."""
    return sharings.slices(pool.sharing, catalog_here()[pool.gpu], gpus_of(pool))


def _grant(pool: DraftPool, counts: Mapping[str, int]) -> dict[str, Any]:
    """The grant of the file that amounts to `counts` of the pool's resources, at least one."""
    if pool.sharing["mode"] == "mig":
        spelled = {mig_resource(name): name for name in pool.sharing["layout"]}
        return {"profiles": {spelled[resource]: count for resource, count in counts.items()}}
    unit = "gpus" if pool.sharing["mode"] == "exclusive" else "slices"
    (count,) = counts.values()
    return {unit: count}


def _counts(pool: DraftPool, grant: Mapping[str, Any]) -> dict[str, int]:
    """Extended resource -> count of a grant as `_grant` has written it."""
    profiles = {mig_resource(name): count for name, count in grant.get("profiles", {}).items()}
    plain = grant.get("gpus", grant.get("slices"))
    return profiles if plain is None else dict.fromkeys(_slices_max(pool), plain)


def _max_priority(cluster: ClusterObjects, namespace: str, draft: Draft) -> str | None:
    """The highest priority that the tenant may use; None for the lowest, which is the default."""
    words = cluster.parameter(_TENANTS, f"priorities.{namespace}").split()
    name = words[0].partition("=")[0] if words else None
    names = [row["name"] for row in draft.priorities]
    return name if name in names and name != names[-1] else None


def _access(cluster: ClusterObjects, namespace: str) -> dict[str, Any]:
    """Who may use the tenant's namespace, and from where, by gpupool's own objects in it."""
    access: dict[str, list[str]] = {}
    for binding in cluster.in_namespace("RoleBinding", namespace):
        if ours(binding):
            rows = list(binding.at("subjects").each())
            if binding.document.name == "gpupool-tenant":
                access["oidcGroups"] = [row.word("name") for row in rows if row.word("kind") == "Group"]
                access["serviceAccounts"] = [
                    f"{row.word('namespace')}/{row.word('name')}"
                    for row in rows
                    if row.word("kind") == "ServiceAccount"
                ]
    for policy in cluster.in_namespace("NetworkPolicy", namespace):
        if ours(policy):
            names = [
                row.word("namespaceSelector", "matchLabels", "kubernetes.io/metadata.name")
                for row in policy.at("spec", "ingress", 0, "from").each()
            ]
            access["ingressFrom"] = [name for name in names if name not in ("", SYSTEM_NAMESPACE)]
    access["exposure"] = cluster.parameter(_TENANTS, f"exposure.{namespace}").split()
    given = {key: value for key, value in access.items() if value}
    return {"access": given} if given else {}


def _jobs(cluster: ClusterObjects, namespace: str) -> dict[str, Any]:
    """What its jobs may use, where that is listed: an empty list is another thing than none."""
    part = cluster.parameters.get(_TENANTS)
    found = {key: part.at("data", f"{key}.{namespace}") for key in ("secrets", "claims")} if part else {}
    listed = {key: str(names.value).split() for key, names in found.items() if names}
    return {"jobs": listed} if listed else {}
