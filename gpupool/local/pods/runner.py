"""Watch the pods that run locally, give each a life of its own, and clean up after a killed runner."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

from gpupool.environment.plan.pods import RUN_LOCALLY
from gpupool.live.cluster.async_api import AsyncKubeApi
from gpupool.live.cluster.local_layout import Layout
from gpupool.local.pods import process
from gpupool.local.pods.folders import make_passable
from gpupool.local.pods.pod_life import Life
from gpupool.local.watch import Object, follow

_LOG = logging.getLogger(__name__)
_PODS = "/api/v1/pods"
_SCHEDULED = {"fieldSelector": "spec.nodeName!="}


class Runner:
    """All pods of one control plane whose data folder is `data`."""

    def __init__(self, api: AsyncKubeApi, data: Path) -> None:
        self._api = api
        self._data = data
        self._lives: dict[str, Life] = {}
        """By the pod's UID."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, ready_file: Path) -> None:
        """Run pods for ever; makes `ready_file` once every pod has been seen."""
        folders, commands = self._data / "pods", Layout(self._data).commands
        folders.mkdir(exist_ok=True)
        for place in (commands, commands / "work", commands / "volumes"):
            make_passable(place)
        earlier = list(folders.iterdir())
        for folder in earlier:
            process.kill_recorded(self._data, folder)
        listed = asyncio.Event()
        following = follow(self._api, _PODS, {}, self._changed, listed, self._key, _SCHEDULED)
        follower = asyncio.create_task(following)
        await listed.wait()
        for folder in earlier:
            if folder.name not in self._lives:
                shutil.rmtree(commands / "work" / folder.name, ignore_errors=True)
                shutil.rmtree(folder, ignore_errors=True)
        ready_file.touch()
        await follower

    def find(self, namespace: str, name: str) -> Life | None:
        """The pod of that name, as long as its object is there."""
        for life in self._lives.values():
            if (life.namespace, life.name) == (namespace, name) and not life.gone:
                return life
        return None

    def _key(self, pod: Object) -> str | None:
        uid = str(pod["metadata"]["uid"])
        chosen = (pod["metadata"].get("annotations") or {}).get(RUN_LOCALLY) == "true"
        return uid if chosen or uid in self._lives else None

    def _changed(self, event: str, pod: Object, _: Object | None) -> None:
        uid = pod["metadata"]["uid"]
        life = self._lives.get(uid)
        if life is not None:
            life.update(pod, gone=event == "DELETED")
        elif event != "DELETED":
            life = self._lives[uid] = Life(self._api, self._data, pod)
            task = asyncio.create_task(self._live(uid, life))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _live(self, uid: str, life: Life) -> None:
        try:
            await life.run()
        except Exception:
            _LOG.exception("pod %s/%s", life.namespace, life.name)
        finally:  # reached too when the runner is asked to end, and all tasks are cancelled
            life.kill()
            del self._lives[uid]
