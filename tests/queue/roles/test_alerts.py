"""Alerts go to a webhook and a mail server of this process: once, and again until they are taken."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from gpupool.environment.plan.queue import Smtp
from gpupool.environment.spec.tenants import Budget
from gpupool.local import keys
from gpupool.queue.records import MICRO, Outcome
from gpupool.queue.roles import alerts as roles_alerts
from gpupool.queue.roles.alerts import AlertSender, Channels, crossed
from gpupool.queue.store import attempts, spending
from gpupool.queue.store.database import Database
from gpupool.queue.store.spending import Spent
from tests.queue.acting import As
from tests.queue.roles.running import SOURCE, Queue, opened, webhook


def _plan(usd: float, *alert_at: float):
    """The local environment where vision has a budget."""
    plan = SOURCE.plan()
    budget = Budget(usd=usd, alertAt=list(alert_at))
    tenants = tuple(
        replace(tenant, budget=budget, projects=()) if tenant.name == "vision" else tenant
        for tenant in plan.tenants
    )
    return replace(plan, tenants=tenants)


def test_each_threshold_that_is_reached_counts() -> None:
    plan = _plan(100, 0.5, 0.8, 1.0)
    found = [
        (one.name, one.threshold) for one in crossed(plan, [Spent("vision", date(2026, 11, 1), 85 * MICRO)])
    ]
    assert found == [("vision", 50), ("vision", 80)]


def test_an_alert_is_sent_once_and_retried_until_the_webhook_takes_it(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        async with webhook([500, 200]) as (url, texts):
            queue = Queue(db)
            plan = _plan(0.000001, 0.8)
            alerts = AlertSender(
                As(db, "dispatcher"), queue.leads("alerts"), lambda: plan, lambda: Channels(url), queue.now
            )
            await alerts.step()
            assert texts == []
            id = await queue.submit(**_second())
            await queue.ended(id)
            await alerts.step()
            await alerts.step()
            assert len(texts) == 1
            queue.ahead = timedelta(minutes=2)
            await alerts.step()
            queue.ahead = timedelta(hours=3)
            await alerts.step()
        assert len(texts) == 2
        assert texts[0] == texts[1]
        assert "local: tenant vision has spent" in texts[0]
        assert "(80 % reached)" in texts[0]

    database(scenario)


def test_an_alert_is_sent_by_one_of_two_who_believe_that_they_lead(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        async with webhook(slow_s=0.5) as (url, texts):
            queue = Queue(db)
            plan = _plan(0.000001, 0.8)
            await queue.ended(await queue.submit(**_second()))
            both = [
                AlertSender(
                    As(db, "dispatcher"), queue.leads(role), lambda: plan, lambda: Channels(url), queue.now
                )
                for role in ("alerts", "alerts of another")
            ]
            await asyncio.gather(*(alerts.step() for alerts in both))
        assert len(texts) == 1

    database(scenario)


def test_the_pause_begins_when_a_slow_channel_has_answered(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        async with webhook([500]) as (url, texts):
            queue = Queue(db)
            plan = _plan(0.000001, 0.8)
            await queue.ended(await queue.submit(**_second()))

            def now() -> datetime:
                return queue.now() + timedelta(minutes=4) * len(texts)

            await AlertSender(
                As(db, "dispatcher"), queue.leads("alerts"), lambda: plan, lambda: Channels(url), now
            ).step()
            assert len(texts) == 1
            assert await spending.take_alert(db, now(), now()) is None

    database(scenario)


def test_what_is_settled_after_its_period_alerts_for_that_period_once(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        async with webhook() as (url, texts):
            queue = Queue(db)
            plan = _plan(0.000001, 0.8)
            alerts = AlertSender(
                As(db, "dispatcher"), queue.leads("alerts"), lambda: plan, lambda: Channels(url), queue.now
            )
            id = await queue.submit()
            await queue.dispatcher.step()
            began = queue.now()
            await attempts.take(db, "executor", 1, 1e9)
            assert await attempts.record_start(db, id, 1, began)
            queue.ahead = timedelta(days=40)
            await alerts.step()
            assert texts == []
            await attempts.finish(db, id, 1, Outcome("succeeded"), queue.now(), (0, 0))
            for hours in (0, 1, 48):
                queue.ahead = timedelta(days=40, hours=hours)
                await alerts.step()
        (text,) = texts
        assert f"in the period from {began:%Y-%m}-01 " in text

    database(scenario)


def test_a_channel_that_took_an_alert_does_not_get_it_again_when_another_fails(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        async with webhook() as (url, texts):
            away = Smtp("127.0.0.1", 9, "gpu@example.com", ("ml@example.com",), "gpu@example.com", None)
            channels = Channels(url, away)
            queue = Queue(db)
            plan = _plan(0.000001, 0.8)
            alerts = AlertSender(
                As(db, "dispatcher"), queue.leads("alerts"), lambda: plan, lambda: channels, queue.now
            )
            await queue.ended(await queue.submit(**_second()))
            for hours in (0, 1, 2):
                queue.ahead = timedelta(hours=hours)
                await alerts.step()
        assert len(texts) == 1
        due = await spending.take_alert(db, queue.now() + timedelta(hours=2), queue.now())
        assert due
        assert (due.taken, due.tries) == (["webhook"], 3)

    database(scenario)


def _second() -> dict[str, object]:
    return {"request": {"container_image": "a:1", "container_command": ["sleep", "0.3"]}}


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "TLS from the start"])
def test_an_alert_goes_by_mail(
    database, encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = _trusted(tmp_path, monkeypatch) if encrypted else None

    async def scenario(db: Database) -> None:
        await opened(db)
        received: list[str] = []

        async def smtp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 here\r\n")
            while line := await reader.readline():
                received.append(line.decode().strip())
                if line.upper().startswith(b"DATA"):
                    writer.write(b"354 go on\r\n")
                    received.append((await reader.readuntil(b"\r\n.\r\n")).decode())
                writer.write(b"221 bye\r\n" if line.upper().startswith(b"QUIT") else b"250 ok\r\n")
                await writer.drain()
                if line.upper().startswith(b"QUIT"):
                    writer.close()
                    return

        server = await asyncio.start_server(smtp, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        if encrypted:
            monkeypatch.setattr(roles_alerts, "TLS_PORT", port)
        mail = Smtp("127.0.0.1", port, "gpu@example.com", ("ml@example.com",), "gpu@example.com", None)
        queue = Queue(db)
        plan = _plan(0.000001, 0.8)
        alerts = AlertSender(
            As(db, "dispatcher"), queue.leads("alerts"), lambda: plan, lambda: Channels(smtp=mail), queue.now
        )
        id = await queue.submit(**_second())
        await queue.ended(id)
        await alerts.step()
        server.close()
        text = "\n".join(received)
        assert "rcpt TO:<ml@example.com>" in text
        assert "Subject: local: tenant vision has spent" in text.replace("\r\n ", " ")

    database(scenario)


@pytest.mark.parametrize("offered", ["", "250-STARTTLS\r\n"], ids=["no STARTTLS", "STARTTLS without TLS"])
def test_no_password_goes_out_without_tls_however_it_came(database, offered: str) -> None:
    """The file names no Secret, and the variable is set all the same."""

    async def scenario(db: Database) -> None:
        await opened(db)
        received = b""

        async def smtp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal received
            writer.write(b"220 here\r\n")
            while line := await reader.readline():
                received += line
                if line.upper().startswith(b"EHLO"):
                    writer.write(f"250-here\r\n{offered}250 AUTH PLAIN LOGIN\r\n".encode())
                elif line.upper().startswith(b"STARTTLS"):
                    writer.write(b"220 go on\r\n")  # and then no TLS
                else:
                    writer.write(b"250 ok\r\n")
                await writer.drain()

        server = await asyncio.start_server(smtp, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        mail = Smtp("127.0.0.1", port, "gpu@example.com", ("ml@example.com",), "gpu@example.com", None)
        alert = spending.Alert("tenant", "vision", date(2026, 11, 1), 80, MICRO, MICRO, 0, [], None)
        failed = await asyncio.wait_for(
            roles_alerts.send(Channels(smtp=mail, password="hunter2"), "text", alert), 30
        )
        server.close()
        assert list(failed) == ["mail"]
        assert b"AUTH" not in received.upper()
        assert b"RCPT" not in received.upper()

    database(scenario)


def _trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's end with a certificate that this process trusts."""
    pair = [folder / "certificate.pem", folder / "key.pem"]
    for path, text in zip(pair, keys.kubelet_pair(), strict=True):
        path.write_text(text)
    monkeypatch.setenv("SSL_CERT_FILE", str(pair[0]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    return context
