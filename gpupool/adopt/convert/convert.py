"""Documents -> an environment file and the list of what it does not express. The entry point of the package.

Every kind of input is registered in `_sort`, by its kind, or in `_configuration`, by its shape where it has
none. Pure: no files, no cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from gpupool.adopt.convert import (
    bottlerocket,
    device_plugin,
    karpenter_pools,
    karpenter_values,
    lone_configs,
    mig_parted,
    node_classes,
    operator_values,
    overlays,
    own_check,
    placeholders,
    plugin_values,
    policies_in_force,
    pools,
    reservations,
    static_nodes,
    surroundings,
    tenants,
    warm_nodes,
    wrappers,
    write,
)
from gpupool.adopt.convert.account import ConversionAccount, Part
from gpupool.adopt.convert.cluster_objects import ClusterObjects, list_as_foreign, ours
from gpupool.adopt.convert.device_plugin import NamedPluginConfig
from gpupool.adopt.convert.documents import Document
from gpupool.adopt.convert.draft import Choices, Draft, DraftPool
from gpupool.adopt.convert.embedded import embedded, is_device_plugin, is_mig_parted, is_operator_values
from gpupool.adopt.convert.karpenter_fields import VERSIONS
from gpupool.adopt.convert.karpenter_pools import Fleet
from gpupool.adopt.convert.karpenter_values import is_karpenter_values
from gpupool.adopt.convert.leftovers import Leftover, shown
from gpupool.adopt.convert.mig_parted import MigConfig
from gpupool.adopt.convert.node_classes import NodeClass
from gpupool.adopt.convert.operator_values import OperatorSettings, Origin
from gpupool.adopt.convert.pools import Made
from gpupool.adopt.convert.requirements import KEEP, UNSELECTED
from gpupool.adopt.convert.sharing import Sharings
from gpupool.adopt.convert.spec_words import fits
from gpupool.environment.plan.operator_place import is_cluster_policy, operator_place
from gpupool.environment.spec.environment import OPERATOR_NAMESPACE
from gpupool.environment.spec.yaml_source import path_text
from gpupool.findings import Finding

_READ = (
    *("Provisioner", "NodePool", "NodeOverlay", "ClusterPolicy", *node_classes.KINDS),
    *("Node", "Namespace", "ResourceQuota", "PriorityClass"),
)
"""Kinds that pools and tenants are made of."""
FOREIGN = "not part of a GPU pool"


@dataclass(frozen=True, slots=True)
class Conversion:
    """An environment file, and everything that it does not say as the input does."""

    text: str
    leftovers: tuple[Leftover, ...]
    findings: tuple[Finding, ...]
    """What `gpupool validate` would say of the file; each is among the leftovers as something to do."""
    counts: dict[str, int]
    """Values of the input that were used, are derived anyway, are the cluster's own, or are listed."""
    pools: tuple[str, ...]
    platform: str
    left_out: tuple[str, ...] = ()
    """Pools and nodes that are not in the file, and why."""


@dataclass(slots=True)
class _Input:
    """The parts of all documents, by what they are."""

    fleets: list[Fleet] = field(default_factory=list)
    classes: dict[str, NodeClass] = field(default_factory=dict)
    overlays: list[Part] = field(default_factory=list)
    plugins: list[NamedPluginConfig] = field(default_factory=list)
    layouts: list[MigConfig] = field(default_factory=list)
    operators: list[OperatorSettings] = field(default_factory=list)
    plugin_charts: list[Part] = field(default_factory=list)
    """Helm values of the device plugin's own chart."""
    controllers: list[Part] = field(default_factory=list)
    """Karpenter's Helm values."""
    policies: list[Part] = field(default_factory=list)
    """ClusterPolicies."""
    cluster: ClusterObjects = field(default_factory=ClusterObjects)
    local: bool = False
    unread: list[str] = field(default_factory=list)
    """What starts GPUs and was not read, and why."""


def convert(documents: Sequence[Document], choices: Choices) -> Conversion:
    """The environment that `documents` describe, as far as gpupool can express it."""
    charts = [list(wrappers.wrapped(document)) for document in documents]
    opened, unfilled = list[Document](), list[Leftover]()
    inner_values = [(item.values, ()) for sets in charts for item in sets]
    for document, sets in (*zip(documents, charts, strict=True), *inner_values):
        data = document.data
        # Of values the leaf goes. What makes pools is left unread; a wrapper's inner values follow.
        whole = document.kind or sets or is_device_plugin(data) or is_mig_parted(data)
        filled, entries = (document, []) if whole else placeholders.without(document)
        opened.append(filled)
        unfilled += entries
    held = [(index, loc, inner) for index, document in enumerate(opened) for loc, inner in embedded(document)]
    account = ConversionAccount([*opened, *(inner for _, _, inner in held)])
    parts, given = account.parts, _Input()
    for entry in unfilled:
        account.note(entry)
        given.unread.append(f"{entry.object}: {entry.path}: {entry.why}")
    given.cluster.operator_namespace = _operator_namespace(documents, charts, choices)
    for index, loc, _ in held:
        parts[index].at(*loc).used()
    for index, part in enumerate(parts):
        if index < len(charts) and charts[index]:
            given.unread += wrappers.account(part, charts[index])
        elif not _unfilled(part, given):
            surroundings.account_for(part)
            _sort(part, given)
    for part in given.policies:
        origin: Origin = "chart" if given.cluster.gpupool_owns_operator_namespace else "foreign"
        given.operators.append(operator_values.read(part, "policy" if ours(part) else origin))
    draft = _draft(given, choices, account)
    draft.left_out += given.unread
    text = write.text(draft)
    findings = surroundings.check(text, draft, account)
    return Conversion(
        text,
        tuple(account.leftovers()),
        findings,
        account.counts(),
        tuple(pool.name for pool in draft.pools),
        draft.platform,
        tuple(draft.left_out),
    )


def _operator_namespace(
    documents: Sequence[Document], charts: Iterable[Iterable[wrappers.Wrapped]], choices: Choices
) -> str:
    """Where the operator runs, by the objects; else where it is to be installed; else the usual one."""
    place = operator_place(document.data for document in documents if isinstance(document.data, dict))
    candidates = [choices.operator_namespace, place.namespace if place else None]
    candidates += [name for sets in charts for name in wrappers.operator_namespaces(sets)]
    return next((name for name in candidates if name and fits("name", name)), OPERATOR_NAMESPACE)


def _unfilled(part: Part, given: _Input) -> bool:
    """Whether placeholders keep it from being read; it is then listed with them."""
    kind = part.document.kind
    unfilled = placeholders.placeholders(part.document) if not kind or kind in _READ else []
    for item in unfilled:
        part.account.note(item.leftover(part.document))
    if unfilled:
        form = unfilled[0].form
        part.left(f"not read: {form.what}", form.remediation, "todo")
        given.unread.append(
            f"{part.document.title}: {path_text(unfilled[0].loc)}: {form.what}; {form.remediation}"
        )
    return bool(unfilled)


def _sort(part: Part, given: _Input) -> None:
    """Read one document by its kind."""
    document = part.document
    if (document.api_version, document.kind) in VERSIONS:
        fleet = karpenter_pools.read(part)
        if fleet is not None:
            given.fleets.append(fleet)
    elif document.kind in node_classes.KINDS and (spec := part.at("spec")):
        part.named("namespace")
        given.classes[document.name] = node_classes.read(spec, document.name)
    elif document.kind == "KWOKNodeClass":
        given.local = True
        part.derives("apiVersion", "kind")
        part.mark_derived_if(document.name, "metadata", "name")
    elif document.kind == "NodeOverlay":
        given.overlays.append(part)
    elif is_cluster_policy(document.data):
        given.policies.append(part)
    elif document.kind:
        if given.cluster.take(part):
            return
        if document.kind == "ConfigMap" and any(True for _ in embedded(document)):
            part.named("namespace")
        elif ours(part):
            part.derived()  # gpupool makes all of it from the file
        elif not _named(part, given):
            part.left(FOREIGN, "keep it unchanged")
    elif not _named(part, given):
        _configuration(part, given)


def _named(part: Part, given: _Input) -> bool:
    """Whether it starts GPUs in a way that is not read; it is then listed with what to do."""
    reason = wrappers.named(part.document) or wrappers.gpu_chart(part.document)
    if reason is None:
        return False
    part.left(*reason, "todo")
    given.unread.append(f"{part.document.title}: {reason[0]}; {reason[1]}")
    return True


def _configuration(part: Part, given: _Input) -> None:
    """A document without a kind: a configuration of the plugin or mig-parted, or Helm values."""
    document = part.document
    within = document.within
    config_map = within.name if within is not None and within.kind == "ConfigMap" else ""
    if is_mig_parted(document.data):
        given.layouts += mig_parted.read(part, config_map)
    elif is_device_plugin(document.data):
        name = document.key or PurePath(document.file).stem
        given.plugins.append(device_plugin.read(part, name, config_map))
    elif is_karpenter_values(document.data):
        given.controllers.append(part)
    else:
        _chart(part, given)


def _chart(part: Part, given: _Input) -> None:
    """Helm values: of the operator or of the device plugin, or of both where a chart depends on both."""
    data = part.document.data
    plugin_loc = plugin_values.values_loc(data)
    if plugin_loc is not None:
        given.plugin_charts.append(part.at(*plugin_loc))
    if is_operator_values(data) or part.document.chart == operator_values.CHART:
        given.operators.append(operator_values.read(part, "values"))
    elif plugin_loc is None and (other := plugin_values.other_chart(data)):
        part.left(f"values of the chart {other}, which is part of the GPU Operator", "uninstall that release")
    elif plugin_loc is None:
        fields = ", ".join(data) if isinstance(data, dict) else ""
        what = f"; its fields are {shown(fields)}" if fields else ""
        part.left(
            f"{FOREIGN}{what}",
            "name files with settings of Karpenter, the device plugin, mig-parted or the operator",
        )


def _draft(given: _Input, choices: Choices, account: ConversionAccount) -> Draft:
    draft = Draft(choices.name, kube_context=choices.kube_context)
    draft.platform = choices.platform or _platform(given)
    sharings = Sharings(given.plugins, given.layouts)
    for settings in given.operators:
        operator_values.choose_configs(settings, sharings)
    for part in given.plugin_charts:
        plugin_values.choose_config(part, sharings)
    for name, node_class in given.classes.items():
        if own := bottlerocket.read(node_class.part, name):
            sharings.by_class[name] = own
    for fleet in given.fleets:
        own_class = given.classes.get(fleet.class_name)
        fleet.reservations = reservations.of_fleet(fleet, own_class.part if own_class else None)
        if fleet.reservations or fleet.bought.left_out:
            continue
        if fleet.bought.only_reserved:
            fleet.bought.left_out = (UNSELECTED, KEEP)
        elif fleet.bought.names_reserved:
            fleet.part.note("left", UNSELECTED, "name it in nodes.reserved")
    made = pools.make(given.fleets, sharings, choices, draft)
    used = _classes(made, given)
    node_classes.apply(draft, used, choices.kubernetes_version)
    for part in given.controllers:
        karpenter_values.apply(part, draft)
    for part in given.overlays:
        overlays.account(part, made, draft)
    static_nodes.make(given.cluster, sharings, draft)
    if not draft.pools and not given.fleets and not given.cluster.nodes:
        lone_configs.make(sharings, choices, draft)
    _unused(given, sharings, [node_class for _, node_class in used])
    surroundings.place(draft, given.fleets, given.cluster, choices, account)
    for settings in given.operators:
        operator_values.apply(settings, draft)
    if given.cluster.operator_namespace != OPERATOR_NAMESPACE:
        draft.operator["namespace"] = given.cluster.operator_namespace
    for part in given.plugin_charts:
        plugin_values.account_for(part, draft)
    warm_nodes.make(given.cluster, draft)
    policies_in_force.jobs_only(given.cluster, draft)
    tenants.make(given.cluster, draft)
    policies_in_force.make(given.cluster, draft)
    own_check.make(given.cluster, draft)
    _others(given.cluster)
    draft.origin = [f"Made by gpupool from {', '.join(choices.sources) or 'nothing'}."]
    return draft


def _others(cluster: ClusterObjects) -> None:
    """Objects of kinds that gpupool writes too: its own and those of others."""
    for kind in ("RoleBinding", "NetworkPolicy"):
        for part in cluster.all(kind):
            if ours(part):
                part.derived()
            else:
                list_as_foreign(part, FOREIGN, "keep it unchanged")


def _platform(given: _Input) -> str:
    if given.local or any(settings.origin == "policy" for settings in given.operators):
        return "local"  # where a chart makes the ClusterPolicy it has no label of gpupool's
    karpenter = given.fleets or (given.controllers and not given.cluster.all("Node"))
    return "eks" if karpenter else "static"


def _classes(made: Sequence[Made], given: _Input) -> list[tuple[DraftPool, NodeClass]]:
    """Each pool with the node class of its machines, where there is one."""
    found = []
    for pool in made:
        for fleet in pool.fleets:
            node_class = given.classes.get(fleet.class_name)
            if fleet.inline_class:
                node_class = node_classes.read(fleet.inline_class, fleet.name)
            if node_class is not None:
                found.append((pool.pool, node_class))
            elif fleet.class_name and not given.local:
                why = (
                    f"node class {fleet.class_name} is not in the input: default image and role were written"
                )
                fleet.part.note("assumed", why, "convert it too", *fleet.fields.class_reference)
    return found


def _unused(given: _Input, sharings: Sharings, classes: Iterable[NodeClass]) -> None:
    """List configurations and node classes that no pool is made with."""
    kept = {id(node_class) for node_class in classes}
    for node_class in given.classes.values():
        if id(node_class) not in kept:
            node_class.part.left("no GPU pool uses this node class", "keep it unchanged")
    for config in given.plugins:
        if id(config) not in sharings.used and config.sharing["mode"] != "exclusive":
            config.part.left(
                "no nodes of a pool use it",
                f"label them with nvidia.com/device-plugin.config={config.name}, or remove it",
            )
    for layout in given.layouts:
        if id(layout) not in sharings.used:
            mig_parted.unused(layout, "no nodes of a pool use it")
        for entry in layout.part.each():
            if entry.untouched():
                entry.left("no pool has the GPUs of this layout")
