"""The queue's fields, decisions and events as `gpupool jobs` shows them to people.

JSON keeps the queue's own names and units. This module must not print, or ask the queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from gpupool.adopt.convert.quantities import duration
from gpupool.environment import money
from gpupool.queue.domain import reasons
from gpupool.queue.records import FailedParent, JobState

if TYPE_CHECKING:
    from gpupool.client import Event, Job

_HIDDEN = ("request_json", "version", "plan_hash", "cause")
"""What may be secret, and what only programs use."""
_FIELDS = {
    "project_id": "project",
    "user_id": "user",
    "job_name": "name",
    "isolation_level": "isolation",
    "gpu_count": "GPUs",
    "gpus": "GPUs",
    "depends_on": "starts after success of",
    "depends_on_ended": "starts after end of",
    "capacity_type": "capacity",
    "deadline_at": "start deadline",
    "cost_usd": "cost",
    "estimate_usd": "maximum cost of an attempt",
    "budget_limit_usd": "budget",
    "container_image": "image",
    "container_command": "command",
    "target_url": "URL",
    "timeout_seconds": "timeout",
    "checkpoint_s3_path": "checkpoints",
    "callback_url": "callback URL",
    "group_id": "array",
    "group_index": "index in the array",
}
"""Those that are not called as in the API; of the others `_` becomes a space."""
_EVENTS = {
    "launched": "Job created",
    "started": "running",
    "requeued": "queued again",
    "preempted": "asked to stop",
    "priority_changed": "priority changed",
    "callback_failed": "callback failed",
}


def fields(job: Job) -> Iterator[tuple[str, str]]:
    """What is known of a job: name, value."""
    for name, value in job.data.items():
        if value in (None, [], {}) or name in (*_HIDDEN, "gpu_type"):
            continue
        if name == "borrowed":
            if value:
                yield (
                    "borrowed",
                    "runs beyond its tenant's grant; preempted when the lending tenant reclaims capacity",
                )
            continue
        if name == "gpu_count" and job.gpus is not None:
            continue
        if name == "gpu_pool_requested":
            yield "requested", asked_for(job)
        elif name == "env":
            yield "variables", ", ".join(value)
        elif name == "waiting":
            yield "waiting", f"{reason(value['reason'])}: {value['detail']}"
        else:
            yield _FIELDS.get(name, name.removesuffix("_at").replace("_", " ")), _value(name, value)


def _value(name: str, value: Any) -> str:
    if name.endswith("_usd"):
        return usd(value)
    if name == "gpus":
        return gpus(value)
    if name.endswith("_seconds"):
        return duration(int(value))
    if name.endswith("_at"):
        return moment(datetime.fromisoformat(value))
    return plain(value)


def asked_for(job: Job) -> str:
    """The pool and the GPU that were named, or auto."""
    named = (job.gpu_pool_requested, job.gpu_type)
    return ", ".join(name for name in named if name and name != "auto") or "auto"


def reason(code: str) -> str:
    return code.replace("_", " ")


def remediation(code: str) -> str | None:
    """What to do about what a job waits for; None for a reason that this version does not know."""
    return reasons.remediation(code)


def terms(terms: Mapping[str, Any]) -> Iterator[str]:
    """What orders the queue, each term before the next, with the numbers of one job."""
    share, level, clock = terms["guaranteed_share"], terms["level"], terms["fair_clock"]
    yield f"queue ordering: {terms['ordering']}"
    yield f"  reservation: {_reservation(terms)}"
    within = "is within" if share["below"] else "exceeds"
    borrowing = terms["borrowing"]
    if borrowing["up_to"] is not None:
        slots = f"{borrowing['granted']} slots, {borrowing['up_to']} with borrowing"
        how = "borrows, so it goes after jobs within their grant" if borrowing["borrows"] else "is within it"
        yield f"  grant: {slots}; the job {how}"
    yield f"  guaranteed share: {share['used']} of {share['guaranteed']} slots in use; the job {within} it"
    aged = "" if level["aged"] == level["granted"] else f", raised to {level['aged']} by aging"
    rises = f"it rises by one level every {duration(int(level['aging_seconds']))}"
    waited = duration(int(level["waited_seconds"]))
    yield f"  priority: {level['granted']}{aged}; queued for {waited}; {rises}"
    used = [f"{name} {hours:g}" for name, hours in clock["gpu_hours"].items()]
    used += [f"another tenant {hours:g}" for hours in clock.get("gpu_hours_of_others", ())]
    yield f"  weighted GPU hours, lowest first: {', '.join(used) or 'none yet'}"


def _reservation(found: Mapping[str, Any]) -> str:
    holder = found["reserved_for"]
    if not holder:
        return "none"
    whom = "it" if found["reserved"] else holder if " " in holder else f"job {holder}"
    return f"{found.get('reserved_within') or 'the pool'} is reserved for {whom}"


def decision(found: Mapping[str, Any]) -> Iterator[str]:
    """How the latest attempt was dispatched."""
    at = moment(datetime.fromisoformat(found["dispatched_at"]))
    if not found["pool"]:
        yield f"attempt {found['attempt']} was dispatched at {at}"
        return
    yield f"attempt {found['attempt']}, dispatched at {at}: {_place(found['pool'], found)}"
    price = [] if found["usd_per_hour"] is None else [f"{usd(found['usd_per_hour'])} an hour"]
    if found["hold_usd"] is not None:
        limit = duration(found["run_limit_seconds"])
        price.append(f"held for it: {usd(found['hold_usd'])}, which pays for {limit}")
    if price:
        yield f"  {'; '.join(price)}"


def happened(event: Event) -> tuple[str, str]:
    """What an event is, and what there is to say of it."""
    change = event.change
    # mlops.gpu.jobs.dispatched.t4.shared
    kind = "dispatched" if ".dispatched." in event.type else event.type.rpartition(".")[2]
    said: list[str] = []
    if kind == "enqueued":
        said = [f"priority {change.get('priority')}", str(change.get("isolation"))]
    elif kind == "dispatched":
        said = [_place(event.pool or "", change), gpus(change.get("gpu_micro", 0) / 1e6)]
        said.append(f"{usd(change.get('rate_micro', 0) / 1e6)} an hour")
        said.append(f"{usd(change.get('hold_micro', 0) / 1e6)} held for it")
        said += ["borrowed"] if change.get("borrowed") else []
    elif kind == "priority_changed":
        said = [str(change.get("priority"))]
    elif kind == "launched":
        said = [str(change.get("kubernetes_job"))]
    elif kind == "callback_failed":
        again = change.get("again_at")
        said = [str(change.get("reason")), f"try {change.get('tries')}"]
        said.append(f"again at {moment(datetime.fromisoformat(again))}" if again else "given up")
    elif kind == "started":
        said = [f"on node {change['node']}"] if change.get("node") else []
    else:
        said = [str(change["reason"])] if change.get("reason") else []
        if cause := change.get("cause"):
            said = [reasons.of_dependency(FailedParent(**{**cause, "state": JobState(cause["state"])}))]
        if change.get("exit_code") and "exit code" not in " ".join(said):
            said.append(f"exit code {change['exit_code']}")
        if "cost_micro" in change:
            said.append(usd(change["cost_micro"] / 1e6))
    return _EVENTS.get(kind, kind), ", ".join(said)


def _place(pool: str, found: Mapping[str, Any]) -> str:
    """`pool training, node 3, on-demand`."""
    nodes = [str(node) for node, _ in found.get("placement") or ()]
    said = [f"pool {pool}"]
    _, mig, profile = str(found.get("resource")).rpartition("/mig-")
    if mig:
        said.append(f"{sum(units for _, units in found['placement'])} of {profile}")
    if nodes:
        said.append(f"node{'s' if len(nodes) > 1 else ''} {' and '.join(nodes)}")
    return ", ".join([*said, *filter(None, [found.get("capacity_type")])])


def gpus(amount: float) -> str:
    """`half a GPU`, `3/7 of a GPU`, `4 GPUs`."""
    part = gpu_share(amount)
    if part == "1/2":
        return "half a GPU"
    return f"{part} of a GPU" if amount < 1 else f"{part} GPU{'' if part == '1' else 's'}"


def gpu_share(amount: float) -> str:
    """`1/4`, `3/7`, `4`, `1.5`: of physical GPUs."""
    part = Fraction(amount).limit_denominator(1000)
    if part < 1:
        return str(part or amount)
    return f"{round(amount, 3):g}"


def usd(amount: float) -> str:
    return f"{money.digits(amount)} USD"


def moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {plain(inner)}" for name, inner in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(plain(inner) for inner in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
