"""The order of the whole queue says of each job what its own explanation says."""

from __future__ import annotations

from gpupool.queue.domain.explain import ExplainedJob, View, explain, outlook
from tests.queue.domain.simulated import Cluster, offer, pool, supply, tenant


def busy() -> Cluster:
    """Two full nodes; two tenants with two lanes of two jobs each."""
    of = pool(nodes=2, slots=4)
    cluster = Cluster(supply([of], [tenant("a", [of]), tenant("b", [of], 2.0)]))
    for name in ("a", "b"):
        cluster.add(name, (offer(of, 4),), 3600)
    cluster.round()
    for name in ("a", "b"):
        for units in (4, 2):
            for _ in range(2):
                cluster.add(name, (offer(of, units),), 600)
    return cluster


def test_each_job_is_as_it_is_explained_alone() -> None:
    cluster = busy()
    view = View(cluster.snapshot(), cluster.supply)
    found = outlook(view, 100)
    assert {one.job.job for one in found} == {job.job for job in view.snapshot.queued}
    assert [one.ahead for one in found] == sorted(one.ahead for one in found)
    for one in found:
        alone = explain(ExplainedJob(view, one.job))
        assert one.ahead == alone.ahead
        assert one.waiting is None or one.waiting == alone.waiting
        assert one.projection == alone.projection


def test_no_more_than_asked_for_and_none_of_an_empty_queue() -> None:
    cluster = busy()
    view = View(cluster.snapshot(), cluster.supply)
    assert len(outlook(view, 3)) == 3
    assert {one.job.tenant for one in outlook(view, 100, "b")} == {"b"}
    assert outlook(View(Cluster(cluster.supply).snapshot(), cluster.supply), 3) == ()
