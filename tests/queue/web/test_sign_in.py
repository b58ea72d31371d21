"""Sign-in, CSRF tokens, tenants kept apart, errors as pages: requests without a browser."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from httpx2 import Response

from gpupool.client import local_token
from gpupool.queue.store import keys
from gpupool.queue.web.session import SESSION
from tests.queue.api.served import Served, listening
from tests.queue.store.samples import dispatched, sql

TOKEN = re.compile(r'name="token" value="([0-9a-f]{64})"')
WORK = ("jobs:read", "jobs:write")
HOSTILE = "<script>alert(1)</script>\u200fgpj.exe"


def token(response: Response) -> str:
    found = TOKEN.search(response.text)
    assert found, response.text
    return found[1]


async def signed_in(
    served: Served, *tenants: str, scopes: tuple[str, ...] = ("jobs:read", "jobs:write")
) -> str:
    """Sign the client in by the form; the text of its new key."""
    served.client.cookies.clear()
    text = (await served.key(*tenants, scopes=scopes))["Authorization"].removeprefix("Bearer ")
    form = await served.client.get("/login")
    answer = await served.client.post("/login", data={"token": token(form), "key": text, "next": "/jobs"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs"), answer.text
    return text


async def submitted(served: Served, tenant: str, **fields: Any) -> str:
    return str((await served.submit(await served.key(tenant) | {"X-Tenant-Id": tenant}, **fields))["id"])


def test_without_a_session_each_page_leads_to_the_sign_in(pages) -> None:
    async def test(served: Served) -> None:
        id = await submitted(served, "vision")
        for path in ("/", "/jobs", f"/jobs/{id}", "/live", f"/jobs/{id}/log/1"):
            answer = await served.client.get(path)
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/login?next=%2F")
        served.client.cookies.set(SESSION, f"{'a' * 12}.99999999999.{'0' * 64}")
        assert (await served.client.get("/")).status_code == 303

    pages(test)


def test_the_cookie_is_no_key_and_can_t_be_read_by_scripts(pages) -> None:
    async def test(served: Served) -> None:
        text = (await served.key("vision"))["Authorization"].removeprefix("Bearer ")
        form = await served.client.get("/login")
        answer = await served.client.post("/login", data={"token": token(form), "key": text})
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert text not in cookie
        assert text.split("_", 2)[2] not in cookie  # the secret itself may hold "_"

    pages(test)


def test_a_session_ends_with_its_key_and_can_t_be_extended(pages) -> None:
    async def test(served: Served) -> None:
        text = await signed_in(served, "vision")
        assert (await served.client.get("/jobs")).status_code == 200
        good = served.client.cookies[SESSION]
        for forged in (good[:-1] + ("a" if good[-1] != "a" else "b"), good + "a", "0" * 43):
            served.client.cookies.clear()
            answer = await served.client.get("/jobs", headers={"Cookie": f"{SESSION}={forged}"})
            assert answer.status_code == 303
        headers = {"Cookie": f"{SESSION}={good}"}
        assert (await served.client.get("/jobs", headers=headers)).status_code == 200
        await keys.revoke(served.db, text.split("_")[1])
        assert (await served.client.get("/jobs", headers=headers)).status_code == 303

    pages(test)


def test_a_session_expires(pages) -> None:
    async def test(served: Served) -> None:
        await signed_in(served, "vision")
        served.clock.forward(13 * 3600)
        assert (await served.client.get("/jobs")).status_code == 303

    pages(test)


@pytest.mark.parametrize("key", ["", "gpk_wrong", f"gpk_{'a' * 12}_{'b' * 43}", "é" * 300])
def test_an_invalid_key_gets_no_session(pages, key: str) -> None:
    async def test(served: Served) -> None:
        form = await served.client.get("/login")
        answer = await served.client.post("/login", data={"token": token(form), "key": key})
        assert answer.status_code == 401
        assert SESSION not in served.client.cookies
        if key:
            assert key not in answer.text

    pages(test)


def test_a_form_is_bounded_before_it_is_read(pages) -> None:
    async def test(served: Served) -> None:
        form = token(await served.client.get("/login"))
        for size, status in ((15_000, 401), (17_000, 413), (1_000_000, 413)):
            answer = await served.client.post("/login", data={"token": form, "key": "x" * size})
            assert answer.status_code == status

        async def endless() -> Any:
            for _ in range(1000):
                yield b"x" * 1000
            raise AssertionError("all of it was read")

        headers = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        assert (await served.client.post("/login", content=endless(), headers=headers)).status_code == 413
        await signed_in(served, "vision")
        job = await submitted(served, "vision")
        large = {"token": token(await served.client.get(f"/jobs/{job}")), "more": "x" * 20_000}
        assert (await served.client.post(f"/jobs/{job}/cancel", data=large)).status_code == 413

    pages(test)


def test_a_valid_key_signs_in_whatever_was_sent_before(pages) -> None:
    async def test(served: Served) -> None:
        form = token(await served.client.get("/login"))
        for _ in range(70):
            answer = await served.client.post("/login", data={"token": form, "key": "x"})
        assert answer.status_code == 429
        await signed_in(served, "vision")

    pages(test)


def test_invalid_keys_are_slowed_down(pages) -> None:
    async def test(served: Served) -> None:
        form = token(await served.client.get("/login"))
        statuses = [
            (await served.client.post("/login", data={"token": form, "key": "x"})).status_code
            for _ in range(70)
        ]
        assert statuses[0] == 401
        assert statuses[-1] == 429

    pages(test)


@pytest.mark.parametrize("next", ["//evil.example", "https://evil.example", "/\\evil.example", "x", "/\n"])
def test_a_sign_in_leads_to_no_other_site(pages, next: str) -> None:
    async def test(served: Served) -> None:
        text = (await served.key("vision"))["Authorization"].removeprefix("Bearer ")
        form = await served.client.get("/login")
        answer = await served.client.post("/login", data={"token": token(form), "key": text, "next": next})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")

    pages(test)


def test_nothing_changes_without_a_token_of_this_browser_and_session(pages) -> None:
    async def test(served: Served) -> None:
        id = await submitted(served, "vision")
        await signed_in(served, "vision")
        before_sign_out = token(await served.client.get(f"/jobs/{id}"))
        cancel = f"/jobs/{id}/cancel"
        good = {"token": before_sign_out}
        refused = [
            await served.client.post(cancel),
            await served.client.post(cancel, data={}),
            await served.client.post(cancel, data={"token": "0" * 64}),
            await served.client.post(cancel, json=good),
            await served.client.post(cancel, data=good, headers={"Origin": "https://evil.example"}),
            await served.client.post(cancel, data=good, headers={"Origin": "null"}),
            await served.client.post(cancel, data=good, headers={"Sec-Fetch-Site": "cross-site"}),
            await served.client.post("/logout"),
        ]
        assert {answer.status_code for answer in refused} <= {403, 415}
        assert (await served.client.get(cancel)).status_code == 405
        await signed_in(served, "vision")  # another session: the old token is of no use
        assert (await served.client.post(cancel, data=good)).status_code == 403
        page = await served.client.get(f"/jobs/{id}")
        assert 'class="tag state queued"' in page.text
        answer = await served.client.post(
            cancel, data={"token": token(page)}, headers={"Origin": "http://localhost:8021"}
        )
        assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{id}")
        assert 'class="tag state cancelled"' in (await served.client.get(f"/jobs/{id}")).text

    pages(test)


def test_sign_out_ends_the_session_and_its_streams_wherever_the_cookie_is(pages) -> None:
    async def test(served: Served) -> None:
        await signed_in(served, "vision")
        form = token(await served.client.get("/jobs"))
        compromised = {"Cookie": f"{SESSION}={served.client.cookies[SESSION]}"}
        async with (
            listening(served.app) as client,
            client.stream("GET", "/live", headers=compromised) as live,
        ):
            assert live.status_code == 200
            assert (await served.client.post("/logout", data={"token": form})).status_code == 303
            assert (await served.client.get("/jobs")).status_code == 303
            served.client.cookies.clear()
            for path in ("/", "/jobs", "/live"):
                assert (await served.client.get(path, headers=compromised)).status_code == 303
            async with asyncio.timeout(20):
                async for _ in live.aiter_bytes():
                    pass

    pages(test)


def test_a_tenant_sees_its_own_and_no_names_or_ids_of_others(pages) -> None:
    async def test(served: Served) -> None:
        mig = {"gpu_pool_requested": "inference-mig", "job_name": "secret-of-serving"}
        other = await submitted(served, "serving", **mig)
        own = await submitted(served, "vision", job_name="own-of-vision")
        await signed_in(served, "vision", scopes=("jobs:read", "jobs:write", "usage:read"))
        for path in ("/", "/jobs", f"/jobs/{own}"):
            text = (await served.client.get(path)).text
            assert "own-of-vision" in text
            assert "secret-of-serving" not in text
            assert other not in text
            assert not re.search(r"\bserving\b", text)
        assert "another tenant" in (await served.client.get("/")).text
        form = token(await served.client.get(f"/jobs/{own}"))
        answers = [
            await served.client.get(f"/jobs/{other}"),
            await served.client.get(f"/jobs/{other}/log/1"),
            await served.client.post(f"/jobs/{other}/cancel", data={"token": form}),
            await served.client.get("/jobs?tenant=serving"),
            await served.client.get("/jobs/no-id"),
            await served.client.get("/nothing"),
        ]
        assert [answer.status_code for answer in answers] == [404] * 6
        assert all(answer.headers["content-type"].startswith("text/html") for answer in answers)

    pages(test)


def test_a_key_without_a_scope_reads_and_changes_nothing(pages) -> None:
    async def test(served: Served) -> None:
        id = await submitted(served, "vision")
        await signed_in(served, "vision", scopes=("jobs:read",))
        page = await served.client.get(f"/jobs/{id}")
        assert "Cancel this job" not in page.text
        assert "Shares and budgets" not in (await served.client.get("/")).text
        answer = await served.client.post(f"/jobs/{id}/cancel", data={"token": token(page)})
        assert answer.status_code == 403
        await signed_in(served, "vision", scopes=("usage:read",))
        assert (await served.client.get("/jobs")).status_code == 403

    pages(test)


def test_a_credential_of_a_proxy_needs_no_session(pages) -> None:
    async def test(served: Served) -> None:
        headers = await served.key("vision")
        assert (await served.client.get("/jobs", headers=headers)).status_code == 200
        headers = {"Authorization": "Bearer wrong"}
        assert (await served.client.get("/jobs", headers=headers)).status_code == 401

    pages(test)


def test_hostile_text_stays_text(pages) -> None:
    async def test(served: Served) -> None:
        id = (await served.submit(job_name=HOSTILE, request_json={"x": "</pre><script>alert(2)</script>"}))[
            "id"
        ]
        for path in ("/", "/jobs", f"/jobs/{id}"):
            text = (await served.client.get(path)).text
            assert "<script>alert" not in text
            assert "\u200f" not in text
            assert "&lt;U+200F&gt;" in text
        answer = await served.client.get(
            "/jobs?state=<script>alert(3)</script>&pool=%22%3E%3Cscript%3Ealert(4)"
        )
        assert "<script>alert" not in answer.text

    pages(test, dev=True)


def test_pages_allow_no_foreign_content(pages) -> None:
    async def test(served: Served) -> None:
        for path in ("/", "/jobs", "/login", "/nothing"):
            answer = await served.client.get(path)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! src=\"/static/)", answer.text)
            for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text):
                file = await served.client.get(address)
                assert file.status_code == 200
                assert "immutable" in file.headers["cache-control"]
        assert (await served.client.get("/static/0/queue.js")).status_code == 404

    pages(test, dev=True)


def test_lists_go_on_page_by_page_and_keep_their_filter(pages) -> None:
    async def test(served: Served) -> None:
        for number in range(3):
            await served.submit(array=20, job_name=f"many-{number}")
        first = (await served.client.get("/jobs?state=queued&pool=")).text
        assert first.count('scope="row"') == 50
        following = re.search(r'href="(/jobs\?state=queued[^"]*cursor=[^"]+)"', first)
        assert following
        second = (await served.client.get(following[1].replace("&amp;", "&"))).text
        assert second.count('scope="row"') == 10
        assert (await served.client.get("/jobs?cursor=wrong")).status_code == 422
        assert "No matching jobs" in (await served.client.get("/jobs?state=running")).text

    pages(test, dev=True)


def test_the_api_keeps_answering_problems(pages) -> None:
    async def test(served: Served) -> None:
        answer = await served.client.get("/api/v1/gpu-jobs/none")
        assert answer.headers["content-type"] == "application/problem+json"

    pages(test)


def test_a_job_that_does_not_run_yet_is_shown_with_its_reason_and_not_as_running(pages) -> None:
    async def test(served: Served) -> None:
        id = (await served.submit(target_url=None, request_json=None, container_image="a:1"))["id"]
        assert await dispatched(served.db, now=served.clock(), only=id) == [id]
        said = '{"reason": "refused", "detail": "its pod can not be created: policy own: no"}'
        await sql(served.db, "UPDATE gpu_jobs SET waiting = %s::jsonb RETURNING id", said)
        text = (await served.client.get("/")).text
        starting, running = (
            text.partition(f'<div id="{name}"')[2].partition("</div>")[0] for name in ("starting", "running")
        )
        assert id in starting
        assert "refused: its pod can not be created: policy own: no" in starting
        assert id not in running
        assert "No running jobs." in running

    pages(test, dev=True)


def test_where_the_public_address_is_https_cookies_are_for_this_host_and_https(pages) -> None:
    async def test(served: Served) -> None:
        served.client.base_url = "https://queue.example.com"
        text = (await served.key("vision"))["Authorization"].removeprefix("Bearer ")
        form = await served.client.get("/login")
        answer = await served.client.post("/login", data={"token": token(form), "key": text, "next": "/jobs"})
        for cookie in (form.headers["set-cookie"], answer.headers["set-cookie"]):
            assert re.match(r"__Host-gpupool_(form|session)=", cookie)
            assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
            assert "Domain" not in cookie
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
        assert (await served.client.get("/jobs")).status_code == 200
        value = served.client.cookies[f"__Host-{SESSION}"]
        served.client.cookies.clear()
        planted = {"Cookie": f"{SESSION}={value}"}  # a neighbour under example.com can set one of this name
        assert (await served.client.get("/jobs", headers=planted)).status_code == 303

    pages(test, queue={"url": "https://queue.example.com"})


def test_no_header_makes_a_request_https(pages) -> None:
    async def test(served: Served) -> None:
        form = await served.client.get("/login", headers={"X-Forwarded-Proto": "https"})
        assert "Secure" not in form.headers["set-cookie"]
        assert "strict-transport-security" not in form.headers

    pages(test)


COMMAND = {"target_url": None, "request_json": None, "container_image": "a:1"}


def test_with_dev_a_link_signs_in_once_and_the_token_by_the_form(pages) -> None:
    async def test(served: Served) -> None:
        id = (await served.submit(**COMMAND))["id"]
        secret = local_token.read(served.app.state.context.token) or ""
        page = await served.client.get(f"/jobs/{id}")
        assert "Cancel this job" not in page.text
        assert f"/login?next=/jobs/{id}" in page.text
        form = {"token": token(await served.client.get("/login"))}
        assert (await served.client.post(f"/jobs/{id}/cancel", data=form)).status_code == 401

        now = served.clock().timestamp()
        seal = local_token.seal(secret, "link", 8021, 900, now)
        assert secret not in seal
        for wrong in ("x", secret, local_token.seal(secret, "call", 8021, 900, now), seal[:-1]):
            assert (await served.client.get(f"/login?once={wrong}")).status_code == 401
        answer = await served.client.get(f"/login?once={seal}&next=/jobs")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "Cancel this job" in (await served.client.get(f"/jobs/{id}")).text
        form = {"token": token(await served.client.get("/jobs"))}
        assert (await served.client.post("/logout", data=form)).status_code == 303
        again = await served.client.get(f"/login?once={seal}")
        assert again.status_code == 401
        assert "has been used" in again.text

        form = {"token": token(await served.client.get("/login")), "key": secret}
        answer = await served.client.post("/login", data=form)
        assert answer.status_code == 303
        assert secret not in answer.headers["set-cookie"]
        form = {"token": token(await served.client.get(f"/jobs/{id}"))}
        assert (await served.client.post(f"/jobs/{id}/cancel", data=form)).status_code == 303
        served.app.state.context.token.unlink()
        assert "Sign out" not in (await served.client.get("/jobs")).text, "it ends with the token"

    pages(test, dev=True)


def test_a_link_is_too_old_some_time(pages) -> None:
    async def test(served: Served) -> None:
        secret = local_token.read(served.app.state.context.token) or ""
        seal = local_token.seal(secret, "link", 8021, 900, served.clock().timestamp())
        served.clock.forward(901)
        assert (await served.client.get(f"/login?once={seal}")).status_code == 401

    pages(test, dev=True)


def test_without_dev_neither_link_nor_token_sign_in(pages) -> None:
    async def test(served: Served) -> None:
        secret = local_token.read(served.app.state.context.token) or ""
        seal = local_token.seal(secret, "link", 8021, 900, served.clock().timestamp())
        assert (await served.client.get(f"/login?once={seal}")).status_code == 401
        form = {"token": token(await served.client.get("/login")), "key": secret}
        assert (await served.client.post("/login", data=form)).status_code == 401

    pages(test)
