"""Everything that a report says, as frozen values: what the text, Markdown, HTML and JSON are all made from.

Built by `gpupool.review.report.build`; the formats read these and compute only their
layout. Words that people read are already here, so that every format says the same. Lists are in the order in
which they are to be shown. Nothing here prints, reads or asks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpupool.environment.plan.changes.model import (
    BeforeAfter,
    Change,
    Cost,
    PoolChange,
    ResourceChange,
    SettingChange,
    TenantChange,
)
from gpupool.findings import Category, Finding, FindingReport

if TYPE_CHECKING:
    from gpupool.queue.simulate.figures import RunFigures

RiskCategory = Literal["danger", "caution"]
"""danger: work is lost or protection goes. caution: it costs, or somebody has to know."""

EffectKind = Literal["replaced", "deleted", "relabelled", "restarted", "started", "stay"]
"""What happens to nodes. replaced: drained and succeeded by a new one. deleted: drained, no successor.
relabelled: labels or taints change in place. restarted: only NVIDIA's own pods on them are. started: nodes
that are kept ready come. stay: nothing, although the change might make one think so."""

PodFate = Literal["evicted", "killed", "kept"]
"""What happens to the pods with GPUs there. evicted: drained, with their grace and their disruption budgets.
killed: at once or without regard for budgets. kept: they run on."""

WaiverChange = Literal["added", "removed", "extended", "shortened", "unchanged"]


@dataclass(frozen=True, slots=True)
class ProjectState:
    """One of the two states of the repository."""

    name: str
    """As it was asked for: `origin/main`, `merge base with origin/main`, or `working tree`."""
    commit: str | None
    """Full hash; of the working tree, the commit that it is based on. None where there is none yet."""
    dirty: bool
    """Whether files differ from the commit; always False for a commit."""


@dataclass(frozen=True, slots=True)
class PodAtRisk:
    """A pod with GPUs on a node that goes or is disturbed. Only known with a cluster."""

    namespace: str
    name: str
    tenant: str | None
    node: str
    age_seconds: int
    restart_policy: str
    owner: str | None
    """`Job train-7`, or None for a pod that nothing brings back."""
    requests: str
    """`2 gpu`, `1 mig-3g.40gb`."""
    protected: bool
    """Whether karpenter.sh/do-not-disrupt holds its node back."""


@dataclass(frozen=True, slots=True)
class NodeEffect:
    """What happens to the nodes of one pool for one reason."""

    kind: EffectKind
    pool: str
    """The pool as it was before where it was there, else as it is after; empty: GPU nodes of every pool."""
    reason: str
    """Why, in words that name what changes: `label nvidia.com/mig.config changes from 7x1g.10gb to ...`."""
    what: str
    """What happens, as a sentence: how many nodes, how many at a time, in which window, and their pods. Until
    `gpupool.review.report.effects.sentences` has put it into words, what is added to these."""
    node_pool: str | None = None
    """Karpenter's NodePool, where that does it."""
    certain: bool = True
    """False where it depends on what is not in the file, e.g. on the image that an alias stands for now."""
    nodes_max: int | None = None
    """So many nodes at most; None where the file does not say."""
    at_once: int | None = None
    """So many of them at a time; None: all at once, no budget holds."""
    window: str | None = None
    """When, e.g. `Sat 02:00-06:00 UTC`; None: at any time."""
    pods: PodFate = "kept"
    nodes: tuple[str, ...] = ()
    """Names, where they are known: of static nodes from the file, of others from the cluster."""
    nodes_now: int | None = None
    """How many there are now; None without a cluster."""
    pods_at_risk: tuple[PodAtRisk, ...] = ()
    """Pods with GPUs there now; empty without a cluster."""
    only: tuple[str, ...] = ()
    """Which of the nodes, each a clause such as `that run ...`; empty: all of them."""

    @property
    def disruptive(self) -> bool:
        """Whether running work is lost or moved."""
        return self.pods != "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk(Finding):
    """Something that a reviewer must not miss, in one sentence. Its code is one word for machines and for the
    eye: drain, delete, cost, quota, policy, budget, waiver ..."""

    effect: NodeEffect | None = None
    """What happens to nodes that it says, where it says that."""


def risk(code: str, what: str, category: RiskCategory = "caution", effect: NodeEffect | None = None) -> Risk:
    """What a rule about risks yields."""
    return Risk(code=code, what=what, category=Category[category], effect=effect)


@dataclass(frozen=True, slots=True)
class FindingChanges:
    new: tuple[Finding, ...]
    fixed: tuple[Finding, ...]
    remaining: int
    """How many denials and warnings there are in both states."""


@dataclass(frozen=True, slots=True)
class WaiverNote:
    """A waiver that ends soon or has ended, or that the change touches."""

    policy: str
    namespace: str | None
    """None: everywhere."""
    owner: str
    reason: str
    until: date
    """Last day on which it holds."""
    days_left: int
    """Counted from the report's day; negative when it has ended."""
    change: WaiverChange


@dataclass(frozen=True, slots=True)
class TenantUse:
    """What a tenant's quota gives after the change and what runs under it now, where it runs above it."""

    tenant: str
    namespace: str
    resource: str
    used: int
    quota: int


class PoolNodeChange(NamedTuple):
    pool: str
    nodes: int
    """How many it has now."""


@dataclass(frozen=True, slots=True)
class LiveState:
    """What the cluster adds; absent without one."""

    cluster: str
    """What it is called in the file."""
    nodes: tuple[PoolNodeChange, ...]
    """Pools of both states, in the order of the report."""
    over_quota: tuple[TenantUse, ...]


@dataclass(frozen=True, slots=True)
class EnvironmentReport:
    """One environment in both states."""

    name: str
    file: str
    """Path in the repository."""
    change: Change
    """`unchanged` where nothing that is generated differs, even if the file was edited; never `renamed`."""
    edited: bool
    """Whether the bytes of the file or of the policies beside it differ."""
    platform: BeforeAfter[str | None]
    invalid: BeforeAfter[tuple[Finding, ...]]
    """Why the file can't be used in a state; where it can't, everything else is empty."""
    pools: tuple[PoolChange, ...]
    """All pools of both states, the unchanged ones too: in the file's order, removed ones last."""
    resources: tuple[ResourceChange, ...]
    """Slices by extended resource."""
    gpus: BeforeAfter[int]
    """Physical GPUs with every pool at its maximum."""
    nodes: BeforeAfter[int]
    """Nodes with every pool at its maximum."""
    cost: BeforeAfter[Cost | None]
    """Of the whole environment; None where a price is unknown, or the state is not there."""
    effects: tuple[NodeEffect, ...]
    """In the order in which they happen."""
    tenants: tuple[TenantChange, ...]
    """All tenants of both states."""
    settings: tuple[SettingChange, ...]
    """What else differs in the file, by path: `gpuOperator.version`."""
    findings: FindingChanges
    waivers: tuple[WaiverNote, ...]
    risks: tuple[Risk, ...]
    """Dangers first."""
    live: LiveState | None
    notes: tuple[str, ...]
    """What the reader should know about this environment's part of the report."""
    simulated: BeforeAfter[RunFigures] | None = None
    """What jobs of a trace come to in both states; None without a trace, or where nothing is compared."""

    @property
    def changed_pools(self) -> tuple[PoolChange, ...]:
        return tuple(pool for pool in self.pools if pool.change != "unchanged")

    @property
    def changed_tenants(self) -> tuple[TenantChange, ...]:
        return tuple(tenant for tenant in self.tenants if tenant.change != "unchanged")


@dataclass(frozen=True, slots=True)
class Report:
    """What happens when the repository goes from one state to another."""

    base: ProjectState
    head: ProjectState
    today: date
    """By it waivers end."""
    cost_threshold: float
    """Percent that a cost may go up without being called a risk."""
    environments: tuple[EnvironmentReport, ...]
    """By name."""
    together: FindingChanges
    """What environments show only together: an object or a node that two of them own."""
    notes: tuple[str, ...]
    """What the reader should know about the report as a whole."""

    @property
    def changed(self) -> tuple[EnvironmentReport, ...]:
        return tuple(each for each in self.environments if each.change != "unchanged")

    @property
    def unchanged(self) -> tuple[EnvironmentReport, ...]:
        return tuple(each for each in self.environments if each.change == "unchanged")

    @property
    def valid(self) -> bool:
        """Whether every environment can be used after the change."""
        return not any(each.invalid.after for each in self.environments)

    @property
    def dangers(self) -> int:
        return self._risks(Category.danger)

    @property
    def cautions(self) -> int:
        return self._risks(Category.caution)

    def _risks(self, category: Category) -> int:
        return sum(risk.category is category for each in self.environments for risk in each.risks)

    def finding_report(self) -> FindingReport:
        """The risks of every environment, and why a file can't be used."""
        found: list[Finding] = []
        for environment in self.environments:
            found += environment.invalid.after
            found += [
                replace(one, file=environment.file) for one in environment.risks if one.code != "invalid"
            ]
        counts = [len(found), self.dangers, self.cautions]
        return FindingReport(
            command="report",
            findings=tuple(found),
            summary="{} findings, {} of danger and {} of caution".format(*counts),
            targets=tuple(environment.file for environment in self.environments),
        )
