"""What a container gets beside its image: shared memory, a folder that its user can write, and the variables
that lead programs there.

A container has 64 MiB at /dev/shm if nothing is mounted there (OCI runtimes' default), too little for the
workers of PyTorch's DataLoader and for NCCL; and a user without an entry in the image's /etc/passwd, such as
1000, has / as its home. It must not know a job or a pool: sizes are given.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

SHM, SCRATCH = "/dev/shm", "/scratch"  # noqa: S108 (of the container, not of this machine)
"""Where they are mounted."""
SHM_VOLUME, SCRATCH_VOLUME = "shm", "scratch"
SHM_PART = 2
"""One in so many bytes of the container's memory may be shared memory, the default of tmpfs (tmpfs(5)); it is
no memory beside it: what is written there counts against the container's limit."""
SHM_MIB = 1024
"""Where a container's memory is not known: what NVIDIA's images ask for (NGC, --shm-size=1g)."""


def variables(folder: str) -> dict[str, str]:
    """Of a container whose scratch folder is `folder`.

    Most programs keep caches below HOME or XDG_CACHE_HOME. Images of models often say otherwise, with a
    folder of root's, so the variables that go before are set too: HF_HOME (huggingface_hub), TORCH_HOME
    (torch.hub), TRITON_CACHE_DIR (Triton). USER is what getpass.getuser() reads before it looks for an entry
    in /etc/passwd; PyTorch's compiler names its cache so.
    """
    cache = f"{folder}/.cache"
    return {
        "HOME": folder,
        "USER": "job",
        "TMPDIR": folder,
        "XDG_CACHE_HOME": cache,
        "HF_HOME": f"{cache}/huggingface",
        "TORCH_HOME": f"{cache}/torch",
        "TRITON_CACHE_DIR": f"{cache}/triton",
        "GPUPOOL_SCRATCH": folder,
    }


def moved(name: str, value: str, folder: str) -> str:
    """A variable's value where nothing is mounted, and `folder` is what SCRATCH would be."""
    if name in variables(SCRATCH) and (value == SCRATCH or value.startswith(f"{SCRATCH}/")):
        return folder + value.removeprefix(SCRATCH)
    return value


def shm_mib(memory_mib: int | None) -> int:
    """Size of shared memory by default, of a container with so much memory; None where that is not known."""
    return SHM_MIB if memory_mib is None else max(1, memory_mib // SHM_PART)


def volumes(shm: str, scratch: str) -> list[Object]:
    """Of the pod; both sizes are quantities."""
    return [
        {"name": SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": shm}},
        {"name": SCRATCH_VOLUME, "emptyDir": {"sizeLimit": scratch}},
    ]


def mounts() -> list[Object]:
    """Of the container."""
    return [
        {"name": SHM_VOLUME, "mountPath": SHM, "readOnly": False},
        {"name": SCRATCH_VOLUME, "mountPath": SCRATCH, "readOnly": False},
    ]
