"""Two states of a repository to a Report: reads, resolves, judges and compares every environment.

The one maker of Reports. Each plan is resolved and generated once, and policy is asked only about
environments that differ: what is the same in both states has the same findings. Writes nothing and prints
nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from gpupool.environment.catalog import load as installed
from gpupool.environment.plan.changes import totals
from gpupool.environment.plan.changes.model import BeforeAfter, Change
from gpupool.environment.plan.changes.pools import pool_changes
from gpupool.environment.plan.changes.tenants import tenant_changes
from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.environment import Environment
from gpupool.environment.spec.load import Loaded, check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.findings import Category, Finding, GpupoolError, SpecError, UsageError
from gpupool.generators import generate
from gpupool.review.report.effects.order import node_effects
from gpupool.review.report.effects.sentences import explained, in_words
from gpupool.review.report.environment_state import EnvironmentState
from gpupool.review.report.git_states import ProjectFiles
from gpupool.review.report.judgement import NONE, Judge
from gpupool.review.report.model import EnvironmentReport, LiveState, NodeEffect, Report
from gpupool.review.report.risks import risks
from gpupool.review.report.settings import setting_changes
from gpupool.review.report.waivers import waiver_notes

if TYPE_CHECKING:
    from gpupool.live.cluster.kube_api import KubeApi
    from gpupool.queue.simulate.figures import RunFigures

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Read:
    """One environment in one state, as far as it could be read."""

    content: bytes | None
    """None if the file does not exist."""
    environment: Environment | None
    state: EnvironmentState | None
    invalid: tuple[Finding, ...]


def build(
    base: ProjectFiles,
    head: ProjectFiles,
    names: Sequence[str],
    today: date,
    cost_threshold: float,
    step: Progress = lambda _: None,
    clusters: Callable[[str, Plan], KubeApi | None] = lambda *_: None,
    play: Callable[[Plan], RunFigures] | None = None,
) -> Report:
    """The report of going from `base` to `head`, about the environments `names` (all where there are none).

    `cost_threshold` is in percent; `step` receives what is being done; `clusters` gives a client for the
    cluster of an environment that should be queried; `play` runs jobs of a trace on a Plan. Raises UsageError
    for a name that is in neither state.
    """
    known = sorted({*base.environments, *head.environments})
    if not known:
        raise UsageError(
            f"no environments in {head.folder}, neither in {base.state.name} nor in {head.state.name}; "
            f"run this command in a project with environments, or give paths of files"
        )
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(
            f"no environment {unknown[0]!r} at {base.state.name} or {head.state.name}; environments: "
            + (", ".join(known) or "none")
        )
    reads = {name: _pair(name, base, head) for name in known}
    judge = Judge(today, lambda text: _relative(head, _relative(base, text)))
    parts = []
    for name in names or known:
        step(f"comparing {name}")
        part = _environment(name, *reads[name], head, today, cost_threshold, judge, clusters)
        if play is not None:
            step(f"simulating {name}")
            part = dataclasses.replace(part, simulated=_simulated(part, *reads[name], play))
        parts.append(part)
    together = NONE
    if any(old.state != new.state for old, new in reads.values()):
        step("checking all environments together")
        states = [[one.state for one in each if one.state] for each in zip(*reads.values(), strict=True)]
        together = judge.changes_together(states[0], states[1])
    return Report(
        base=base.state,
        head=head.state,
        today=today,
        cost_threshold=cost_threshold,
        environments=tuple(sorted(parts, key=lambda part: part.name)),
        together=together,
        notes=(*_notes(base, head), *_renamed(reads)),
    )


def _pair(name: str, base: ProjectFiles, head: ProjectFiles) -> tuple[_Read, _Read]:
    """The environment in both states; what is the same in both is read once."""
    new = _read(name, head)
    same = base.root == head.root and base.environments.get(name) == head.environments.get(name)
    # The same words of promotion may be right in one state and wrong in the other: they name what is beside.
    alone = new.environment is None or new.environment.promotion is None
    same = same and (alone or base.environments == head.environments)
    return (new if same else _read(name, base)), new


def _read(name: str, snapshot: ProjectFiles) -> _Read:
    content = snapshot.environments.get(name)
    if content is None:
        return _Read(None, None, None, ())
    path = snapshot.path(name)
    loaded: Loaded | None = None
    try:
        loaded = check_shape(parse_source(str(path), content))
        plan = resolve(loaded, siblings=snapshot.environments)
        state = EnvironmentState(plan, generate(plan))
    except SpecError as error:
        notes = tuple(_invalid(finding, snapshot) for finding in error.findings)
        in_words = loaded is not None and not loaded.gaps.covers(("cluster", "platform"))
        return _Read(content, loaded.environment if loaded and in_words else None, None, notes)
    except GpupoolError as error:
        # A project's policy file that can't be used.
        text = _relative(snapshot, str(error))
        note = Finding(
            code="validate", category=Category.invalid, what=text, file=f"{snapshot.folder}/{name}.yaml"
        )
        return _Read(content, loaded.environment if loaded else None, None, (note,))
    return _Read(content, loaded.environment, state, ())


def _invalid(finding: Finding, snapshot: ProjectFiles) -> Finding:
    return dataclasses.replace(finding, file=_relative(snapshot, finding.file))


def _relative(snapshot: ProjectFiles, text: str) -> str:
    """`text` with paths as they are in the project, wherever it was read from."""
    here = Path.cwd()
    shown = [f"{snapshot.root}/", f"{snapshot.root.resolve()}/"]
    if snapshot.root.resolve().is_relative_to(here):
        inside = snapshot.root.resolve().relative_to(here)
        shown += [f"{inside}/"] if inside.parts else []
    for prefix in shown:
        text = text.replace(prefix, "")
    return text


def _environment(
    name: str,
    old: _Read,
    new: _Read,
    head: ProjectFiles,
    today: date,
    cost_threshold: float,
    judge: Judge,
    clusters: Callable[[str, Plan], KubeApi | None],
) -> EnvironmentReport:
    before, after = old.state, new.state
    # Against a file that can't be read nothing can be compared.
    known = not old.invalid and not new.invalid
    plans = (before.plan if before and known else None, after.plan if after and known else None)
    states = (before, after) if known else (None, None)
    settings = setting_changes(old.environment, new.environment) if known else ()
    pools, tenants = pool_changes(*plans), tenant_changes(*plans)
    changed = _change(old, new, bool(settings))
    effects, live, trouble = _effects(name, states if changed != "unchanged" else (None, None), clusters)
    report = EnvironmentReport(
        name=name,
        file=f"{head.folder}/{name}.yaml",
        change=changed,
        edited=old.content != new.content or _policies_differ(before, after),
        platform=BeforeAfter(_platform(old), _platform(new)),
        invalid=BeforeAfter(old.invalid, new.invalid),
        pools=pools,
        resources=totals.resource_changes(*plans),
        gpus=totals.gpus(*plans),
        nodes=totals.nodes(*plans),
        cost=totals.cost(*plans),
        effects=effects,
        tenants=tenants,
        settings=settings,
        findings=judge.finding_changes(*states) if changed != "unchanged" else NONE,
        waivers=waiver_notes(*plans, today),
        risks=(),
        live=live,
        notes=(*explained(effects, _partitioned(*plans)), *trouble),
    )
    return dataclasses.replace(report, risks=risks(report, *plans, cost_threshold))


def _simulated(
    part: EnvironmentReport, old: _Read, new: _Read, play: Callable[[Plan], RunFigures]
) -> BeforeAfter[RunFigures] | None:
    """Where both states can be read, and differ."""
    if part.change != "changed" or old.state is None or new.state is None:
        return None
    return BeforeAfter(play(old.state.plan), play(new.state.plan))


def _effects(
    name: str,
    states: tuple[EnvironmentState | None, EnvironmentState | None],
    clusters: Callable[[str, Plan], KubeApi | None],
) -> tuple[tuple[NodeEffect, ...], LiveState | None, list[str]]:
    """Effects on nodes in words, what the cluster shows, and why it could not be asked."""
    effects, shown, trouble = node_effects(*states), None, list[str]()
    # The state before says where the nodes are.
    state = states[0] or states[1]
    try:
        api = clusters(name, state.plan) if state else None
        if api is not None:
            from gpupool.review.report.live import Live

            with closing(api):
                live = Live.of(api, *states)
            effects, shown = live.seen(effects), live.state()
    except GpupoolError as error:
        trouble = [f"Could not ask the cluster for running pods: {error}"]
    return tuple(map(in_words, effects)), shown, trouble


def _partitioned(*plans: Plan | None) -> bool:
    return any(pool.mig_config for plan in plans if plan for pool in plan.pools)


def _platform(read: _Read) -> str | None:
    return read.environment.cluster.platform if read.environment else None


def _change(old: _Read, new: _Read, settings: bool) -> Change:
    if old.content is None:
        return "added"
    if new.content is None:
        return "removed"
    if old.state is None or new.state is None:
        return "unchanged" if _but_fixes(old) == _but_fixes(new) else "changed"
    same = old.state.bundle == new.state.bundle and _without_files(old.state.plan) == _without_files(
        new.state.plan
    )
    return "unchanged" if same and not settings else "changed"


def _but_fixes(read: _Read) -> _Read:
    """Without what to do about findings, which may name what is beside the file."""
    return dataclasses.replace(
        read, invalid=tuple(dataclasses.replace(note, remediation="") for note in read.invalid)
    )


def _without_files(plan: Plan) -> Plan:
    """The plan without where its policy files were read; what is in them is in the bundle."""
    return dataclasses.replace(plan, policies=dataclasses.replace(plan.policies, files=()))


def _policies_differ(before: EnvironmentState | None, after: EnvironmentState | None) -> bool:
    return (before.plan.policies.files if before else ()) != (after.plan.policies.files if after else ())


def _notes(base: ProjectFiles, head: ProjectFiles) -> list[str]:
    notes = [
        f"{snapshot.state.name} has no {snapshot.folder} folder with environments."
        for snapshot in (base, head)
        if not snapshot.environments
    ]
    changed = _differing(base.catalog, head.catalog)
    if changed:
        notes.append(
            f"The GPU catalog differs ({', '.join(changed)}); both states were computed with the catalog "
            "of the installed gpupool."
        )
    elif head.catalog and _differing(head.catalog, _installed_catalog()):
        notes.append(
            "The catalog in this repository differs from that of the gpupool that created this report."
        )
    return notes


def _renamed(reads: Mapping[str, tuple[_Read, _Read]]) -> Iterator[str]:
    """Environments that go while another comes for the same cluster: a new name is another environment."""
    gone = {name: old.environment for name, (old, new) in reads.items() if old.content and not new.content}
    for name, (old, new) in reads.items():
        if old.content or new.environment is None:
            continue
        for former, environment in gone.items():
            if environment is not None and environment.cluster == new.environment.cluster:
                yield (
                    f"{name} is for the cluster of {former}, as if it were renamed. To gpupool it "
                    f"is a different environment, which it refuses to apply while {former} exists: "
                    f"destroy {former} first, with its old file (gpupool destroy {former})."
                )


def _differing(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> list[str]:
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]


def _installed_catalog() -> dict[str, bytes]:
    folder = Path(installed.__file__).parent
    return {path.name: path.read_bytes() for path in folder.glob("*.yaml")}
