"""The SDK of the GPU job queue: submit jobs, wait for them, read why they wait and what they cost.

    client = Client(tenant="vision")
    job = client.submit_job(container_image=image, gpu_type=GPUType.T4)
    print(job.wait().state)

It needs httpx2 and the standard library, and shows no type of httpx2 to its callers. These files are a wheel
of their own as well, imported as `gpupool_client` (pyproject.toml beside them): imports among them are
relative, and there is none of anything else of gpupool.
"""

from __future__ import annotations

from .async_client import AsyncClient, AsyncJob
from .errors import (
    ApiError,
    BudgetExceeded,
    Conflict,
    Forbidden,
    Gone,
    GpupoolClientError,
    Invalid,
    LimitExceeded,
    LostContact,
    NotFound,
    NotReached,
    NotSent,
    TransportError,
    Unauthenticated,
    WaitTimeout,
)
from .gpu_types import GPUType
from .job_spec import JobPriority, JobSpec, JobState, WaitReason
from .sync_client import Client, Job
from .values import (
    Answer,
    Cancelled,
    Event,
    Forecast,
    Found,
    Manifest,
    Offer,
    Pool,
    Recommendation,
    Usage,
    Waiting,
    Why,
)

__all__ = [
    "Answer",
    "ApiError",
    "AsyncClient",
    "AsyncJob",
    "BudgetExceeded",
    "Cancelled",
    "Client",
    "Conflict",
    "Event",
    "Forbidden",
    "Forecast",
    "Found",
    "GPUType",
    "Gone",
    "GpupoolClientError",
    "Invalid",
    "Job",
    "JobPriority",
    "JobSpec",
    "JobState",
    "LimitExceeded",
    "LostContact",
    "Manifest",
    "NotFound",
    "NotReached",
    "NotSent",
    "Offer",
    "Pool",
    "Recommendation",
    "TransportError",
    "Unauthenticated",
    "Usage",
    "WaitReason",
    "WaitTimeout",
    "Waiting",
    "Why",
]
