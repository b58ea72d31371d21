"""`gpupool serve`: the roles of the queue in one process, or one role each in several.

It puts the parts together and takes them down in order; what a part does is in its own module. It must not
import what applies pools to clusters.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from gpupool.environment.plan.pods import API_USER
from gpupool.findings import GpupoolError
from gpupool.live.cluster.async_api import AsyncKubeApi
from gpupool.queue.api.app import create_app
from gpupool.queue.api.token_review import PodTokens
from gpupool.queue.events import bus_of
from gpupool.queue.events.envelope import envelope
from gpupool.queue.http_server import answer, listen_on
from gpupool.queue.kubernetes.admission import Admission
from gpupool.queue.kubernetes.cluster import KubernetesCluster
from gpupool.queue.log_lines import count_lost, take_streams
from gpupool.queue.measures import Measures
from gpupool.queue.plan_source import PlanSource
from gpupool.queue.records import JobEvent, new_id
from gpupool.queue.roles.alerts import PASSWORD, WEBHOOK, AlertSender, Channels
from gpupool.queue.roles.callbacks import Callbacks
from gpupool.queue.roles.dispatcher import Dispatcher
from gpupool.queue.roles.echo import echo
from gpupool.queue.roles.executor import Executor
from gpupool.queue.roles.http_job import HttpJobs
from gpupool.queue.roles.idle import IdleWatch
from gpupool.queue.roles.janitor import Janitor
from gpupool.queue.roles.launcher import Launcher
from gpupool.queue.roles.leader import Leadership, utc_now
from gpupool.queue.roles.loop import late, repeat
from gpupool.queue.roles.offering import Offering
from gpupool.queue.roles.plan_in_force import Following
from gpupool.queue.roles.queue_health import QueueHealth
from gpupool.queue.roles.relay import Relay
from gpupool.queue.store import identity
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.migrate import migrate
from gpupool.queue.store.rights import role_for
from gpupool.queue.store.wakeup import DECIDED, ENDED, EVERY, Bell, listen
from gpupool.queue.web.site import add_pages

log = structlog.get_logger()

ROLES = ("api", "dispatcher", "relay", "janitor", "executor")
METRICS_KEY = "GPUPOOL_METRICS_KEY"
"""Environment variable with the key by which Prometheus may read the metrics."""
_SHORTEST_KEY = 32
LEASE_S = 5.0
"""A leader that dies is followed within so long and one interval."""
COLLECTED = (5_000, 50, 20)
"""New objects, and younger collections, between two looks for cycles: ten times as many objects stop
everything for 20 to 40 ms, and at Python's own 700 a sixth of the time goes into it."""
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How `gpupool serve` was called."""

    environment: Path
    folder: Path
    """Where an embedded PostgreSQL keeps its data."""
    roles: Collection[str] = ROLES
    host: str = "127.0.0.1"
    port: int = 8021
    database: str | None = None
    """URL; None: an embedded PostgreSQL."""
    nats: str | None = None
    """Instead of queue.nats of the environment file."""
    dev: bool = False
    token: Path | None = None
    """The file with the token that commands need, with `dev`."""
    echo: str | None = None
    """An origin that this process answers itself, with `dev`."""
    kubeconfig: Path | None = None
    """The cluster that container jobs run on, and whose pods' tokens are accepted."""
    acting_as: str | None = None
    """A user that the kubeconfig's may impersonate."""
    in_cluster: bool = False
    """The cluster is the one that this process runs in."""
    admission: Admission | None = None
    """Judges container jobs when they are submitted; None: nothing does."""

    @property
    def on_cluster(self) -> bool:
        return self.in_cluster or self.kubeconfig is not None


def configure_logging() -> None:
    """One JSON object a line; on a terminal, lines for people. Lines that can't be written are counted."""
    take_streams()
    people = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer(colors=False) if people else structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


async def serve(options: ServeOptions, ready: Callable[[str], None] = lambda _: None) -> None:
    """Run until SIGTERM or SIGINT. `ready` gets the address once the roles run. Raises GpupoolError."""
    if options.dev and options.host not in LOOPBACK:
        raise GpupoolError(
            f"--dev reads without credentials, so that it listens on loopback alone, not on {options.host}"
        )
    if options.echo and not options.dev:
        raise GpupoolError("--echo goes with --dev only")
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    source = PlanSource(options.environment)
    gc.collect()
    gc.freeze()  # modules and the Plan stay: looking through them again and again would stop requests
    gc.set_threshold(*COLLECTED)
    async with contextlib.AsyncExitStack() as stack:
        url = options.database or await _embedded(stack, options.folder)
        await asyncio.to_thread(migrate, url)
        role = await asyncio.to_thread(role_for, url, options.roles)
        db = await stack.enter_async_context(Database.open(url, role=role))
        await _run(options, source, db, url, stack, stopped, ready)


async def _run(
    options: ServeOptions,
    source: PlanSource,
    db: Database,
    url: str,
    stack: contextlib.AsyncExitStack,
    stopped: asyncio.Event,
    ready: Callable[[str], None],
) -> None:
    health = QueueHealth(db)
    await health.read()
    holder = f"{socket.gethostname()}-{os.getpid()}-{new_id()[-6:]}"
    wakes = {role: asyncio.Event() for role in EVERY}

    def wake(roles: Collection[str]) -> None:
        for role in wakes.keys() & roles:
            wakes[role].set()

    def leads(role: str) -> Leadership:
        leadership = Leadership(db, role, holder, LEASE_S)
        measures.leads.labels(role).set_function(lambda: float(leadership.epoch is not None))
        return leadership

    following = Following(db, source)

    async def reload() -> bool:
        if await following.step():
            wake(EVERY)
        if options.admission is not None and "api" in options.roles:
            await options.admission.verdicts(source.current)  # now, so that no submission waits for it
        await health.read()
        return False

    bell = Bell(db, wake)
    ended = functools.partial(bell.ring, ENDED)
    measures = Measures(CollectorRegistry())
    count_lost(measures.registry)
    work: list[Coroutine[None, None, None]] = [
        repeat("plan", reload, 2.0, asyncio.Event()),
        listen(url, wake, bell.name),
    ]
    if "dispatcher" in options.roles:
        decided = functools.partial(bell.ring, DECIDED)
        dispatcher = Dispatcher(
            db,
            leads("dispatcher"),
            source.supply,
            decided=decided,
            offering=Offering(db, source.present, holder, utc_now, options.admission),
            measures=measures,
            rests=health.keeps_off,
        )
        work.append(dispatcher.run(wakes["dispatcher"]))
    if "janitor" in options.roles:
        janitor = Janitor(db, leads("janitor"), lambda: source.plan().queue.logs_keep_for_s)
        alerts = AlertSender(db, leads("alerts"), source.plan, lambda: _channels(source), measures=measures)
        idle = IdleWatch(db, leads("idle"), source.plan, measures, lambda: _channels(source).any)
        work += [role.run(asyncio.Event()) for role in (janitor, alerts, idle)]
    if "relay" in options.roles:
        settings = source.plan().queue
        bus = bus_of(options.nats or settings.nats_url, settings.event_prefix)
        stack.push_async_callback(bus.close)
        relay = Relay(db, leads("relay"), bus, lambda event: _envelope(source, event), measures)
        work.append(relay.run(wakes["relay"]))
    if "executor" in options.roles:
        hosts = await _echo(options, source, stack)
        http = HttpJobs(source.targets, hosts)
        executor = Executor(
            db,
            holder,
            http,
            dev=options.dev,
            containers=not options.on_cluster,
            ended=ended,
            measures=measures,
            log_bytes=lambda: source.plan().queue.logs_keep_mib * 2**20,
        )
        work += [
            executor.run(wakes["executor"]),
            Callbacks(db, leads("callbacks"), http, measures=measures).run(asyncio.Event()),
        ]
        if not (options.on_cluster and health.keeps_off()):
            await identity.forget_trouble(db)  # that of a process before this one, which finds its own
            await health.read()
        if options.on_cluster:
            api = await stack.enter_async_context(AsyncKubeApi.connect(options.kubeconfig, options.acting_as))
            cluster = KubernetesCluster(api)
            launcher = Launcher(
                db, leads("launcher"), cluster, source.present, ended=ended, measures=measures
            )
            work.append(launcher.run(wakes["launcher"]))
    app = _app(options, source, db, measures, await _pod_tokens(options, stack), health)
    listening, address = listen_on(options.host, options.port)
    stack.enter_context(listening)
    work.append(answer(app, listening, bell))
    if "api" not in options.roles:
        address += ", with /healthz, /readyz and /metrics alone"
    tasks = [asyncio.create_task(one) for one in work]
    stopping = asyncio.create_task(stopped.wait())
    try:
        log.info("serve.ready", roles=sorted(options.roles), holder=holder, plan=source.current.hash)
        ready(address)
        await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        stopping.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(stopping, *tasks, return_exceptions=True)
        log.info("serve.stopped", holder=holder)


def _app(
    options: ServeOptions,
    source: PlanSource,
    db: Database,
    measures: Measures,
    pods: PodTokens | None,
    health: QueueHealth,
) -> FastAPI:
    """The API and the pages, or without that role the checks alone."""
    loops = set(options.roles) - {"api"}
    if "executor" in loops and options.on_cluster:
        loops.add("launcher")
    app = create_app(
        source.present,
        db,
        dev=options.dev,
        token=options.token,
        metrics_key=_metrics_key(),
        pods=pods,
        admission=options.admission,
        registry=measures.registry,
        late=lambda: late(loops),
        trouble=health.present,
        needs_cluster="launcher" in loops,
        plan_state=source.state,
        checks_alone="api" not in options.roles,
    )
    if "api" in options.roles:
        add_pages(app)
    return app


def _metrics_key() -> str | None:
    """The key of queue.metricsKeySecretRef. Raises GpupoolError for one that could be guessed."""
    key = os.environ.get(METRICS_KEY)
    if key is not None and not (key.isascii() and key.isprintable() and len(key) >= _SHORTEST_KEY):
        raise GpupoolError(
            f"{METRICS_KEY}: a key of {len(key)} characters; make one of {_SHORTEST_KEY} or more, for "
            "example with: openssl rand -hex 32"
        )
    return key


async def _pod_tokens(options: ServeOptions, stack: contextlib.AsyncExitStack) -> PodTokens | None:
    """By the API server, which the API asks as an account of its own where it may impersonate."""
    if "api" not in options.roles or not options.on_cluster:
        return None
    user = API_USER if options.acting_as else None
    api = await stack.enter_async_context(AsyncKubeApi.connect(options.kubeconfig, user))
    return PodTokens(api.request_by_present_file)


async def _embedded(stack: contextlib.AsyncExitStack, folder: Path) -> str:
    """The URL of a PostgreSQL of our own, kept up and stopped with the service."""
    server = Embedded(folder)
    url = await asyncio.to_thread(server.start)
    stack.push_async_callback(asyncio.to_thread, server.stop)

    async def revive() -> bool:
        await asyncio.to_thread(server.revive)
        return False

    stack.callback(asyncio.create_task(repeat("postgres", revive, 2.0, asyncio.Event())).cancel)
    return url


async def _echo(
    options: ServeOptions, source: PlanSource, stack: contextlib.AsyncExitStack
) -> dict[str, tuple[str, int]]:
    if not options.echo:
        return {}
    if options.echo not in source.targets():
        raise GpupoolError(f"--echo {options.echo} is not among queue.targets of {options.environment}")
    port = await stack.enter_async_context(echo())
    return {urlsplit(options.echo).hostname or "": ("127.0.0.1", port)}


def _envelope(source: PlanSource, event: JobEvent) -> dict[str, Any]:
    plan = source.plan()
    return envelope(plan.environment, plan.queue.event_prefix, event)


def _channels(source: PlanSource) -> Channels:
    smtp = source.plan().queue.smtp
    return Channels(os.environ.get(WEBHOOK) or None, smtp, os.environ.get(PASSWORD) or None)
