"""The Job of every kind of attempt that the shipped environments allow says what the Plan says."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.plan.model import POOL_LABEL, Plan, Pool
from gpupool.environment.plan.pods import (
    ATTEMPT_LABEL,
    DATABASE_LABEL,
    JOB_LABEL,
    RECORDED_FINALIZER,
    RUN_LOCALLY,
    SHARES_LABEL,
    pod_fields,
)
from gpupool.environment.plan.priority_classes import counted_apart, priority_classes
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.plan.tenants import Tenant
from gpupool.environment.spec.load import load
from gpupool.queue.domain.offers import GpuRequest, UnservableRequest, offers
from gpupool.queue.domain.placement import Reach, Slots
from gpupool.queue.domain.supply import supply_of
from gpupool.queue.kubernetes.job_manifest import (
    CAPACITY_TYPE,
    DO_NOT_DISRUPT,
    HOSTNAME,
    manifest,
    name_of,
    service,
)
from gpupool.queue.records import Job, JobState, Level, Offer, Placement, new_id
from vapcheck.server.canonical_text import amount

ENVIRONMENTS = Path(__file__).parents[3] / "environments"
DATABASE = "0190b0f0-0000-4000-8000-0000000000db"
LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Place:
    """One way in which a job of a tenant may run."""

    plan: Plan
    tenant: Tenant
    offer: Offer
    capacity_type: str
    placement: Placement
    isolation: str
    gpu_count: int

    def __str__(self) -> str:
        offer = f"{self.offer.pool}-{self.offer.resource}-{self.capacity_type}"
        return f"{self.plan.environment}-{self.tenant.name}-{offer}-{self.isolation}-{self.gpu_count}"


def places() -> list[Place]:
    """All of them: each pool and resource, shared and exclusive, one GPU to several nodes, spot and not."""
    found = []
    for file in sorted(ENVIRONMENTS.glob("*.yaml")):
        plan = resolve(load(file))
        supply = supply_of(plan)
        for tenant in plan.tenants:
            for pool in tenant.grants:
                for isolation, count in (("shared", 1), *(("exclusive", count) for count in (1, 2, 8, 16))):
                    try:
                        offered = offers(plan, supply, tenant, GpuRequest(pool, isolation, None, count))
                    except UnservableRequest:
                        continue
                    for offer in offered:
                        for type in sorted(supply.pools[offer.pool].types):
                            reach = Reach(frozenset({type}), frozenset())
                            placement = Slots.of(supply.pools, {}).place(offer, reach)
                            if placement:
                                found.append(Place(plan, tenant, offer, type, placement, isolation, count))
    return found


PLACES = places()


def job(place: Place, **given: Any) -> Job:
    values: dict[str, Any] = {
        "id": new_id(), "tenant": place.tenant.name, "project": None, "user": "ada", "name": "job",
        "state": JobState.SCHEDULED, "version": 1,
        "attempt": 1, "failures": 0, "disruptions": 0, "retries": 1,
        "priority": "low", "level": Level.LOW, "isolation": place.isolation, "gpu_count": place.gpu_count,
        "preemptible": True, "preempts": False, "timeout_s": 600, "budget_limit_micro": None, "offers": (),
        "request": {"container_image": "work:1"}, "plan_hash": "x",
        "enqueued_at": datetime(2026, 11, 22, tzinfo=UTC), "pool": place.offer.pool,
        "resource": place.offer.resource, "capacity_type": place.capacity_type, "placement": place.placement,
    }  # fmt: skip
    return Job(**{**values, **given})


def made(place: Place, avoid: tuple[str, ...] = (), **given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The Job and its pod template."""
    found = manifest(job(place, **given), place.plan, place.tenant, avoid, database=DATABASE)
    return found, found["spec"]["template"]


def test_the_environments_have_every_kind() -> None:
    kinds = {(place.isolation, place.capacity_type) for place in PLACES}
    assert kinds == {(one, type) for one in ("shared", "exclusive") for type in ("spot", "on-demand")}
    assert any(len(place.placement) > 1 for place in PLACES)
    assert any(place.offer.units > place.offer.request for place in PLACES), "a node of slices for one job"


@given(st.sampled_from(PLACES), st.integers(1, 2**31 - 1), st.uuids())
def test_names_and_labels_are_what_the_queue_knows_it_by(place: Place, attempt: int, id: Any) -> None:
    found, template = made(place, id=str(id), attempt=attempt)
    assert found["metadata"]["name"] == name_of(str(id), attempt)
    assert LABEL.fullmatch(found["metadata"]["name"])
    assert found["metadata"]["namespace"] == place.tenant.namespace
    for metadata in (found["metadata"], template["metadata"]):
        assert {
            JOB_LABEL: str(id),
            ATTEMPT_LABEL: str(attempt),
            DATABASE_LABEL: DATABASE,
        }.items() <= metadata["labels"].items()
        assert metadata["finalizers"] == [RECORDED_FINALIZER]
    lends = place.plan.pool(place.offer.pool).lends_whole_gpus
    assert (template["metadata"]["labels"].get(SHARES_LABEL) == "true") is lends
    local = place.plan.cluster.platform == "local"
    assert (template["metadata"]["annotations"].get(RUN_LOCALLY) == "true") is local


@pytest.mark.parametrize("place", PLACES, ids=Place.__str__)
def test_pods_ask_for_what_was_decided_and_say_what_the_plan_says(place: Place) -> None:
    found, template = made(place)
    pool, spec = place.plan.pool(place.offer.pool), template["spec"]
    nodes = found["spec"]["parallelism"]
    assert nodes == found["spec"]["completions"] == len(place.placement)
    fields = pod_fields(pool, place.offer.resource, place.offer.request // nodes)
    (container,) = spec["containers"]
    limits = container["resources"]["limits"]
    of_the_node = ("memory", "ephemeral-storage")
    assert {name: count for name, count in limits.items() if name not in of_the_node} == fields.limits
    assert sum(int(limits[place.offer.resource]) for _ in range(nodes)) == place.offer.request
    share = pool.share(place.offer.resource)
    requests = dict(container["resources"]["requests"])
    assert requests.pop("ephemeral-storage") == "0", "else Kubernetes requests the limit"
    assert requests == ((share * (place.offer.request // nodes)).as_dict() if share else {})
    assert spec["tolerations"] == fields.spec["tolerations"]
    expected = {POOL_LABEL: pool.name}
    if len(pool.capacities) > 1:
        expected[CAPACITY_TYPE] = place.capacity_type
    assert spec["nodeSelector"] == expected


@pytest.mark.parametrize("place", PLACES, ids=Place.__str__)
def test_the_disk_of_a_node_is_divided_among_its_slices(place: Place) -> None:
    pool = place.plan.pool(place.offer.pool)
    units = place.offer.request // len(place.placement)

    def limit_mib(disk_mib: int | None) -> tuple[Fraction | float, Pool]:
        sized = replace(pool, disk_mib=disk_mib)
        plan = replace(place.plan, pools=tuple(sized if one is pool else one for one in place.plan.pools))
        (container,) = manifest(job(place), plan, place.tenant, database=DATABASE)["spec"]["template"][
            "spec"
        ]["containers"]
        limit = amount(container["resources"]["limits"]["ephemeral-storage"])
        assert limit is not None
        return limit / 2**20, sized

    assert limit_mib(None)[0] == 20 * 1024 * units
    limit, sized = limit_mib(1_000_000)
    assert limit == sized.disk_share_mib(place.offer.resource) * units
    node = sum(sized.disk_share_mib(name) * count for name, count in pool.slices_per_node.items())
    assert 700_000 < node <= 900_000, "a layout may leave a part of a GPU unused"


@pytest.mark.parametrize("place", PLACES, ids=Place.__str__)
def test_an_exclusive_job_keeps_away_from_pods_that_share(place: Place) -> None:
    _, template = made(place)
    alone = place.isolation == "exclusive" and place.plan.pool(place.offer.pool).lends_whole_gpus
    affinity = template["spec"].get("affinity", {})
    terms = affinity.get("podAntiAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
    assert bool(terms) is alone
    for term in terms:
        assert term["topologyKey"] == HOSTNAME
        assert term["namespaceSelector"] == {}
        assert term["labelSelector"]["matchExpressions"] == [{"key": SHARES_LABEL, "operator": "Exists"}]
    assert (template["metadata"]["annotations"].get(DO_NOT_DISRUPT) == "true") is (
        place.isolation == "exclusive"
    )


@pytest.mark.parametrize("place", PLACES, ids=Place.__str__)
def test_several_nodes_find_each_other(place: Place) -> None:
    several = len(place.placement) > 1
    attempt = job(place)
    found = manifest(attempt, place.plan, place.tenant, database=DATABASE)
    found["metadata"]["uid"] = "u"
    template = found["spec"]["template"]
    variables = {one["name"]: one.get("value") for one in template["spec"]["containers"][0]["env"]}
    assert variables["GPUPOOL_NODES"] == str(len(place.placement))
    assert (found["spec"].get("completionMode") == "Indexed") is several
    assert ("GPUPOOL_FIRST_NODE" in variables) is several
    made = service(found)
    assert (made is not None) is several
    if made is not None:
        assert made["metadata"]["name"] == template["spec"]["subdomain"] == found["metadata"]["name"]
        assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
        assert made["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        assert variables["GPUPOOL_FIRST_NODE"].endswith(f".{made['metadata']['name']}")


@given(st.sampled_from(PLACES), st.lists(st.sampled_from(["n1", "n2", "n3"]), max_size=3))
def test_nodes_where_it_failed_are_avoided_where_possible(place: Place, avoid: list[str]) -> None:
    _, template = made(place, tuple(avoid), attempt=2)
    affinity = template["spec"].get("affinity", {}).get("nodeAffinity", {})
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in affinity
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    named = [[field["values"] for field in term["preference"]["matchFields"]] for term in terms]
    # An API server takes one name in each.
    assert named == ([[[name] for name in sorted(set(avoid))]] if avoid else [])


@given(st.sampled_from(PLACES), st.integers(1, 10**9), st.sampled_from(Level))
def test_the_job_ends_by_itself_in_the_end_and_never_preempts(place: Place, limit: int, level: Level) -> None:
    found, template = made(place, run_limit_s=limit, timeout_s=limit, level=level)
    assert 0 < found["spec"]["activeDeadlineSeconds"] <= place.plan.queue.longest_timeout_s
    assert template["spec"]["activeDeadlineSeconds"] == found["spec"]["activeDeadlineSeconds"], "if orphaned"
    assert (found["spec"]["backoffLimit"], template["spec"]["restartPolicy"]) == (0, "Never")
    classes = {planned.name: planned for planned in priority_classes(place.plan) if planned.queued}
    name = template["spec"].get("priorityClassName")
    if place.offer.pool in counted_apart(place.plan, place.tenant):
        assert classes[name].pool == place.offer.pool, "its quota counts the job"
    else:
        assert name is None or classes[name].pool is None
    assert name is None or not classes[name].preempts


def test_what_the_job_names_can_not_replace_what_identifies_it() -> None:
    request = {"container_image": "work:1", "env": {"GPUPOOL_ATTEMPT": "7", "A": 1}}
    _, template = made(PLACES[0], request=request)
    variables = {one["name"]: one.get("value") for one in template["spec"]["containers"][0]["env"]}
    assert (variables["GPUPOOL_ATTEMPT"], variables["A"]) == ("1", "1")
