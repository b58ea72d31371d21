"""`gpupool serve`: the roles of the queue in one process, or one role each in several.

It puts the parts together and takes them down in order; what a part does is in its own module. It must not
import what applies pools to clusters.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import structlog
import uvicorn
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send

from gpupool.cluster.async_api import AsyncKubeApi
from gpupool.cluster.kube_api import KubeApi
from gpupool.findings import GpupoolError
from gpupool.queue.api.app import create_app
from gpupool.queue.api.token_review import PodTokens, asker
from gpupool.queue.events.bus import Bus, NatsBus, NoBus
from gpupool.queue.events.envelope import Message, message
from gpupool.queue.kubernetes.cluster import KubernetesCluster
from gpupool.queue.measures import Measures
from gpupool.queue.plan_source import PlanSource
from gpupool.queue.records import JobEvent, new_id
from gpupool.queue.roles.alerts import PASSWORD, WEBHOOK, Alerts, Channels
from gpupool.queue.roles.callbacks import Callbacks
from gpupool.queue.roles.dispatcher import Dispatcher
from gpupool.queue.roles.echo import Echo
from gpupool.queue.roles.executor import Executor
from gpupool.queue.roles.http_job import HttpJobs
from gpupool.queue.roles.idle import Idle
from gpupool.queue.roles.janitor import Janitor, Kept
from gpupool.queue.roles.launcher import Launcher
from gpupool.queue.roles.leader import Leadership
from gpupool.queue.roles.loop import late, repeat
from gpupool.queue.roles.policies import mirror
from gpupool.queue.roles.relay import Relay
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.migrate import migrate
from gpupool.queue.store.wakeup import Bell, listen
from gpupool.queue.web.site import add_pages

log = structlog.get_logger()

ROLES = ("api", "dispatcher", "relay", "janitor", "executor")
LEASE_S = 5.0
"""A leader that dies is followed within so long and one interval."""
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Options:
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
    echo: str | None = None
    """An origin that this process answers itself, with `dev`."""
    kubeconfig: Path | None = None
    """The cluster that container jobs run on."""
    acting_as: str | None = None
    """A user that the kubeconfig's may impersonate."""
    in_cluster: bool = False
    """The cluster is the one that this process runs in."""

    @property
    def has_cluster(self) -> bool:
        """Whether container jobs run on a cluster, and tokens of its pods are accepted."""
        return self.in_cluster or self.kubeconfig is not None


def configure_logging() -> None:
    """One JSON object a line; on a terminal, lines for people."""
    people = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer() if people else structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


async def serve(options: Options, ready: Callable[[str], None] = lambda _: None) -> None:
    """Run until SIGTERM or SIGINT. `ready` gets the address once the roles run. Raises GpupoolError."""
    if options.dev and options.host not in LOOPBACK:
        raise GpupoolError(
            f"--dev asks for no credentials, so that it listens on this machine alone, not on {options.host}"
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
    async with contextlib.AsyncExitStack() as stack:
        url = options.database or await _embedded(stack, options.folder)
        await asyncio.to_thread(migrate, url)
        db = await stack.enter_async_context(Database.open(url))
        await mirror(db, source.current)
        await _run(options, source, db, url, stack, stopped, ready)


async def _run(
    options: Options,
    source: PlanSource,
    db: Database,
    url: str,
    stack: contextlib.AsyncExitStack,
    stopped: asyncio.Event,
    ready: Callable[[str], None],
) -> None:
    holder = f"{socket.gethostname()}-{os.getpid()}-{new_id()[-6:]}"
    wakes: list[asyncio.Event] = []

    def wake() -> asyncio.Event:
        wakes.append(asyncio.Event())
        return wakes[-1]

    def all_awake() -> None:
        for event in wakes:
            event.set()

    def leads(role: str) -> Leadership:
        return Leadership(db, role, holder, LEASE_S)

    async def reload() -> bool:
        if source.refresh():
            await mirror(db, source.current)
            all_awake()
        return False

    bell = Bell(db, all_awake)
    measures = Measures(CollectorRegistry())
    work: list[Coroutine[None, None, None]] = [
        repeat("plan", reload, 2.0, asyncio.Event()),
        listen(url, all_awake),
    ]
    if "dispatcher" in options.roles:
        dispatcher = Dispatcher(db, leads("dispatcher"), source.supply, decided=bell.ring, measures=measures)
        work.append(dispatcher.run(wake()))
    if "janitor" in options.roles:
        work.append(Janitor(db, leads("janitor"), lambda: _kept(source)).run(wake()))
        alerts = Alerts(db, leads("alerts"), source.plan, lambda: _channels(source))
        idle = Idle(db, leads("idle"), source.plan, measures, lambda: _channels(source).any)
        work += [alerts.run(asyncio.Event()), idle.run(asyncio.Event())]
    if "relay" in options.roles:
        bus = await _bus(options, source, stack)
        work.append(Relay(db, leads("relay"), bus, lambda event: _message(source, event)).run(wake()))
    if "executor" in options.roles:
        hosts = await _echo(options, source, stack)
        http = HttpJobs(source.targets, hosts)
        executor = Executor(
            db,
            holder,
            http,
            dev=options.dev,
            containers=not options.has_cluster,
            ended=bell.ring,
            measures=measures,
            log_bytes=lambda: source.plan().queue.logs_keep_mib * 2**20,
        )
        work += [executor.run(wake()), Callbacks(db, leads("callbacks"), http).run(wake())]
        if options.has_cluster:
            api = await stack.enter_async_context(AsyncKubeApi.connect(options.kubeconfig, options.acting_as))
            cluster = KubernetesCluster(api)
            launcher = Launcher(
                db, leads("launcher"), cluster, source.present, ended=bell.ring, measures=measures
            )
            work.append(launcher.run(wake()))
    server, listening, address = _server(options, source, db, bell, measures)
    stack.enter_context(listening)
    work.append(server.serve([listening]))
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


class _Server(uvicorn.Server):
    """Without handlers of its own for signals: the service stops all its parts in order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Rings:
    """The API, and a ring after each request that may have changed a job."""

    def __init__(self, app: ASGIApp, bell: Bell) -> None:
        self._app = app
        self._bell = bell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            self._bell.ring()


def _server(
    options: Options, source: PlanSource, db: Database, bell: Bell, measures: Measures
) -> tuple[_Server, socket.socket, str]:
    """The API, or without that role its checks alone; where it listens; and its address."""
    others = set(options.roles) - {"api"}
    api = "api" in options.roles
    app = create_app(
        source.plan,
        db,
        dev=options.dev,
        pods=PodTokens(asker(KubeApi.connect(options.kubeconfig))) if options.has_cluster else None,
        registry=measures.registry,
        late=lambda: late(others),
        checks_alone=not api,
    )
    if api:
        add_pages(app)
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listening = socket.create_server((options.host, options.port), family=family, backlog=2048)
    except OSError as error:
        raise GpupoolError(
            f"can't listen on {options.host}, port {options.port}: {error.strerror}; "
            "give another with --host or --port"
        ) from None
    config = uvicorn.Config(
        _Rings(app, bell),
        log_config=None,
        lifespan="off",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    host = f"[{options.host}]" if ":" in options.host else options.host
    note = "" if api else ", with /healthz, /readyz and /metrics alone"
    return _Server(config), listening, f"http://{host}:{options.port}{note}"


async def _embedded(stack: contextlib.AsyncExitStack, folder: Path) -> str:
    """The URL of a PostgreSQL of our own, stopped with the service."""
    server = Embedded(folder)
    url = await asyncio.to_thread(server.start)
    stack.push_async_callback(asyncio.to_thread, server.stop)
    return url


async def _bus(options: Options, source: PlanSource, stack: contextlib.AsyncExitStack) -> Bus:
    url = options.nats or source.plan().queue.nats_url
    if not url:
        return NoBus()
    bus = NatsBus(url, source.plan().queue.event_prefix)
    stack.push_async_callback(bus.close)
    return bus


async def _echo(
    options: Options, source: PlanSource, stack: contextlib.AsyncExitStack
) -> dict[str, tuple[str, int]]:
    if not options.echo:
        return {}
    if options.echo not in source.targets():
        raise GpupoolError(f"--echo {options.echo} is not among queue.targets of {options.environment}")
    echo = await stack.enter_async_context(Echo())
    return {urlsplit(options.echo).hostname or "": ("127.0.0.1", echo.port)}


def _message(source: PlanSource, event: JobEvent) -> Message:
    plan = source.plan()
    return message(plan.environment, plan.queue.event_prefix, event)


def _channels(source: PlanSource) -> Channels:
    smtp = source.plan().queue.smtp
    return Channels(os.environ.get(WEBHOOK) or None, smtp, os.environ.get(PASSWORD) or None)


def _kept(source: PlanSource) -> Kept:
    return Kept(logs=timedelta(seconds=source.plan().queue.logs_keep_for_s))
