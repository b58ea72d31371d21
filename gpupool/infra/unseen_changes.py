"""What others have changed in objects of ours, and the provider does not see or does not put right.

A refresh compares the fields that we have sent (pulumi-kubernetes 4.25, provider.go: Read). It passes over a
field that somebody has added in what the server keeps as one value, as a label in a selector, and over a
field that we send empty. `gpupool assert` reports these, so `refresh` writes them into the state, as it does
the others, and the next `up` sees them and applies the object again. An update leaves out false, 0 and empty
text where Kubernetes' type does (provider.go: Diff, Update, normalizeInputs): what somebody has set to true
would stay. So `up` compares what was to be updated, and applies what is left itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from gpupool.infra.recovery import name_of
from gpupool.infra.session import Request, Session
from gpupool.infra.stack_events import drifted
from gpupool.infra.stack_result import Result
from gpupool.live.cluster import access
from gpupool.live.objects.changes import MISSING, Change
from gpupool.live.objects.live import differences
from gpupool.live.objects.owner import FIELD_MANAGER
from gpupool.live.objects.resource_values import logical_name, properties

Row = dict[str, Any]


def record(session: Session, refreshed: Result) -> Result:
    """Write them into the state that a refresh has left, and show them with what it has found."""
    deployment = session.exported() or {}
    changed = list(_changed(deployment, session.request.plan.cluster.kubernetes_version))
    if not changed:
        return refreshed
    changes = {row["urn"]: drifted(row, inputs) for row, inputs in changed}
    for row, inputs in changed:
        row["inputs"], row["outputs"]["__inputs"] = inputs, inputs
    session.save(deployment)
    return refreshed.with_changes(changes)


def finish(request: Request, deployment: Mapping[str, Any]) -> None:
    """Apply again what was to be updated, by the state before the run, and is still different from the
    file."""
    rows = {name_of(row["urn"]): row for row in deployment.get("resources") or ()}
    api, kubernetes = access.connect(request.plan), request.plan.cluster.kubernetes_version
    for manifest in request.bundle:
        row = rows.get(logical_name(manifest))
        if manifest.patch or row is None or row.get("inputs") == properties(manifest):
            continue
        live = api.get(manifest.api_version, manifest.kind, manifest.name, manifest.namespace)
        if live and any(differences(manifest.body, live, kubernetes)):
            api.apply(properties(manifest), FIELD_MANAGER, force=True)


def _changed(deployment: Row, kubernetes: str) -> Iterator[tuple[Row, Row]]:
    """Rows of the state, each with the inputs that the object amounts to by now."""
    for row in deployment.get("resources") or ():
        inputs, live = row.get("inputs") or {}, row.get("outputs") or {}
        ours = "kind" in inputs and "metadata" in live and not str(row["type"]).endswith("Patch")
        unseen = list(differences(inputs, live, kubernetes)) if ours else []
        if unseen:
            yield row, _with(inputs, unseen)


def _with(inputs: Row, unseen: Iterable[Change]) -> Row:
    """`inputs` with the values that the cluster has."""
    result = deepcopy(inputs)
    for change in unseen:
        place: Any = result
        for step, following in zip(change.path, change.path[1:], strict=False):
            if isinstance(place, dict):
                place = place.setdefault(step, [] if isinstance(following, int) else {})
            else:
                place = place[step]
        if change.new is not MISSING:
            place[change.path[-1]] = change.new
        else:
            del place[change.path[-1]]
    return result
