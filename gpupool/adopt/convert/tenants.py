"""Namespaces with quotas -> tenants, and PriorityClasses -> priorities.

A quota counts a resource over all pools that offer it, so the split among pools is unknown; gpupool's own
objects show which pools a tenant may use, and the sum is spread over those. Weights, limits in the queue and
budgets are in no object; the list says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpupool.adopt.convert import sharing as sharings
from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.bounds import gpus_of
from gpupool.adopt.convert.cluster_objects import TENANT_LABEL, ClusterObjects, list_as_foreign, ours
from gpupool.adopt.convert.device_plugin import RENAMED
from gpupool.adopt.convert.draft import Draft, DraftPool
from gpupool.adopt.convert.quantities import quantity
from gpupool.adopt.convert.spec_words import fits
from gpupool.adopt.convert.values import as_whole
from gpupool.environment.catalog.models import mig_resource
from gpupool.environment.catalog.project import catalog_here
from gpupool.environment.plan.capacity import overgranted
from gpupool.environment.plan.checks.names import is_reserved
from gpupool.environment.plan.checks.priorities import LEVELS
from gpupool.environment.plan.device_classes import uncounted_devices
from gpupool.environment.plan.model import LEVEL_LABEL, POOL_LABEL, SYSTEM_NAMESPACE
from gpupool.environment.plan.pods import BORROWED_CLASS, WARM_CLASS
from gpupool.environment.spec.environment import QUEUED
from gpupool.environment.spec.field_types import PAUSE_IMAGE

_TENANTS, _POOLS = "gpupool-tenants", "gpupool-pools"
_QUOTA, _GRANTED, _PRIORITIES = "gpupool", "gpupool-granted", "gpupool-priorities"
_GRANTS, _UP_TO, _EXTRA = "gpupool.dev/grants", "gpupool.dev/up-to", "gpupool.dev/extra"
_UNSEEN = "no object of a cluster has weight, projects, limits, budget and the split of quotas among pools"


def make(cluster: ClusterObjects, draft: Draft) -> None:
    """Add the cluster's priorities and tenants to `draft`, whose pools are complete."""
    draft.priorities = _priorities(cluster)
    first: Part | None = None
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
    if draft.priorities and any(
        "upTo" in grant for t in draft.tenants for grant in t.get("pools", {}).values()
    ):
        draft.priorities[-1]["preemptible"] = True
        name = draft.priorities[-1]["name"]
        why = f"no object shows which priorities may be preempted; {name} may, since tenants borrow"
        cluster.all("PriorityClass")[0].note("assumed", why, "complete `priorities`")
    if first is not None:
        first.note("assumed", f"{_UNSEEN}; defaults were written", "complete `tenants`")
        _overcommitted(draft, first)


def _overcommitted(draft: Draft, first: Part) -> None:
    """Marks the pools of which more is granted than they have. `first`: where that is noted."""
    for pool in draft.pools:
        granted = [tenant.get("pools", {}).get(pool.name) for tenant in draft.tenants]
        over = overgranted(_offer(pool), [_counts(pool, grant) for grant in granted if grant])
        for resource, (total, most) in over.items():
            pool.overcommit = True
            why = f"quotas grant {total} x {resource} of pool {pool.name}, which has only {most}"
            first.note("assumed", f"{why}: overcommit was written", "grant less, or raise the pool's limit")


def _priorities(cluster: ClusterObjects) -> list[dict[str, Any]]:
    found: list[tuple[int, Part]] = []
    values = {part.document.name: part.at("value").value for part in cluster.all("PriorityClass")}
    for part in cluster.all("PriorityClass"):
        name = part.document.name
        number = values[name] if isinstance(values[name], int) else None
        first = values.get(name.removesuffix(QUEUED))
        if name.startswith("system-") or name in (WARM_CLASS, BORROWED_CLASS):
            part.of_cluster()
        elif ours(part) and (part.at("metadata", "labels", POOL_LABEL) or _of_queue(name, first, number)):
            part.derived()
        elif number is None or abs(number) > 10**9 or not fits("name", name):
            part.left("gpupool supports names of letters, digits and hyphens, and values up to 1000000000")
        else:
            found.append((number, part))
    found.sort(key=lambda pair: -pair[0])
    rows: list[dict[str, Any]] = []
    for rank, (number, part) in enumerate(found):
        if rows and rows[-1]["value"] == number:
            part.left(f"it has the same value as {rows[-1]['name']}, but gpupool needs different values")
            continue
        rows.append(_priority(part, number, rank, len(found), rows))
    return rows


def _of_queue(name: str, first: object, value: int | None) -> bool:
    """Whether a class of that name and value is the queue's own of a priority whose value is `first`."""
    return name.endswith(QUEUED) and first is not None and first == value


def _priority(
    part: Part, value: int, rank: int, total: int, above: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    part.named()
    part.uses("value", "preemptionPolicy")
    level = part.text("metadata", "labels", LEVEL_LABEL)
    if level not in LEVELS:
        level = LEVELS[min(rank * len(LEVELS) // total, 3)]
        part.note("assumed", f"no object shows its level: {level} was written, from its rank", "correct it")
    if above:  # levels fall with values
        level = LEVELS[max(LEVELS.index(level), LEVELS.index(above[-1]["level"]))]
    row: dict[str, Any] = {"name": part.document.name, "value": value, "level": level}
    if part.word("preemptionPolicy") != "Never":
        row["preempts"] = True
    if text := part.text("description"):
        row["description"] = text
    part.mark_derived_if(False, "globalDefault")
    return row


def _tenant(namespace: Part, cluster: ClusterObjects, draft: Draft) -> dict[str, Any] | None:
    name = namespace.document.name
    quotas = list(cluster.in_namespace("ResourceQuota", name))
    counts = _least([_quota(quota) for quota in quotas])
    notes = next((_notes(quota) for quota in quotas if quota.document.name == _QUOTA and ours(quota)), {})
    label = namespace.at("metadata", "labels", TENANT_LABEL)
    if (not label and not any(counts.values())) or is_reserved(name, cluster.operator_namespace):
        return None
    known = cluster.parameter(_TENANTS, f"pools.{name}").split() or None
    tenant: dict[str, Any] = {"name": str(label.value) if label else name, "namespace": name}
    highest = _highest(cluster, name, draft)
    if highest:
        tenant["maxPriority"] = highest
    pools = [pool for pool in draft.pools if known is None or pool.name in known]
    grants = _noted_grants(pools, counts, notes.get(_GRANTS, ""), notes.get(_UP_TO, ""))
    grants = grants or _grants(pools, counts, named=known is not None)
    if grants:
        tenant["pools"] = grants
    if extra := _extra(notes.get(_EXTRA, "")):
        tenant["extra"] = extra
    for resource, count in counts.items():
        if count:
            why = f"its quota of {resource} is {count} more than the maximum of all pools"
            namespace.note("wrong", why, "raise nodes.max or nodes.maxGpus")
    return tenant | _access(cluster, name) | _jobs(cluster, name)


def _least(quotas: Sequence[Mapping[str, tuple[int, Part]]]) -> Counter[str]:
    """Resource -> what all of a namespace's quotas allow: each of them is enforced."""
    counts = Counter[str]()
    for resource in dict.fromkeys(name for quota in quotas for name in quota):
        (allowed, _), *more = sorted(
            (quota[resource] for quota in quotas if resource in quota), key=lambda row: row[0]
        )
        counts[resource] += allowed
        for _, part in more:
            part.left(f"another quota of the namespace allows {allowed}, and both are enforced")
    return counts


def _quota(quota: Part) -> dict[str, tuple[int, Part]]:
    """Resource -> GPUs that a quota allows to all pods of its namespace, and where it says so."""
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
    pools: Sequence[DraftPool], counts: Counter[str], grants: str, up_to: str
) -> dict[str, Any]:
    """Pool -> grant as gpupool has noted it on its quota, and nothing left in `counts`; empty where the quota
    is not the sum of it any more."""
    known = {pool.name: pool for pool in pools}
    granted, most = _noted(known, grants), _noted(known, up_to)
    if granted is None or most is None or not most.keys() <= granted.keys():
        return {}
    if sum(map(Counter, {**granted, **most}.values()), Counter()) != counts:
        return {}
    counts.clear()
    result = {pool: _grant(known[pool], grant) for pool, grant in granted.items()}
    for pool, amounts in most.items():
        (result[pool]["upTo"],) = _grant(known[pool], amounts).values()
    return result


def _noted(known: Mapping[str, DraftPool], text: str) -> dict[str, dict[str, int]] | None:
    """Pool -> resource -> count of `pool/resource=count` words; None where one is of no pool here."""
    noted: dict[str, dict[str, int]] = {}
    for word in text.split():
        place, _, count = word.rpartition("=")
        pool, _, resource = place.partition("/")
        if pool not in known or resource not in _offer(known[pool]) or not count.isdecimal():
            return None
        noted.setdefault(pool, {})[resource] = int(count)
    return noted


def _extra(noted: str) -> dict[str, Any]:
    amounts = dict(word.partition("=")[::2] for word in noted.split())
    cpus, memory = amounts.get("cpu", ""), amounts.get("memory", "")
    return {"cpus": int(cpus), "memory": memory} if cpus.isdecimal() and memory else {}


def _grants(pools: Sequence[DraftPool], counts: dict[str, int], named: bool) -> dict[str, Any]:
    """Pool -> grant. `counts` is left with what the pools can't take. With `named`, each pool gets something:
    the sum is spread so that no pool is left without any."""
    offers = {pool.name: _offer(pool) for pool in pools}
    given: dict[str, dict[str, int]] = {pool.name: {} for pool in pools}
    for resource, total in counts.items():
        takers = {pool.name: offers[pool.name][resource] for pool in pools if resource in offers[pool.name]}
        for name, share in _spread(total, takers, 1 if named else 0).items():
            if share:
                given[name][resource] = share
        counts[resource] = max(total - sum(takers.values()), 0)
    return {pool.name: _grant(pool, given[pool.name]) for pool in pools if given[pool.name]}


def _spread(total: int, takers: Mapping[str, int], least: int) -> dict[str, int]:
    """`total` divided among `takers` in proportion to what each takes at most, and at least `least` to each
    if there is enough."""
    shares: dict[str, int] = {}
    rest, room = total, sum(takers.values())
    for number, (name, most) in enumerate(takers.items(), start=1):
        others = room - most
        wanted = rest * most // room if room else 0
        kept = least * (len(takers) - number)
        share = max(min(max(wanted, least, rest - others), most, rest - kept), 0)
        shares[name] = share
        rest, room = rest - share, others
    return shares


def _offer(pool: DraftPool) -> dict[str, int]:
    """Extended resource -> what all nodes of the pool have together."""
    return sharings.slices(pool.sharing, catalog_here()[pool.gpu], gpus_of(pool))


def _grant(pool: DraftPool, counts: Mapping[str, int]) -> dict[str, Any]:
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
    return profiles if plain is None else dict.fromkeys(_offer(pool), plain)


def _highest(cluster: ClusterObjects, namespace: str, draft: Draft) -> str | None:
    """The highest priority that the tenant may use; None for the lowest, which is the default."""
    words = cluster.parameter(_TENANTS, f"priorities.{namespace}").split()
    name = words[0].partition("=")[0] if words else None
    names = [row["name"] for row in draft.priorities]
    return name if name in names and name != names[-1] else None


def _access(cluster: ClusterObjects, namespace: str) -> dict[str, Any]:
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
    said = {key: value for key, value in access.items() if value}
    return {"access": said} if said else {}


def _jobs(cluster: ClusterObjects, namespace: str) -> dict[str, Any]:
    """What its jobs may use, where that is listed: an empty list is another thing than none."""
    part = cluster.parameters.get(_TENANTS)
    found = {key: part.at("data", f"{key}.{namespace}") for key in ("secrets", "claims")} if part else {}
    listed = {key: str(names.value).split() for key, names in found.items() if names}
    return {"jobs": listed} if listed else {}


def jobs_only(cluster: ClusterObjects, draft: Draft) -> None:
    """Pools for Jobs only, by what policies judge by."""
    for pool in draft.pools:
        pool.jobs_only = cluster.parameter(_POOLS, f"jobs-only.{pool.name}") == "true"


def warm(cluster: ClusterObjects, draft: Draft) -> None:
    """Nodes kept warm, by the Deployments that keep them, and the image that does."""
    for part in cluster.all("Deployment"):
        label = part.word("metadata", "labels", POOL_LABEL)
        replicas = as_whole(part.at("spec", "replicas").value)
        pool = next((pool for pool in draft.pools if pool.name == label), None)
        if pool is not None and ours(part) and replicas is not None:
            pool.warm = replicas
            images = [row.word("image") for row in part.at("spec", "template", "spec", "containers").each()]
            if images not in ([], [PAUSE_IMAGE]):
                draft.karpenter["warmPodImage"] = images[0]
            part.derived()
        else:
            list_as_foreign(part, "a workload, not a pool")
