"""Before and after the nodes: settings that hold old and new side by side, and in the end the plain ones.

Each function can be done again from its start after a crash. None of them changes what any node offers: a
node follows its labels, and these are changed one node at a time by the loop in `run`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpupool.environment.plan.model import SYSTEM_NAMESPACE, Pool
from gpupool.generators.manifest import Bundle
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.cluster.live_objects import MIG_LABEL
from gpupool.live.objects.owner import FIELD_MANAGER
from gpupool.live.objects.resource_values import properties
from gpupool.live.repartition import configs, karpenter
from gpupool.live.repartition.cluster import PoolNodes
from gpupool.live.repartition.journal import Journal
from gpupool.live.repartition.shapes import LiveNode, Shape

Notify = Callable[[str], None]


def prepare(
    api: KubeApi, bundle: Bundle, pool: Pool, journal: Journal, nodes: PoolNodes, notify: Notify
) -> None:
    """Give the operator both shapes, and pause Karpenter."""
    live = configs.of_journal(journal.before)
    if journal.hold and not journal.backwards:
        notify("keeping the nodes in their old configuration")
        configs.point(api, bundle, live.held(pool.name), temporary=True)
        for node in nodes.read_nodes():
            was = journal.old.get(node.name)
            if was is not None and node.plugin == pool.name and was.plugin != pool.name:
                nodes.relabel(node.name, Shape(was.plugin, node.mig, {}))
    notify("adding the new configuration to the operator's")
    # By the journal and not by the file: the file may have changed since, and nodes have these labels.
    both = live.both(configs.of_new(journal.after, pool.name), pool.name, journal.hold)
    configs.point(api, bundle, both, temporary=True)
    if pool.capacities:
        notify("pausing Karpenter")
        karpenter.hold(api, bundle, pool, journal.before["karpenter"], journal.backwards)


def finish(
    api: KubeApi,
    bundle: Bundle,
    pool: Pool,
    journal: Journal,
    settled: Sequence[LiveNode],
    notify: Notify,
) -> bool:
    """The plain settings of the new shape; whether they are all that the file asks for."""
    notify("updating settings and quotas")
    wanted = configs.of_bundle(bundle)
    used = _layouts_elsewhere(api, {node.name for node in settled})
    final = configs.of_journal(journal.before).after(wanted, pool.name, used)
    configs.point(api, bundle, final, temporary=False)
    in_line = configs.in_line(final, wanted)
    if in_line:
        _apply_judged_by(api, bundle)
    _karpenter_last(api, bundle, pool, journal, settled, notify)
    configs.clear(api, bundle, (final.plugin_name(), final.mig_name()))
    return in_line


def finish_back(
    api: KubeApi,
    bundle: Bundle,
    pool: Pool,
    journal: Journal,
    nodes: PoolNodes,
    settled: Sequence[LiveNode],
    notify: Notify,
) -> None:
    """The settings as they were before."""
    notify("restoring the settings")
    before = configs.of_journal(journal.before)
    if journal.hold:
        configs.point(api, bundle, before.held(pool.name), temporary=True)
        for node in nodes.read_nodes():
            if node.plugin == configs.held_key(pool.name):
                nodes.relabel(node.name, Shape(pool.name, node.mig, {}))
    configs.point(api, bundle, before, temporary=False)
    _karpenter_last(api, bundle, pool, journal, settled, notify)
    configs.clear(api, bundle, (before.plugin_name(), before.mig_name()))


def _karpenter_last(
    api: KubeApi, bundle: Bundle, pool: Pool, journal: Journal, settled: Sequence[LiveNode], notify: Notify
) -> None:
    if pool.capacities:
        state = journal.before["karpenter"]
        names = {node.name for node in settled}
        karpenter.adopt(api, bundle, pool, state, names, journal.backwards, notify)
        karpenter.release(api, bundle, pool, state, journal.backwards)


def _layouts_elsewhere(api: KubeApi, own: set[str]) -> set[str]:
    """Layouts that nodes of other pools ask for, or will as soon as Karpenter starts them."""
    found = {
        node["metadata"]["labels"].get(MIG_LABEL, "")
        for node in api.list("v1", "Node", selector=MIG_LABEL)
        if node["metadata"]["name"] not in own
    }
    for pool in api.list("karpenter.sh/v1", "NodePool"):
        labels = pool["spec"]["template"].get("metadata", {}).get("labels", {})
        found.add(labels.get(MIG_LABEL, ""))
    return found - {""}


def _apply_judged_by(api: KubeApi, bundle: Bundle) -> None:
    """The inputs of admission: quotas, and the parameters of the policies. Only where they exist already."""
    for manifest in bundle:
        ours = manifest.kind == "ResourceQuota" or (
            manifest.kind == "ConfigMap" and manifest.namespace == SYSTEM_NAMESPACE
        )
        if not ours:
            continue
        live = api.get(manifest.api_version, manifest.kind, manifest.name, manifest.namespace)
        if live is not None and any(live.get(part) != manifest.body.get(part) for part in ("data", "spec")):
            api.apply(properties(manifest), FIELD_MANAGER, force=True)
