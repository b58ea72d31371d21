"""GPUType is the catalog's list of GPUs, and its file is as it is generated."""

from __future__ import annotations

from pathlib import Path

import gpupool.client.gpu_types
from gpupool.catalog.load import load_catalog
from gpupool.client import GPUType
from gpupool.schema.gpu_types import text


def test_the_file_is_as_generated() -> None:
    assert Path(gpupool.client.gpu_types.__file__).read_text() == text(), "run: make schema"


def test_members_are_the_catalogs_keys() -> None:
    assert sorted(GPUType) == sorted(load_catalog().models)
    assert GPUType.A100_80GB == "a100-80gb"
