"""What another Plan means for attempts that have no node yet: they may wait for what is no more.

Such an attempt is taken back and its job queued again, which is no failure of the job's. What has a node goes
on.
"""

from __future__ import annotations

from gpupool.queue.domain import fit
from gpupool.queue.domain.current import Current
from gpupool.queue.kubernetes import job_manifest
from gpupool.queue.roles.attempt import Attempt


def conflict(attempt: Attempt, made: job_manifest.Object | None, current: Current) -> str | None:
    """Why the attempt can't go on under this Plan; None where it can, which is noted in `attempt.fits_plan`
    so that it is worked out once. `made`: its Job, if there is one."""
    job = attempt.job
    if attempt.fits_plan == current.hash:
        return None
    if job.plan_hash != current.hash:
        why = fit.stale_reason(current.plan, current.supply, current.tenants, job)
        if why is not None:
            return f"the environment file has changed: {why}"
    if made is not None:
        wanted = job_manifest.where(
            job_manifest.manifest(job, current.plan, current.tenants[job.tenant], database="")
        )
        present = job_manifest.where(made)
        # Others may add to what was made under this Plan; what another one made must be alike in all.
        if present != wanted if job.plan_hash != current.hash else _lacks(present, wanted):
            return f"the environment file has changed: nodes of {job.pool} are chosen in another way"
    attempt.fits_plan = current.hash
    return None


def _lacks(present: job_manifest.Object, wanted: job_manifest.Object) -> bool:
    return (
        not wanted["nodeSelector"].items() <= present["nodeSelector"].items()
        or not set(wanted["tolerations"]) <= set(present["tolerations"])
        or present["resources"] != wanted["resources"]
    )
