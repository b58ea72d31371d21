"""The client's `GPUType`, made of the shipped catalog, because the client reads no catalog.

`python -m gpupool.environment.schema.gpu_types` prints the module; `make schema` writes it to
`gpupool/client/gpu_types.py`, and a test fails when that is stale.
"""

from __future__ import annotations

from gpupool.environment.catalog.load import load_catalog

_HEAD = '''"""The GPUs of the shipped catalog. `make schema` writes this file; it must not be edited."""

from __future__ import annotations

from enum import StrEnum


class GPUType(StrEnum):
    """A GPU model, by its key in the catalog (`gpupool catalog`)."""

'''


def text() -> str:
    """The module as the file holds it."""
    members = [
        f'    {key.upper().replace("-", "_").replace(".", "_")} = "{key}"\n    """{model.title}"""\n'
        for key, model in sorted(load_catalog().models.items())
    ]
    return _HEAD + "".join(members)


if __name__ == "__main__":
    print(text(), end="")
