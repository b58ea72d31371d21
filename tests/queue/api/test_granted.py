"""What a tenant's jobs may use where the file says it: Secrets, volume claims, a folder of checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from posixpath import normpath
from typing import Any
from unicodedata import normalize
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.queue.checkpoints import lies_in
from tests.queue.api.served import CONTAINER_JOB, Served, problem

FOLDER = "s3://models/team-vision/"
INSIDE = (
    "s3://models/team-vision/",
    "s3://models/team-vision/a",
    "s3://models/team-vision/a/",
    "s3://models/team-vision/run=3/2026-11-25T10:00:00+01:00/step_1.pt",
    "s3://models/team-vision/..a/b..",
)
OUTSIDE = (
    "s3://models",
    "s3://models/",
    "s3://models/team-vision",
    "s3://models/team-vision-2/a",
    "s3://models/team-vision2/a",
    "s3://models/team-speech/a",
    "s3://models/Team-Vision/a",
    "s3://Models/team-vision/a",
    "s3://models-2/team-vision/a",
    "s3://models.evil/team-vision/a",
    "s3://evil/models/team-vision/a",
    "s3://models//team-vision/a",
    "s3://models/./team-vision/a",
    "s3://models/a/../team-vision/a",
    "s3://models/team-vision//",
    "s3://models/team-vision//a",
    "s3://models/team-vision/a//b",
    "s3://models/team-vision/.",
    "s3://models/team-vision/..",
    "s3://models/team-vision/../team-speech/a",
    "s3://models/team-vision/a/../../team-speech/a",
    "s3://models/team-vision/a/..",
    "s3://models/team-vision/%2e%2e/team-speech/a",
    "s3://models/team-vision/%2E%2E%2Fteam-speech",
    "s3://models/team-vision/..%2fteam-speech",
    "s3://models/team-vision/..\\team-speech",
    "s3://models/team-vision/\u2024\u2024/team-speech",
    "s3://models/team-vision/\uff0e\uff0e\uff0fteam-speech",
    "s3://models/team-vision/.../a",
    "s3://models/team-vision/a?versionId=1",
    "s3://models/team-vision/a#b",
    "s3://models/team\u2010vision/a",
)


@pytest.mark.parametrize("place", INSIDE)
def test_a_checkpoint_in_the_folder_is_accepted(api: Callable[..., Any], place: str) -> None:
    async def run(served: Served) -> None:
        response = await _submit(served, checkpoint_s3_path=place)
        assert response.status_code == 201, response.text

    api(run, vision={"checkpoints": FOLDER})


@pytest.mark.parametrize("place", OUTSIDE)
def test_a_checkpoint_elsewhere_is_refused_with_the_folder(api: Callable[..., Any], place: str) -> None:
    async def run(served: Served) -> None:
        response = await _submit(served, checkpoint_s3_path=place)
        assert problem(response) == "not-for-jobs"
        assert FOLDER in response.json()["detail"]

    api(run, vision={"checkpoints": FOLDER})


@pytest.mark.parametrize("place", [one for one in (*INSIDE, *OUTSIDE) if "\\" not in one])
def test_without_a_folder_any_place_is_accepted(api: Callable[..., Any], place: str) -> None:
    async def run(served: Served) -> None:
        assert (await _submit(served, checkpoint_s3_path=place)).status_code == 201

    api(run)


PARTS = st.sampled_from(
    ["a", "..", ".", "", "%2e%2e", "%2E.", "%252e%252e", "b.c", "\u2024\u2024", "..\\..", "\uff0f.."]
)


@given(st.lists(PARTS, max_size=6))
def test_however_a_program_reads_it_the_place_is_in_the_folder(parts: list[str]) -> None:
    place = FOLDER + "/".join(parts)
    readings = (
        place,
        unquote(place),
        unquote(unquote(place)),
        normalize("NFKC", place),
        place.replace("\\", "/"),
    )
    for reading in readings:
        assert not lies_in(place, FOLDER) or f"{normpath(reading.removeprefix('s3://'))}/".startswith(
            FOLDER.removeprefix("s3://")
        )


USED = {
    "env_from_secrets": ["keys", "other"],
    "image_pull_secrets": ["other"],
    "volumes": [{"claim": "other", "path": "/data"}],
}
ALLOWED = {
    "env_from_secrets": ["keys"],
    "image_pull_secrets": ["keys"],
    "volumes": [{"claim": "data", "path": "/data"}],
}
LISTS = {"job_secrets": ("keys",), "job_claims": ("data",)}
NONE = {"job_secrets": (), "job_claims": ()}


@pytest.mark.parametrize("field", USED)
def test_jobs_use_the_secrets_and_claims_that_the_file_lists(api: Callable[..., Any], field: str) -> None:
    async def run(served: Served) -> None:
        response = await _submit(served, **{field: USED[field]})
        assert problem(response) == "not-for-jobs"
        assert response.json()["detail"].startswith(f"{field}: jobs of vision may not use 'other'; allowed: ")
        assert (await _submit(served, **{field: ALLOWED[field]})).status_code == 201

    async def none(served: Served) -> None:
        assert problem(await _submit(served, **{field: ALLOWED[field]})) == "not-for-jobs"

    async def any_of_them(served: Served) -> None:
        assert (await _submit(served, **{field: USED[field]})).status_code == 201

    api(run, vision=LISTS)
    api(none, vision=NONE)
    api(any_of_them)


async def _submit(served: Served, **fields: Any) -> Any:
    headers = {"X-Tenant-Id": "vision"}
    return await served.client.post(
        "/api/v1/gpu-jobs", json=CONTAINER_JOB | fields, headers=served.owner | headers
    )
