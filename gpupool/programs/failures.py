"""The one error of the local control plane: what went wrong, where to look, what to do."""

from __future__ import annotations

from gpupool.findings import GpupoolError


class LocalError(GpupoolError):
    """A failure that the user can act on; `str()` is the whole message, ready to print."""
