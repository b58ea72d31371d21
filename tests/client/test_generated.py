"""Modules of the client that are made of something else are as they are made."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpupool.client.gpu_types
from gpupool.client import GPUType
from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.schema import gpu_types, sync_client
from gpupool.queue.api import client_module

CLIENT = Path(gpupool.client.gpu_types.__file__).parent


def test_files_are_as_generated() -> None:
    assert (CLIENT / "gpu_types.py").read_text() == gpu_types.text(), "run: make schema"
    assert (CLIENT / "job_spec.py").read_text() == client_module.text(), "run: make schema"
    assert (CLIENT / "sync_client.py").read_text() == sync_client.text(), "run: make schema"


def test_nothing_of_asyncio_is_left() -> None:
    words = sync_client.text().lower().replace("`async_client`", "")
    assert [word for word in ("async", "await", "aclos", "loop", "coroutine") if word in words] == []


def test_a_sentence_that_has_changed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_client, "SENTENCES", {"Not there.": "Nor here."})
    with pytest.raises(ValueError, match=r"0 times, and not once: Not there\."):
        sync_client.text()


def test_members_are_the_catalogs_keys() -> None:
    assert sorted(GPUType) == sorted(load_catalog().models)
    assert GPUType.A100_80GB == "a100-80gb"
