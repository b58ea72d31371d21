"""Return to the last state that was found good: what differs, and how to get there.

The state's file is unpacked beside its policies into a folder of its own, so that everything reads it as it
reads any environment. Pools whose running nodes differ in how their GPUs are shared go back node by node;
the rest is an ordinary `up`. Where Argo CD or Flux applies what Git says, nothing but the file is changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.policy_files import SHIPPED
from gpupool.environment.spec.yaml_source import MAX_BYTES
from gpupool.findings import GpupoolError, UsageError
from gpupool.generators import generate
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.objects import repartition_mark
from gpupool.live.repartition import owner, run
from gpupool.live.repartition.result import RepartitionResult
from gpupool.live.rollback import last_good
from gpupool.live.rollback.last_good import LastGood
from vapcheck.reading import read_file

Notify = Callable[[str], None]
SHORT = 6
"""Characters of a digest that are enough to name a state."""


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """The last good state, and the difference between it and the environment file."""

    file: Path
    """The environment file."""
    state: LastGood
    difference: tuple[str, ...]
    """Unified diff from the file and its project's policies to the good state; empty where all is alike."""


def prepare(api: KubeApi, file: Path, environment: str, to: str | None = None) -> RollbackPlan:
    """Plan the rollback of `file` to the newest good state or the one that `to` names (`chosen`).

    Raises GpupoolError where no good state of the environment is known, and where the cluster is another
    environment's; UsageError for a `to` that names none.
    """
    state = chosen(states(api, environment), to)
    when = state.found.isoformat(timespec="minutes")
    lines = list(_diff(_text(file), state.text, file.name, when))
    for name, text in sorted(state.policies.items()):
        lines += _diff(_text(policies_folder(file) / name), text, f"policies/{name}", when)
    for path in _newer_policies(file, state):
        lines += _diff(_text(path), "", f"policies/{path.name}", when)
    return RollbackPlan(file, state, tuple(lines))


def states(api: KubeApi, environment: str) -> list[LastGood]:
    """The environment's good states, the newest first; at least one. Raises GpupoolError as `prepare`
    does."""
    owner.require_own(api, environment)
    kept = last_good.history(api)
    if not kept:
        raise GpupoolError(
            f"no state of {environment} has been found good yet; `gpupool assert {environment}` "
            "records one when it finds no drift"
        )
    own = [state for state in kept if state.environment == environment]
    if not own:
        raise GpupoolError(
            f"the last good state of this cluster belongs to {kept[0].environment}, not {environment}; use "
            "the right cluster (cluster.kubeContext)"
        )
    return own


def chosen(kept: Sequence[LastGood], to: str | None) -> LastGood:
    """The state that `to` names: its number, 1 for the newest, or the beginning of its digest.

    Raises UsageError listing the kept ones.
    """
    if to is None:
        return kept[0]
    if to.isdecimal() and len(to) < SHORT:
        found = list(kept[int(to) - 1 : int(to)]) if int(to) else []
    else:
        found = [state for state in kept if len(to) >= SHORT and state.digest.startswith(to.lower())]
    if len(found) == 1:
        return found[0]
    there = ", ".join(f"{number} ({state.digest[:12]})" for number, state in enumerate(kept, 1))
    raise UsageError(f"--to {to}: no such state; stored: {there}; see gpupool rollback ENV --list")


@contextlib.contextmanager
def unpacked(state: LastGood) -> Iterator[Path]:
    """The state's environment file, in a project of its own."""
    with tempfile.TemporaryDirectory(prefix="gpupool-rollback-") as folder:
        file = Path(folder) / "environments" / f"{state.environment}.yaml"
        file.parent.mkdir()
        _write(file, state)
        yield file


def nodes_back(
    api: KubeApi, good: Plan, options: run.RepartitionOptions, notify: Notify
) -> list[RepartitionResult]:
    """Bring the running nodes of every pool into the shape that `good` says, pool by pool.

    Ends after the first pool that does not come through. Pools that the cluster does not have, or whose
    machines differ in more than the sharing, are left to `up`.
    """
    results = []
    bundle = generate(good)
    options = dataclasses.replace(options, again=f"gpupool rollback {good.environment}")
    begun = repartition_mark.find(api)
    if begun is not None:
        # A rollback that was cut off is one as well, and goes on.
        forward = run.begun_towards(api, bundle, run.pool_of(good, begun.pool))
        first = dataclasses.replace(options, rollback=not forward)
        results.append(run.repartition(api, good, begun.pool, first, notify))
        if not results[-1].status.succeeded:
            return results
    for pool in good.pools:
        try:
            needed = run.pending_change(api, bundle, pool) is not None
        except GpupoolError as error:
            notify(f"left to `up`: {error}")
            continue
        if needed:
            results.append(run.repartition(api, good, pool.name, options, notify))
            if not results[-1].status.succeeded:
                return results
    return results


def write_back(rollback_plan: RollbackPlan) -> list[Path]:
    """Make the environment file and its project's policies what they were; the files that were touched."""
    return _write(rollback_plan.file, rollback_plan.state)


def policies_folder(file: Path) -> Path:
    """Where the project of an environment file has its own policies."""
    return file.resolve().parent.parent / "policies"


def _write(file: Path, state: LastGood) -> list[Path]:
    texts = {file: state.text}
    texts |= {policies_folder(file) / name: text for name, text in state.policies.items()}
    texts = {path: text for path, text in texts.items() if _text(path) != text}
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    newer = _newer_policies(file, state)
    for path in newer:
        path.unlink()
    return [*texts, *newer]


def _newer_policies(file: Path, state: LastGood) -> list[Path]:
    """The project's own policy files that the good state does not have."""
    folder = policies_folder(file)
    if folder == SHIPPED or not folder.is_dir():
        return []
    paths = sorted(path for path in folder.glob("*") if path.suffix in (".yaml", ".yml"))
    return [path for path in paths if path.name not in state.policies]


def _text(path: Path) -> str:
    try:
        return read_file(path, MAX_BYTES).decode()
    except OSError:
        return ""


def _diff(old: str, new: str, name: str, when: str) -> Iterator[str]:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"{name} (now)", f"{name} (good, {when})", lineterm="", n=2
    )
    yield from lines
