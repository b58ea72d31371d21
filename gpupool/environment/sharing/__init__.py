"""How the GPUs of a pool are divided: capacity arithmetic, one module per mode.

`sharing_modes` is the one place where modes are registered. Nothing here reads files, knows pools or talks
to a cluster.
"""

from gpupool.environment.sharing.exclusive import Exclusive
from gpupool.environment.sharing.mig import MigSharing
from gpupool.environment.sharing.mode import GPU_RESOURCE, SHARED_RESOURCE, Isolation, Sharing, SharingProblem
from gpupool.environment.sharing.mps import Mps
from gpupool.environment.sharing.placement import Placed
from gpupool.environment.sharing.time_slicing import TimeSlicing
from gpupool.environment.sharing.verdict import Verdict, maximal_layouts, verdict

sharing_modes: tuple[type[Sharing], ...] = (Exclusive, TimeSlicing, Mps, MigSharing)

__all__ = [
    "GPU_RESOURCE",
    "SHARED_RESOURCE",
    "Exclusive",
    "Isolation",
    "MigSharing",
    "Mps",
    "Placed",
    "Sharing",
    "SharingProblem",
    "TimeSlicing",
    "Verdict",
    "maximal_layouts",
    "sharing_modes",
    "verdict",
]
