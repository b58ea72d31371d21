"""The SDK of the GPU job queue: submit jobs, wait for them, read why they wait and what they cost.

    client = Client(tenant="vision")
    job = client.submit_job(container_image=image, gpu_type=GPUType.T4)
    print(job.wait().state)

It needs httpx2 and the standard library. It must not import anything else of gpupool, and shows no type of
httpx2 to its callers.
"""

from __future__ import annotations

from gpupool.client.async_client import AsyncClient, AsyncJob
from gpupool.client.errors import (
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
from gpupool.client.gpu_types import GPUType
from gpupool.client.sync_client import Client, Job
from gpupool.client.values import (
    Answer,
    Cancelled,
    Event,
    Forecast,
    Found,
    JobPriority,
    JobSpec,
    JobState,
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
    "WaitTimeout",
    "Waiting",
    "Why",
]
