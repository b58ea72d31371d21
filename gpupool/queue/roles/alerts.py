"""Alerts: on budgets once per threshold and period, on idle jobs (`idle`); to a Slack-compatible webhook and
by e-mail.

They are retried until they are sent. What is due is in the database, and is taken by one process at a time,
so that a restart neither forgets nor repeats one. The webhook's address and the mail password come from the
process' environment. It must not stop jobs: budgets do that.
"""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage

import aiohttp
import structlog

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.queue import Smtp
from gpupool.queue.domain.budget import usd
from gpupool.queue.measures import Measures
from gpupool.queue.records import MICRO
from gpupool.queue.roles.http_answers import failure_of, reached
from gpupool.queue.roles.leader import LeaderRole, utc_now
from gpupool.queue.store import spending
from gpupool.queue.store.spending import Alert, Crossed, Spent

log = structlog.get_logger()

WEBHOOK = "GPUPOOL_ALERTS_WEBHOOK"
"""Environment variable with the webhook's URL."""
PASSWORD = "GPUPOOL_SMTP_PASSWORD"  # noqa: S105 - the variable's name
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(hours=1)
TLS_PORT = 465
"""Where a mail server speaks TLS from the start (RFC 8314, 3.3)."""
SEND_S = 20.0
"""For an answer of the webhook, and for each of the mail server's."""
SENDING = timedelta(minutes=3)
"""Both channels have answered by then; who was killed meanwhile has sent nothing, or to one of them twice."""
LATE = timedelta(days=1)
"""A settlement is looked at for so long, where its period is over."""


@dataclass(frozen=True, slots=True)
class Channels:
    """Where alerts go."""

    webhook: str | None = None
    smtp: Smtp | None = None
    password: str | None = None

    @property
    def any(self) -> bool:
        return bool(self.webhook or self.smtp)


@dataclass
class AlertSender(LeaderRole):
    """Checks budget usage while it leads its role, and sends alerts that are due."""

    plan: Callable[[], Plan]
    channels: Callable[[], Channels]
    now: Callable[[], datetime] = utc_now
    measures: Measures | None = None

    interval_s = 15.0

    async def _act(self, _: int) -> bool:
        channels = self.channels()
        if not channels.any:
            return False
        now, plan = self.now(), self.plan()
        crossings = list(crossed(plan, await spending.spent(self.db, now, now - LATE)))
        if crossings:
            await spending.raise_alerts(self.db, crossings, now)
        # One after the other: while a channel takes its time, another process may come to lead.
        while (alert := await spending.take_alert(self.db, now, self.now() + SENDING)) is not None:
            taken = len(alert.taken)
            failed = await send(channels, f"{plan.environment}: {sentence(alert)}", alert)
            if self.measures:
                for channel in alert.taken[taken:]:
                    self.measures.alerts.labels(channel, "sent").inc()
                for channel in failed:
                    self.measures.alerts.labels(channel, "failed").inc()
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**alert.tries)
            for channel, error in failed.items():
                log.warning(
                    "alert.failed", name=alert.name, channel=channel, error=error, again_in=str(pause)
                )
            if not failed:
                log.info("alert.sent", name=alert.name, threshold=alert.threshold)
            tried = self.now()
            await spending.alert_tried(self.db, alert, tried, tried + pause if failed else None)
        return False


def crossed(plan: Plan, spent: Iterable[Spent]) -> Iterator[Crossed]:
    """Every threshold that a tenant or project has reached."""
    budgets = {tenant.name: ("tenant", tenant.budget) for tenant in plan.tenants}
    for tenant in plan.tenants:
        budgets |= {
            f"{tenant.name}/{project.name}": ("project", project.budget) for project in tenant.projects
        }
    for account in spent:
        scope, budget = budgets.get(account.name, ("", None))
        if budget is None:
            continue
        limit = round(budget.usd * MICRO)
        for share in budget.alert_at:
            if account.micro >= limit * share:
                percent = round(share * 100)
                yield Crossed(scope, account.name, account.period, percent, account.micro, limit)


def sentence(alert: Alert) -> str:
    """The alert for people."""
    return alert.text or (
        f"{alert.scope} {alert.name} has spent {usd(alert.spent_micro)} of {usd(alert.limit_micro)} "
        f"in the period from {alert.period:%Y-%m-%d} ({alert.threshold} % reached)"
    )


async def send(channels: Channels, text: str, alert: Alert) -> dict[str, str]:
    """Send to each channel that has not taken it; those that do so are added to `alert.taken`, the others are
    returned with the reason."""
    sending: dict[str, Awaitable[None]] = {}
    if channels.webhook and "webhook" not in alert.taken:
        sending["webhook"] = _post(channels.webhook, text)
    if channels.smtp and "mail" not in alert.taken:
        sending["mail"] = asyncio.to_thread(_mail, channels.smtp, channels.password, text)
    failed = {}
    for channel, attempt in sending.items():
        try:
            await attempt
        except (aiohttp.ClientError, OSError, smtplib.SMTPException, TimeoutError) as error:
            failed[channel] = _reason(error)
        else:
            alert.taken.append(channel)
    return failed


async def _post(webhook: str, text: str) -> None:
    timeout = aiohttp.ClientTimeout(SEND_S)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(webhook, json={"text": text}, allow_redirects=False) as answer,
    ):
        if failure_of(answer.status, answer.headers, utc_now()) is not None:
            raise aiohttp.ClientResponseError(answer.request_info, (), status=answer.status)


def _mail(smtp: Smtp, password: str | None, text: str) -> None:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = smtp.sender, ", ".join(smtp.to), text
    message.set_content(text)
    encrypted, context = smtp.port == TLS_PORT, ssl.create_default_context()
    with (
        smtplib.SMTP_SSL(smtp.host, smtp.port, timeout=SEND_S, context=context)
        if encrypted
        else smtplib.SMTP(smtp.host, smtp.port, timeout=SEND_S)
    ) as server:
        server.ehlo()
        if not encrypted and server.has_extn("starttls"):
            server.starttls(context=context)
            server.ehlo()
            encrypted = True
        if not encrypted and (password or smtp.password is not None):
            raise smtplib.SMTPException(f"{smtp.host} offers no STARTTLS, so the password is not sent")
        if password:
            server.login(smtp.user, password)
        server.send_message(message)


def _reason(error: BaseException) -> str:
    """Without the webhook's address, which is a secret."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"the webhook answered {error.status}"
    if isinstance(error, aiohttp.ClientError):
        said = "gave no whole answer" if reached(error) else "can't be reached"
        return f"the webhook {said} ({type(error).__name__})"
    return str(error) or type(error).__name__
