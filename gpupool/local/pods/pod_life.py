"""The life of one pod that runs locally, from its start on a node to the end of its object."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from gpupool.live.cluster.async_api import AsyncKubeApi
from gpupool.live.cluster.kube_api import STRATEGIC, ApiError, UnreachableError
from gpupool.live.cluster.local_layout import Layout
from gpupool.local.pods import command, status
from gpupool.local.pods.command import NotYetError, UnsupportedPod
from gpupool.local.pods.folders import make_passable
from gpupool.local.pods.output import PodOutput
from gpupool.local.pods.process import Process
from gpupool.local.watch import Object
from gpupool.programs import local_command

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS = 0.5
_LOOK_AGAIN_SECONDS = 2.0
_GRACE_SECONDS = 30
_DEADLINE = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
_CANNOT_RUN = 127


class Life:
    """One pod; `update` brings news of its object, `run` does the rest."""

    def __init__(self, api: AsyncKubeApi, data: Path, pod: Object) -> None:
        self._api = api
        self._data = data
        self._pod = pod
        self._uid = str(pod["metadata"]["uid"])
        self.namespace = str(pod["metadata"]["namespace"])
        self.name = str(pod["metadata"]["name"])
        self._folder = data / "pods" / self._uid
        self._commands = Layout(data).commands
        self._work = self._commands / "work" / self._uid
        self._changed = asyncio.Event()
        self._process: Process | None = None
        self._born = time.monotonic()
        self.gone = False
        """Whether the object is no longer there."""
        self.output: PodOutput | None = None
        """None as long as there was no process."""

    def update(self, pod: Object, gone: bool) -> None:
        """The object as it is now, or as it was last."""
        self._pod, self.gone = pod, gone
        self._changed.set()

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None:
            self._process.signal(signal.SIGKILL)

    async def run(self) -> None:
        """Everything, until the object is gone."""
        if self._folder.exists():
            self.output = PodOutput(self._folder / "log", finished=True)
        if self._pod["status"].get("phase") not in ("Succeeded", "Failed"):
            await self._write(await self._live())
        while not self.gone and not self._deleted:
            await self._pause()
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self._uid}}
        await self._insist(lambda: self._api.request("DELETE", self._path, None, options))
        while not self.gone:  # finalizers may hold it
            await self._pause()
        for folder in (self._work, self._folder):
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _live(self) -> Object:
        """Start the process, and stop it when that is wanted; the last status of the pod."""
        if self._folder.exists() or self._pod["status"].get("phase") == "Running":
            unknown = {"exitCode": 137, "reason": status.LOST, "message": "the pod runner was restarted"}
            return status.terminated(self._pod, 0, unknown)
        await self._write(status.waiting(self._pod, "ContainerCreating"))
        try:
            wanted = await self._prepare()
        except UnsupportedPod as error:
            return status.failed(self._pod, "NotSupportedLocally", str(error))
        if wanted is None:
            return self._ended_early()
        started = status.now()
        output = PodOutput(self._folder / "log")
        try:
            self._process = await Process.start(wanted, self._data, self._folder, self._work, output)
        except (OSError, ValueError) as error:
            message = f"{wanted.argv[0]}: {getattr(error, 'strerror', None) or error}"
            state = {
                "exitCode": _CANNOT_RUN,
                "reason": "StartError",
                "message": message,
                "startedAt": started,
            }
            output.finish()
            self.output = output
            return status.terminated(self._pod, 0, state)
        self.output = output
        image = self._pod["spec"]["containers"][0].get("image")
        _LOG.info("pod %s/%s: process %d instead of %s", self.namespace, self.name, self._process.pid, image)
        ended = asyncio.create_task(self._process.end(self._data, self._uid))
        ended.add_done_callback(lambda _: self._changed.set())
        await self._write(status.running(self._pod, self._process.pid, started))
        late = await self._supervise(self._process, ended)
        state = status.exit_state(ended.result(), started)
        return status.terminated(self._pod, self._process.pid, state, *(_DEADLINE if late else ()))

    async def _prepare(self) -> command.PodCommand | None:
        """What to run, once all that it refers to is there; None where the pod is to end before that."""
        local_command.make_folder(self._work)
        base = {**local_command.environment(self._work), "HOSTNAME": self.name}
        for claim in command.claims(self._pod):
            folder = self._commands / "volumes" / self.namespace / claim
            make_passable(folder.parent)
            local_command.make_folder(folder)
            base[command.volume_variable(claim)] = str(folder)
        while self._grace() is None:
            try:
                return await command.prepare(self._pod, base, self._read)
            except (NotYetError, ApiError, UnreachableError, OSError) as error:
                await self._write(status.waiting(self._pod, "CreateContainerConfigError", str(error)))
            await self._pause(time.monotonic() + _LOOK_AGAIN_SECONDS)
        return None

    def _ended_early(self) -> Object:
        if self._deleted or self.gone:
            return status.failed(self._pod, "Deleted", "the pod was deleted before its process was started")
        return status.failed(self._pod, *_DEADLINE)

    async def _supervise(self, process: Process, ended: asyncio.Task[int]) -> bool:
        """Wait for the end, asking for it where it is due; whether the pod's deadline was the reason."""
        granted, kill_at, late = math.inf, math.inf, False
        while not ended.done():
            grace = self._grace()
            if grace is not None and grace < granted:
                if granted == math.inf:
                    late = not self._deleted and not self.gone
                    process.signal(signal.SIGTERM)
                granted, kill_at = grace, min(kill_at, time.monotonic() + grace)
            if time.monotonic() >= kill_at:
                process.signal(signal.SIGKILL)
                kill_at = math.inf
            await self._pause(min(kill_at, self._deadline if granted == math.inf else math.inf))
        return late

    @property
    def _deleted(self) -> bool:
        return bool(self._pod["metadata"].get("deletionTimestamp"))

    @property
    def _deadline(self) -> float:
        return self._born + float(self._pod["spec"].get("activeDeadlineSeconds") or math.inf)

    def _grace(self) -> float | None:
        """Seconds that the process gets to end; None while it may continue."""
        if self.gone:
            return 0
        if self._deleted:
            return float(self._pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        if time.monotonic() >= self._deadline:
            return float(self._pod["spec"].get("terminationGracePeriodSeconds", _GRACE_SECONDS))
        return None

    async def _pause(self, until: float = math.inf) -> None:
        """Wait for news, at most until this moment of the monotonic clock."""
        left = None if until == math.inf else until - time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._changed.wait()
        self._changed.clear()

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    async def _read(self, resource: str, name: str) -> Object | None:
        try:
            return await self._api.request("GET", f"/api/v1/namespaces/{self.namespace}/{resource}/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _write(self, wanted: Object) -> None:
        body = {"metadata": {"uid": self._uid}, "status": wanted}
        path = f"{self._path}/status"
        await self._insist(lambda: self._api.request("PATCH", path, None, body, STRATEGIC))

    async def _insist(self, request: Callable[[], Awaitable[object]]) -> None:
        """Repeat a request until it succeeds, is refused for good, or the object is gone."""
        while not self.gone:
            try:
                await request()
                return
            except (ApiError, UnreachableError) as error:
                code = getattr(error, "status", 500)
                if code == 404:
                    return
                _LOG.warning("pod %s/%s: %s", self.namespace, self.name, error)
                if code < 500 and code not in (409, 429):
                    return
            await asyncio.sleep(_RETRY_SECONDS)
