"""What the API server says of the objects that a run could not apply, or that a preview would change.

A provider wraps the server's answer into advice of its own, other in each version, and passes over some
refusals in a preview (pulumi-kubernetes 4.25, provider.go: Create and Update, Forbidden). So the server is
asked again, by a dry run, and its own answer is shown. Where it does not answer, only that is shown.
"""

from __future__ import annotations

import contextlib

from gpupool.infra.dry_run import dry_run
from gpupool.infra.session import Request
from gpupool.infra.stack_events import EngineOutcome
from gpupool.live.cluster import access
from gpupool.live.cluster.kube_api import ApiError, UnreachableError
from gpupool.live.cluster.kubeconfig import KubeconfigError
from gpupool.live.objects.owner import FIELD_MANAGER
from gpupool.live.objects.resource_values import logical_name

_APPLIES = ("create", "update", "replace")


def explain(request: Request, outcome: EngineOutcome, failed: bool) -> None:
    """Put the server's answers into `outcome`. `failed` says whether the engine has reported a failure."""
    if failed:
        try:
            access.require_cluster(request.plan)
        except (ApiError, KubeconfigError, UnreachableError) as error:
            outcome.errors = [str(error)]
            return
    if not request.applies:
        return
    urns = {
        entry.resource: urn
        for urn, entry in outcome.objects.items()
        if entry.op in _APPLIES and (entry.error or (request.operation == "preview" and not failed))
    }
    # What a Node's patch says is worked out for each node while the program runs.
    manifests = [m for m in request.bundle if logical_name(m) in urns and not (m.patch and m.kind == "Node")]
    if not manifests:
        return
    with contextlib.suppress(KubeconfigError, UnreachableError):
        api = access.connect(request.plan)
        try:
            tried = dry_run(api, manifests, FIELD_MANAGER, lambda _: None)
        except ApiError as error:  # the account may not write, as one that only previews changes
            lacks = f"{error}; `gpupool doctor {request.environment}` shows missing permissions"
            (outcome.errors if failed else outcome.warnings).append(lacks)
            return
        for refusal in tried.refused:
            _note(outcome, urns[logical_name(refusal.object)], refusal.message)


def _note(outcome: EngineOutcome, urn: str, message: str) -> None:
    entry = outcome.objects[urn]
    entry.error = message
    line = f"{entry}: {message}"
    outcome.errors = [line, *(row for row in outcome.errors if row != outcome.lines.get(urn))]
    outcome.lines[urn] = line
