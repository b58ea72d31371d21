"""Jobs of ten tenants over five pools, end to end: shares, slots, spot share and money.

Judged by the API server's audit log, by when jobs ran and by the ledger. Pods are simulated and end after
three seconds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.client import Client
from gpupool.environment.plan.model import POOL_LABEL
from gpupool.environment.plan.pods import JOB_LABEL
from gpupool.local.control_plane import ControlPlane
from gpupool.queue.kubernetes.job_manifest import CAPACITY_TYPE
from tests.cluster.kube import Kube
from tests.cluster.queue import audit
from tests.cluster.queue.conftest import ENVIRONMENT
from tests.cluster.queue.served import Queue, serving
from tests.selection import LONG

Object = dict[str, Any]
TENANTS = 10
JOBS = {"main": 36, "spot": 4, "small": 2, "whole": 2, "parted": 2}
"""Jobs of each tenant by pool. Those of `main` are enough to tell weights from none. Those of `spot` are
many, since of a few running jobs no share is near to 70 %, and half fill it: in a full pool the share follows
from the limits of its nodes alone."""
if LONG:
    JOBS = {"main": 60, "spot": 30, "small": 10, "whole": 10, "parted": 10}
TIMEOUT_S = 20
"""Of each job: a tenant is charged for so much before its job has run. Jobs run for three to four seconds,
and for more than ten on a busy machine."""
APART_S = 2 * TIMEOUT_S
"""What two tenants of weight 1 may be apart by start-time fair queueing: one job's charge each."""
DRAIN_S = 500
WEIGHTS = {f"t{n}": 1 + n % 3 for n in range(TENANTS)}
POOLS: list[Object] = yaml.safe_load("""
- name: main
  gpu: t4
  sharing: {mode: time-slicing, replicas: 8}
  nodes: {instanceTypes: [g4dn.xlarge], max: 3}
- name: spot
  gpu: a10g
  sharing: {mode: time-slicing, replicas: 4}
  nodes: {instanceTypes: [g5.xlarge], max: 20, spotShare: 0.7}
- name: small
  gpu: l4
  sharing: {mode: mps, replicas: 4}
  nodes: {instanceTypes: [g6.xlarge], max: 2}
- name: whole
  gpu: a10g
  nodes: {instanceTypes: [g5.12xlarge], max: 2}
- name: parted
  gpu: a100-80gb
  sharing: {mode: mig, layout: {3g.40gb: 1, 2g.20gb: 2}}
  nodes: {instanceTypes: [p4de.24xlarge], max: 1}
""")
GRANTS: Object = {
    "main": {"gpus": 1},
    "spot": {"gpus": 10},
    "small": {"slices": 8},
    "whole": {"gpus": 8},
    "parted": {"profiles": {"3g.40gb": 8, "2g.20gb": 16}},
}


@pytest.fixture
def queue(kube: Kube, control_plane: ControlPlane, queue_database: str, tmp_path: Path) -> Iterator[Queue]:
    spec = yaml.safe_load(ENVIRONMENT.read_text(encoding="utf-8"))
    spec["pools"] = [{**pool, "overcommit": True} for pool in POOLS]
    spec["tenants"] = [
        {"name": name, "namespace": f"queue-{name}", "weight": weight, "pools": GRANTS}
        for name, weight in WEIGHTS.items()
    ]
    with serving(kube, control_plane, spec, queue_database, tmp_path, simulate=True) as made:
        yield made


def test_many_jobs_of_many_tenants(queue: Queue) -> None:
    _submit_all(queue)
    open_jobs = "SELECT count(*) AS n FROM gpu_jobs WHERE finished_at IS NULL"
    queue.until("every job has ended", lambda: not queue.rows(open_jobs)[0]["n"], DRAIN_S)
    states = Counter(row["state"] for row in queue.rows("SELECT state FROM gpu_jobs"))
    assert states == {"succeeded": TENANTS * sum(JOBS.values())}
    pods = audit.pods(queue.plane, {tenant.namespace for tenant in queue.plan.tenants})
    ended = {
        pod["metadata"]["labels"][JOB_LABEL]: pod for pod in pods if pod["status"].get("phase") == "Succeeded"
    }
    _slots_hold(queue, pods)
    _shares_hold(queue)
    _spot_share_holds(ended.values(), audit.nodes(queue.plane))
    _money_adds_up(queue, ended)


def _submit_all(queue: Queue) -> None:
    """While nothing is decided: else the first tenants have no job left when the last one comes."""
    queue.processes[0].stop()
    accepting = queue.process("api")
    accepting.until_ready()
    for pool, count in JOBS.items():
        for tenant in WEIGHTS:
            with Client(accepting.address, tenant=tenant) as client:
                client.submit_job(
                    gpu_pool_requested="2g.20gb" if pool == "parted" else pool,
                    container_image="busybox:1.37",
                    container_command=["true"],
                    preemptible=True,
                    timeout_seconds=TIMEOUT_S,
                    array=count,
                )
    accepting.stop()
    queue.processes[0].start()


def _units(pod: Object) -> tuple[str, str, int]:
    """(pool, resource, count) that a pod asks for."""
    spec = pod["spec"]
    limits = spec["containers"][0]["resources"]["limits"]
    (resource,) = [name for name in limits if name.startswith("nvidia.com/")]
    return spec["nodeSelector"][POOL_LABEL], resource, int(limits[resource])


def _slots_hold(queue: Queue, pods: list[Object]) -> None:
    """At no moment are there more unfinished pods than a pool has slots, or a tenant has in it.

    A pod counts from its creation, so before it has a node, until it has ended; none is deleted before that.
    """
    plan = queue.plan
    slots = {
        (pool.name, resource): count * pool.nodes_max
        for pool in plan.pools
        for resource, count in pool.slices_per_node.items()
    }
    grants = {
        (tenant.namespace, pool, resource): units
        for tenant in plan.tenants
        for pool, grant in tenant.grants.items()
        for resource, units in grant.items()
    }
    there: dict[str, Object] = {}
    most: Counter[str] = Counter()
    for pod in pods:
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            there.pop(pod["metadata"]["uid"], None)
            continue
        there[pod["metadata"]["uid"]] = pod
        used: Counter[tuple[str, ...]] = Counter()
        for other in there.values():
            pool, resource, count = _units(other)
            used[pool, resource] += count
            used[other["metadata"]["namespace"], pool, resource] += count
        for key, count in used.items():
            limit = slots[key] if len(key) == 2 else grants[key]  # type: ignore[index]
            assert count <= limit, f"{count} of {limit} {key}"
        most.update({key[0]: max(0, n - most[key[0]]) for key, n in used.items() if len(key) == 2})
    assert most["main"] >= slots["main", "nvidia.com/gpu"] * 0.8, f"never full: {most}"


def _shares_hold(queue: Queue) -> None:
    """While all tenants have jobs waiting for `main`, what each has had there differs, by its weight, by no
    more than start-time fair queueing allows. Had all got the same it would differ by more."""
    rows = queue.rows(
        "SELECT tenant, enqueued_at, decided_at, started_at, finished_at FROM gpu_jobs WHERE pool = 'main'"
    )
    last: dict[str, datetime] = {}
    for row in rows:
        last[row["tenant"]] = max(row["decided_at"], last.get(row["tenant"], row["decided_at"]))
    since, until = max(row["enqueued_at"] for row in rows), min(last.values())
    assert until > since
    had: dict[str, float] = defaultdict(float)
    number: Counter[str] = Counter()
    for row in rows:
        if row["decided_at"] <= until:
            number[row["tenant"]] += 1
            ran = (min(row["finished_at"], until) - max(row["started_at"], since)).total_seconds()
            had[row["tenant"]] += max(0.0, ran)
    apart = _apart(had)
    alike = _apart(dict.fromkeys(WEIGHTS, sum(had.values()) / TENANTS))
    jobs = {tenant: number[tenant] / WEIGHTS[tenant] for tenant in WEIGHTS}
    print(f"shares: {apart:.1f} of {APART_S} s apart by weight, {alike:.1f} s had all got the same")
    print(f"jobs by weight: {sorted(jobs.values())}")
    assert apart <= APART_S < alike


def _apart(had: Mapping[str, float]) -> float:
    """How far the tenant that has had most for its weight is before the one that has had least."""
    shares = [had.get(tenant, 0.0) / weight for tenant, weight in WEIGHTS.items()]
    return max(shares) - min(shares)


def _spot_share_holds(ended: Iterable[Object], nodes: dict[str, Object]) -> None:
    """Of the time that GPUs were used, by the nodes that the pods ran on."""
    used: dict[str, float] = defaultdict(float)
    for pod in ended:
        if _units(pod)[0] == "spot":
            node = nodes[pod["spec"]["nodeName"]]
            used[node["metadata"]["labels"][CAPACITY_TYPE]] += _seconds(pod)
    share = used["spot"] / sum(used.values())
    print(f"spot share: {share:.1%} of 70 %")
    assert abs(share - 0.7) <= (0.02 if LONG else 0.06)


def _money_adds_up(queue: Queue, ended: dict[str, Object]) -> None:
    """The ledger is the sum over the jobs, and that is what their containers' times cost."""
    settled = queue.rows("SELECT sum(micro)::bigint AS n FROM gpu_ledger WHERE kind = 'settle'")[0]["n"]
    jobs = {row["id"]: row for row in queue.rows("SELECT id::text, cost_micro, rate_micro FROM gpu_jobs")}
    assert settled == sum(job["cost_micro"] for job in jobs.values()) > 0
    assert ended.keys() == jobs.keys()
    expected = 0.0
    for id, pod in ended.items():
        expected += jobs[id]["rate_micro"] * _seconds(pod) / 3600
    print(f"cost: {settled / 1e6:.6f} USD, by containers' times {expected / 1e6:.6f} USD")
    assert abs(settled - expected) <= 0.1 * expected


def _seconds(pod: Object) -> float:
    """How long the container of an ended pod ran."""
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    start, end = (datetime.fromisoformat(state[key]) for key in ("startedAt", "finishedAt"))
    return (end - start).total_seconds()
