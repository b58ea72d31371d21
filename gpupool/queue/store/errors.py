"""What the store refuses or can't do, in sentences that say what to do."""

from __future__ import annotations

from gpupool.findings import GpupoolError


class StoreError(GpupoolError):
    """Anything that the store reports."""


class QueueFull(StoreError):
    """The tenant has as many queued jobs as it may have."""

    def __init__(self, tenant: str, limit: int) -> None:
        super().__init__(f"tenant {tenant} may have {limit} queued jobs; wait until some have started")


class IdempotencyMismatch(StoreError):
    """The key was used for another request."""

    def __init__(self, key: str) -> None:
        super().__init__(f"Idempotency-Key {key!r} was used for another request; use a new key")


class UnknownDependency(StoreError):
    """What is no job and no array of the tenant."""

    def __init__(self, job: str) -> None:
        super().__init__(f"depends_on {job} is no job of this tenant, and no array; give the id of one")


class Unknown(StoreError):
    """There is no such job."""

    def __init__(self, job: str) -> None:
        super().__init__(f"there is no job {job}")


class Conflict(StoreError):
    """The job is not as the caller last saw it."""

    def __init__(self, version: int, state: str) -> None:
        self.state = state
        super().__init__(f"the job is {state} and has version {version} now; read it again")


class Deposed(StoreError):
    """Another process leads now; nothing was written."""

    def __init__(self, role: str, epoch: int) -> None:
        super().__init__(f"epoch {epoch} of the {role} is over: another process leads; nothing was written")


class Unstorable(StoreError):
    """A value that PostgreSQL can't keep, a NUL character for example."""

    def __init__(self, cause: object) -> None:
        super().__init__(f"the database can't keep this value: {_line(cause)}; send it in another form")


class Unavailable(StoreError):
    """The database can't be reached or took too long."""

    def __init__(self, cause: object) -> None:
        super().__init__(f"the database does not answer: {_line(cause)}; try again, and see its log")


class Full(Unavailable):
    """The database's disk is full."""

    def __init__(self, cause: object) -> None:
        StoreError.__init__(
            self, f"the database's disk is full: {_line(cause)}; make room, and the queue goes on by itself"
        )


class Forbidden(Unavailable):
    """The database's account may not do this."""

    def __init__(self, cause: object) -> None:
        StoreError.__init__(
            self,
            f"the database refuses: {_line(cause)}; use an account that may, such as the owner of its tables",
        )


def _line(cause: object) -> str:
    """The first line of what the driver says, which names the cause."""
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]
