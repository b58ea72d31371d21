"""With `--dev`: what runs a command, or changes one that runs, needs the token of the project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gpupool.client import local_token
from tests.queue.api.served import CONTAINER_JOB, HTTP_JOB, Served, problem

JOBS = "/api/v1/gpu-jobs"
VISION = {"X-Tenant-Id": "vision"}
COMMANDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "command": {"container_command": ["sh", "-c", "id"]},
    "array": {"array": 3},
    "variables": {"env": {"LD_PRELOAD": "/tmp/x"}},
    "secrets": {"env_from_secrets": ["s"], "image_pull_secrets": ["s"]},
    "volumes": {"volumes": [{"claim": "c", "path": "/data"}]},
    "own-command": {"container_image": "busybox:1.37"},
    "checkpoint": {"checkpoint_s3_path": "s3://b/c"},
    "deadline": {"deadline_seconds": 60, "retries": 0, "may_idle": True},
}


def test_no_command_is_run_or_changed_without_the_token(api: Any) -> None:
    async def test(served: Served) -> None:
        first = await served.submit()
        for name, fields in COMMANDS.items():
            for more in ({}, {"depends_on": first["id"]}):
                body = CONTAINER_JOB | fields | more
                for headers in (VISION, VISION | {"Idempotency-Key": name}, VISION | {"X-User-Id": "dev"}):
                    refused = await served.client.post(JOBS, json=body, headers=headers)
                    assert problem(refused) == "token-needed", name
                    assert str(served.app.state.context.token) in refused.json()["detail"]
        assert len((await served.client.get(JOBS)).json()["jobs"]) == 1
        key = VISION | {"Idempotency-Key": "k"}
        made = await served.client.post(JOBS, json=CONTAINER_JOB, headers=served.owner | key)
        assert made.status_code == 201
        id = made.json()["id"]
        again = await served.client.post(JOBS, json=CONTAINER_JOB, headers=key)
        assert problem(again) == "token-needed", "a repetition says nothing either"
        changes = (("POST", f"{JOBS}/{id}/cancel", None), ("PATCH", f"{JOBS}/{id}", {"priority": "low"}))
        for method, path, body in changes:
            assert problem(await served.client.request(method, path, json=body)) == "token-needed"
        assert (await served.client.get(f"{JOBS}/{id}")).json()["version"] == 1
        for method, path, body in reversed(changes):
            allowed = await served.client.request(method, path, json=body, headers=served.owner)
            assert allowed.status_code == 200, allowed.text

    api(test)


def test_http_jobs_and_reading_need_no_credential(api: Any) -> None:
    async def test(served: Served) -> None:
        command = (await served.submit(target_url=None, request_json=None, container_image="a:1"))["id"]
        made = await served.client.post(JOBS, json=HTTP_JOB, headers=VISION | {"X-User-Id": "demo"})
        assert (made.status_code, made.json()["user_id"]) == (201, "demo")
        dry = await served.client.post(f"{JOBS}:validate", json=CONTAINER_JOB, headers=VISION)
        assert dry.status_code == 200
        places = ("", f"/{command}", f"/{command}/why", f"/{command}/logs", f"/{command}/events")
        for path in (*(JOBS + place for place in places), "/api/v1/pools", "/metrics"):
            assert (await served.client.get(path)).status_code == 200, path
        id = made.json()["id"]
        changed = await served.client.patch(f"{JOBS}/{id}", json={"priority": "low"})
        assert changed.status_code == 200
        assert (await served.client.post(f"{JOBS}/{id}/cancel")).json()["state"] == "cancelled"

    api(test)


def test_without_the_token_no_job_takes_the_place_of_another(api: Any) -> None:
    fields = {"gpu_pool_requested": "inference-mig", "priority": "critical"}

    async def test(served: Served) -> None:
        async def preempting(headers: dict[str, str]) -> bool:
            headers = {"X-Tenant-Id": "serving"} | headers
            made = await served.client.post(JOBS, json=HTTP_JOB | fields, headers=headers)
            id = made.json()["id"]
            await served.client.patch(f"{JOBS}/{id}", json={"priority": "critical"}, headers=headers)
            rows = await served.db.fetch("job", id=id)
            return bool(rows[0]["preempts"])

        assert await preempting(served.owner)
        assert not await preempting({})

    api(test)


def test_only_the_token_of_this_queue_and_its_seals_for_this_port_open_it(api: Any) -> None:
    async def test(served: Served) -> None:
        file = served.app.state.context.token
        token, now = local_token.read(file), served.clock().timestamp()
        assert token is not None
        other = f"{token[:-1]}{'a' if token[-1] != 'a' else 'b'}"

        async def status(credential: str) -> int:
            headers = VISION | {"Authorization": f"Bearer {credential}"}
            return (await served.client.post(JOBS, json=CONTAINER_JOB, headers=headers)).status_code

        seal = local_token.seal(token, "call", 8021, 60, now)
        assert [await status(text) for text in (token, seal)] == [201, 201]
        prefix, ends, nonce, mac = seal.split("_")
        for wrong in (
            other,
            token + "a",
            "gpl_",
            "gpl_" + "a" * 43,
            local_token.seal(token, "call", 8022, 60, now),
            local_token.seal(token, "link", 8021, 60, now),
            local_token.seal(token, "call", 8021, 0, now),
            local_token.seal(other, "call", 8021, 60, now),
            "_".join((prefix, str(int(ends) + 1), nonce, mac)),
            "_".join((prefix, ends, nonce[::-1], mac)),
            "_".join((prefix, ends, nonce, "0" * 64)),
        ):
            assert await status(wrong) == 401, wrong
        served.clock.forward(61)
        assert await status(seal) == 401
        file.unlink()
        assert await status(token) == 401, "it has gone with its file"
        local_token.ensure(file.parent)
        assert await status(token) == 401

    api(test)


def test_without_dev_the_token_is_worth_nothing(api: Any) -> None:
    async def test(served: Served) -> None:
        token = local_token.read(served.app.state.context.token)
        for text in (token, local_token.seal(token or "", "call", 8021, 60)):
            refused = await served.client.get(JOBS, headers={"Authorization": f"Bearer {text}"})
            assert problem(refused) == "unauthenticated"

    api(test, dev=False)


def test_the_file_is_its_owners_alone_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "queue"
    file = local_token.ensure(folder)
    token = local_token.read(file)
    assert token is not None
    assert len(token) == 4 + 43
    assert file.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert local_token.read(local_token.ensure(folder)) == token
    assert [path.name for path in folder.iterdir()] == ["token"]


def _open_to_others(file: Path) -> None:
    file.chmod(0o644)


def _a_link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to(file.with_name("elsewhere"))


def _of_another_form(file: Path) -> None:
    file.write_text("gpl_short\n")


def _of_another_account(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(file, 65534, 65534)


def _a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


@pytest.mark.parametrize("spoil", [_open_to_others, _a_link, _of_another_form, _of_another_account, _a_pipe])
def test_a_file_that_others_could_have_touched_is_replaced(tmp_path: Path, spoil: Any) -> None:
    file = local_token.ensure(tmp_path)
    before = local_token.read(file)
    spoil(file)
    assert local_token.read(file) is None
    assert local_token.read(local_token.ensure(tmp_path)) not in (None, before)
