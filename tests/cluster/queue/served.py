"""An environment on a cluster and the queue's real processes in front of it, as a test uses them."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import yaml
from psycopg.rows import dict_row

from gpupool.client import Client
from gpupool.environment import shipped
from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.pods import LAUNCHER_USER
from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.live.cluster.kube_api import ApiError
from gpupool.local.control_plane import ControlPlane
from gpupool.local.ports import free_port
from gpupool.queue.kubernetes.job_manifest import manifest
from gpupool.queue.records import Job, JobState, Level
from tests.cluster.kube import Kube

Object = dict[str, Any]
DATABASE = "0190b0f0-0000-4000-8000-0000000000db"
"""The id of a database."""
PATIENCE_S = 120.0
"""Pods start within seconds, and within several times that on a busy machine."""


def apply(kube: Kube, plan: Plan) -> None:
    """What `gpupool up` sends, without its checks; returns once quotas and policies are enforced."""
    for one in generate(plan):
        kube.api.apply(one.body, "gpupool", force=True)
    tenant = plan.tenants[0].namespace
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": tenant},
        "spec": {"containers": [{"name": "probe", "image": "probe"}]},
    }

    def enforced() -> bool:
        answer = _refusal(
            lambda: kube.api.request("POST", f"/api/v1/namespaces/{tenant}/pods", {"dryRun": "All"}, pod)
        )
        return "is not pinned" in answer

    kube.wait("policies are enforced", enforced)


def _refusal(request: Callable[[], object]) -> str:
    try:
        request()
    except ApiError as error:
        return str(error)
    return ""


def a_job(plan: Plan, tenant: str = "vision", number: int = 2, **request: Any) -> Object:
    """The Job of an attempt over two nodes, as the launcher makes it."""
    attempt = Job(
        id=f"0190b0f0-0000-7000-8000-00000000a{number:03}", tenant=tenant, project=None, user="ada",
        name="train", state=JobState.SCHEDULED, version=1, attempt=1, failures=0, disruptions=0, retries=0,
        priority="low", level=Level.LOW, isolation="shared", gpu_count=8, preemptible=True, preempts=False,
        timeout_s=600, budget_limit_micro=None, offers=(), plan_hash="", enqueued_at=datetime.now(UTC),
        request={"container_image": "busybox:1.37", "container_command": ["sleep", "60"], **request},
        pool="training", resource="nvidia.com/gpu", capacity_type="on-demand", placement=((0, 4), (1, 4)),
    )  # fmt: skip
    found = next(one for one in plan.tenants if one.name == tenant)
    return copy.deepcopy(manifest(attempt, plan, found, database=DATABASE))


def simulated(spec: Object) -> Object:
    """The same environment as the queue of a cloud has it: its pods do not ask to be run as processes, so
    that KWOK plays them; each ends well after three seconds."""
    cluster = {"platform": "eks", "name": "queue", "region": "us-east-1", "kubeContext": "queue"}
    return {**spec, "cluster": cluster, "karpenter": {"nodeRole": "queue"}}


def gpupool(arguments: list[str]) -> list[str]:
    """The command line of this gpupool."""
    return shipped.command("gpupool.cli.main", *arguments)


class Process:
    """`gpupool serve` with some roles, in `folder`; it can be killed and started again. `command` is what
    runs it with arguments: as a process of this gpupool unless it is given."""

    def __init__(
        self,
        arguments: Sequence[str],
        variables: dict[str, str],
        log: Path,
        *,
        command: Callable[[list[str]], list[str]] = gpupool,
        folder: Path | None = None,
    ) -> None:
        self.port = free_port()
        self._command = command(["serve", *arguments, "--port", str(self.port)])
        self._variables = {**os.environ, **shipped.variables(), **variables}
        self._folder = folder
        self.log = log
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        with self.log.open("ab") as stream:
            self._running = subprocess.Popen(
                self._command, env=self._variables, stdout=stream, stderr=stream, cwd=self._folder
            )

    def until_ready(self) -> None:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                if httpx2.get(f"{self.address}/readyz").status_code == 200:
                    return
            except httpx2.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError(self.log.read_text()[-3000:])

    def kill(self) -> None:
        """At once, as a node's failure would."""
        if self._running is not None:
            self._running.kill()
            self._running.wait()
            self._running = None

    def stop(self) -> None:
        if self._running is not None:
            self._running.terminate()
            try:
                self._running.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
            self._running = None


class Queue:
    """The queue of one environment file on one cluster."""

    def __init__(self, kube: Kube, plane: ControlPlane, spec: Object, database: str, folder: Path) -> None:
        self.kube, self.plane, self.database = kube, plane, database
        self.folder = folder
        self.file = folder / f"{spec['metadata']['name']}.yaml"
        self.spec = spec
        self.kubeconfig = plane.kubeconfig
        """That of the queue's processes."""
        self.write()
        self.processes: list[Process] = []

    def write(self) -> None:
        """The environment file from `spec`; the queue reads it again within some seconds."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(self.spec, sort_keys=False), encoding="utf-8")
        fresh.rename(self.file)

    @property
    def plan(self) -> Plan:
        return read_plan(str(self.file))

    def plan_hash(self) -> str:
        """Of the Plan that the queue last said it works by."""
        said = [
            json.loads(line) for line in self.processes[0].log.read_text().splitlines() if line[:1] == "{"
        ]
        return str([one["plan"] for one in said if "plan" in one][-1])

    def process(self, *roles: str) -> Process:
        """One process with these roles (default: all), as the launcher's account."""
        given = [part for role in roles for part in ("--role", role)]
        cluster = ["--kubeconfig", str(self.kubeconfig), "--as", LAUNCHER_USER]
        log = self.folder / f"serve-{len(self.processes)}.log"
        variables = {"GPUPOOL_DATABASE_URL": self.database}
        made = Process([str(self.file), "--dev", *given, *cluster], variables, log)
        self.processes.append(made)
        made.start()
        return made

    def stop(self) -> None:
        for process in self.processes:
            process.stop()

    def client(self, tenant: str = "vision") -> Client:
        return Client(self.processes[0].address, tenant=tenant)

    def rows(self, statement: str, *values: Any) -> list[Object]:
        with psycopg.connect(self.database, row_factory=dict_row) as connection:
            return connection.execute(statement, values).fetchall()  # type: ignore[arg-type]

    def logs(self) -> str:
        return "\n".join(
            f"--- {process.log}\n{process.log.read_text()[-3000:]}" for process in self.processes
        )

    def until(self, what: str, check: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
        """What `check` gives once it is true."""
        end = time.monotonic() + seconds
        while True:
            found = check()
            if found:
                return found
            if time.monotonic() > end:
                raise AssertionError(
                    f"after {seconds:.0f} s still not: {what}\n{self.kube.summary()}\n{self.logs()}"
                )
            time.sleep(0.1)


@contextlib.contextmanager
def serving(
    kube: Kube, plane: ControlPlane, spec: Object, database: str, folder: Path, *, simulate: bool = False
) -> Iterator[Queue]:
    """The queue of an environment that is applied: ready, every role in one process, and nothing left of it
    afterwards. `simulate`: its pods are KWOK's, which end after three seconds."""
    kube.wipe()
    queue = Queue(kube, plane, spec, database, folder)
    apply(kube, queue.plan)
    if simulate:
        queue.spec = simulated(spec)
        queue.write()
    try:
        queue.process().until_ready()
        yield queue
    finally:
        queue.stop()
        kube.wipe()
