"""What the code of a container job finds in its environment, wherever it runs.

The folders that it can write, unless it names others; the job's own variables; and those that let it fence
its effects, which it can not set itself.
"""

from __future__ import annotations

from gpupool.environment import workspace
from gpupool.queue.records import Job

POD = "GPUPOOL_POD"


def pod_variables(name: str, uid: str) -> dict[str, str]:
    """Which run of the attempt this is: Kubernetes may make a second pod of it, of the same attempt."""
    return {f"{POD}_NAME": name, f"{POD}_UID": uid, POD: f"{name}/{uid}"}


def variables(job: Job, scratch: str) -> dict[str, str]:
    """Of the job's present attempt, whose scratch folder is `scratch`."""
    given = {str(name): str(value) for name, value in (job.request.get("env") or {}).items()}
    places = workspace.variables(scratch)
    own = {
        "GPUPOOL_SCRATCH": scratch,
        "GPUPOOL_JOB_ID": job.id,
        "GPUPOOL_ATTEMPT": str(job.attempt),
        "GPUPOOL_POOL": job.pool or "",
        "GPUPOOL_GPUS": str(job.gpu_count),
        "GPUPOOL_CHECKPOINT_URI": str(job.request.get("checkpoint_s3_path") or ""),
    }
    if job.group_index is not None:
        own["GPUPOOL_ARRAY_INDEX"] = str(job.group_index)
    return {**places, **given, **own}
