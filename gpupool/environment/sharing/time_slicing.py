"""Time-slicing: a GPU is advertised several times and its pods take turns.

There is no isolation of memory or faults: every pod sees, and can exhaust, the whole memory of the GPU
(k8s-device-plugin v0.20.0, README). A slice is therefore a share of time, and no memory figure is derived
from it here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpupool.environment.sharing.mode import Isolation
from gpupool.environment.sharing.replicated import Replicated


@dataclass(frozen=True, slots=True)
class TimeSlicing(Replicated):
    """Pods take turns on each of `replicas` advertised shares of a GPU."""

    mode: ClassVar[str] = "time-slicing"
    isolation: ClassVar[Isolation] = Isolation.nothing
    plugin_key: ClassVar[str | None] = "timeSlicing"
    may_fall_back: ClassVar[bool] = True
