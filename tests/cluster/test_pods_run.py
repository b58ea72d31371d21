"""Pods with annotation gpupool.dev/run-locally run as processes, and live and end as the kubelet's do."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.local import processes
from gpupool.local.control_plane import ControlPlane
from tests.cluster.kube import Kube, Object
from tests.required_programs import require

RUNS = {"gpupool.dev/run-locally": "true"}


@pytest.fixture(scope="module")
def plane(programs: None) -> Iterator[ControlPlane]:
    """A control plane of this file's own, with one node; the last test stops it."""
    folder = Path(tempfile.mkdtemp(prefix="gpupool-test-"))
    own = ControlPlane(folder / "local")
    own.up()
    yield own
    own.down()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def kube(plane: ControlPlane) -> Iterator[Kube]:
    found = Kube(plane)
    found.api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}})
    yield found
    found.api.close()


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane) -> list[str]:
    return [str(require("kubectl")["kubectl"]), f"--kubeconfig={plane.kubeconfig}"]


def spec(*command: str, **more: Any) -> Object:
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "work", "image": "registry.example/work:1", "command": list(command)}],
        **more,
    }


def start(kube: Kube, name: str, *command: str, finalizer: bool = False, **more: Any) -> str:
    meta: Object = {"name": name, "namespace": "default", "annotations": RUNS}
    if finalizer:
        meta["finalizers"] = ["example.org/hold"]
    kube.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec(*command, **more)})
    return name


def status(kube: Kube, name: str) -> Object:
    found: Object = kube.get("v1", "Pod", name, "default")["status"]
    return found


def ended(kube: Kube, name: str) -> Object:
    """The status of the pod once it has ended."""

    def over() -> Object | None:
        found = status(kube, name)
        assert found["phase"] in ("Succeeded", "Failed"), found
        return found

    return dict(kube.wait(f"{name} has ended", over))


def exit_of(found: Object) -> Object:
    return dict(found["containerStatuses"][0]["state"]["terminated"])


def is_gone(kube: Kube, name: str) -> bool:
    return kube.api.get("v1", "Pod", name, "default") is None


def logs(kubectl: list[str], name: str, *options: str) -> str:
    done = subprocess.run([*kubectl, "logs", name, *options], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else done.stderr


def wait_for_output(kube: Kube, kubectl: list[str], name: str, text: str) -> None:
    kube.wait(f"{name} says {text}", lambda: text in logs(kubectl, name))


def of_pod(plane: ControlPlane, kube: Kube, name: str) -> list[int]:
    """The pod's processes."""
    uid = kube.get("v1", "Pod", name, "default")["metadata"]["uid"]
    return processes.marked(plane.layout.data, GPUPOOL_POD_UID=uid)


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if processes.start_mark(pid)]


def test_exit_codes_become_phases_as_the_kubelet_reports_them(kube: Kube) -> None:
    start(kube, "fine", "true")
    start(kube, "wrong", "sh", "-c", "exit 3")
    found = ended(kube, "fine")
    assert found["phase"] == "Succeeded"
    assert exit_of(found) | {"exitCode": 0, "reason": "Completed"} == exit_of(found)
    found = ended(kube, "wrong")
    assert found["phase"] == "Failed"
    assert exit_of(found) | {"exitCode": 3, "reason": "Error"} == exit_of(found)
    conditions = {row["type"]: row["status"] for row in found["conditions"]}
    assert conditions["PodScheduled"] == conditions["Initialized"] == "True"
    assert conditions["Ready"] == conditions["ContainersReady"] == "False"


def test_a_running_pod_is_ready_and_its_output_comes_while_it_runs(kube: Kube, kubectl: list[str]) -> None:
    start(kube, "talks", "sh", "-c", "echo one; echo two >&2; sleep 3; printf end")
    kube.wait("talks runs", lambda: status(kube, "talks")["phase"] == "Running")
    found = status(kube, "talks")
    assert found["podIP"] == "127.0.0.1"
    assert found["containerStatuses"][0]["state"]["running"]["startedAt"]
    assert {row["status"] for row in found["conditions"]} == {"True"}
    with subprocess.Popen([*kubectl, "logs", "-f", "talks"], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert [following.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
        assert status(kube, "talks")["phase"] == "Running"
        assert following.stdout.read() == "end"
    ended(kube, "talks")
    assert logs(kubectl, "talks") == "one\ntwo\nend"
    assert logs(kubectl, "talks", "--tail=1") == "end"
    assert logs(kubectl, "talks", "--limit-bytes=5") == "one\nt"
    assert logs(kubectl, "talks", "--since=1h") == "one\ntwo\nend"
    assert logs(kubectl, "talks", "--since-time=2100-01-01T00:00:00Z") == ""
    assert logs(kubectl, "talks", "--previous") == ""
    stamped = [line.split(" ") for line in logs(kubectl, "talks", "--timestamps").splitlines()]
    assert [text for _, text in stamped] == ["one", "two", "end"]
    assert all(stamp.endswith("Z") and len(stamp) == 30 for stamp, _ in stamped)


def test_the_end_of_a_long_output_is_kept(kube: Kube, kubectl: list[str]) -> None:
    start(kube, "long", "sh", "-c", "head -c 24000000 /dev/zero | tr '\\0' x | fold -w 100; echo last")
    ended(kube, "long")
    text = logs(kubectl, "long")
    assert 7_000_000 < len(text) < 16_000_000
    assert text.endswith("xlast\n")


def test_what_the_process_finds_in_its_environment(kube: Kube, kubectl: list[str]) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "disk"}
    size = {"storage": "1Gi"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "default"}}
    for thing in (
        {**secret, "stringData": {"TOKEN": "s3cret"}},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": {"capacity": size, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/nowhere"}},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "my-data", "namespace": "default"},
            "spec": {**claim, "resources": {"requests": size}},
        },
    ):
        kube.api.create(thing)
    env: list[Object] = [
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {
            "name": "NOTE",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{next(iter(RUNS))}']"}},
        },
        {"name": "ONE", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "TOKEN"}}},
        {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "no", "key": "no", "optional": True}}},
        {"name": "GREETING", "value": "$(POD_TOKEN) on $(NODE), $$(NODE) $(UNKNOWN)"},
    ]
    script = (
        'echo "$NODE $NOTE $ONE ${NONE-none} $GREETING $0"; pwd; ls -A; '
        'echo kept > "$GPUPOOL_VOLUME_MY_DATA/file"; echo "${KUBECONFIG-none} ${PYTHONPATH-none} $HOSTNAME"'
    )
    container = {
        "name": "work",
        "image": "registry.example/work:1",
        "command": ["sh", "-c", script],
        "args": ["$(NODE)"],
        "env": env,
        "envFrom": [{"prefix": "POD_", "secretRef": {"name": "keys"}}],
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "my-data"}}
    start(kube, "knows", containers=[container], volumes=[volume])
    assert ended(kube, "knows")["phase"] == "Succeeded"
    first, folder, last = logs(kubectl, "knows").splitlines()
    assert first == "worker true s3cret none s3cret on worker, $(NODE) $(UNKNOWN) worker"
    assert last == "none none knows"
    kube.api.delete("v1", "Pod", "knows", "default")
    kube.wait("its folder is gone", lambda: not Path(folder).exists())
    start(kube, "reads", "sh", "-c", 'cat "$GPUPOOL_VOLUME_MY_DATA/file"', volumes=[volume])
    ended(kube, "reads")
    assert logs(kubectl, "reads") == "kept\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another account's processes")
def test_a_pods_command_reads_nothing_of_the_control_plane(
    plane: ControlPlane, kube: Kube, kubectl: list[str]
) -> None:
    files = [str(path) for path in sorted(plane.layout.data.rglob("*")) if path.is_file()]
    assert str(plane.kubeconfig) in files
    reads = 'cat "$file" >/dev/null 2>&1 && echo "$file"'
    script = f'for file in "$@" "/proc/$PPID/environ"; do {reads}; done; id -u'
    start(kube, "pries", "sh", "-c", script, "sh", *files)
    ended(kube, "pries")
    assert logs(kubectl, "pries").splitlines() == [str(pwd.getpwnam("nobody").pw_uid)]


def test_a_pod_waits_for_its_secret(kube: Kube, kubectl: list[str]) -> None:
    container = {
        "name": "work",
        "image": "registry.example/work:1",
        "command": ["echo", "$(WORD)"],
        "env": [{"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "word"}}}],
    }
    start(kube, "waits", containers=[container])

    def waiting() -> Object:
        containers = status(kube, "waits").get("containerStatuses") or [{"state": {}}]
        return dict(containers[0]["state"].get("waiting") or {})

    kube.wait("it waits", lambda: waiting().get("message") == 'configmap "words" not found')
    assert waiting()["reason"] == "CreateContainerConfigError"
    assert "is waiting to start" in logs(kubectl, "waits")
    words = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words", "namespace": "default"}}
    kube.api.create({**words, "data": {"word": "now"}})
    assert ended(kube, "waits")["phase"] == "Succeeded"
    assert logs(kubectl, "waits") == "now\n"


def test_a_command_that_is_not_there(kube: Kube, kubectl: list[str]) -> None:
    start(kube, "absent", "/no/such/program")
    found = ended(kube, "absent")
    assert (found["phase"], exit_of(found)["exitCode"]) == ("Failed", 127)
    assert exit_of(found)["reason"] == "StartError"
    assert exit_of(found)["message"] == "/no/such/program: No such file or directory"
    assert logs(kubectl, "absent") == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"restartPolicy": "Always"}, "restartPolicy is Always"),
        ({"containers": [{"name": "a", "image": "b"}]}, "its container has no command"),
        ({"initContainers": [{"name": "a", "image": "b", "command": ["c"]}]}, "no init containers"),
    ],
)
def test_what_is_not_run_is_refused_with_the_reason(kube: Kube, change: Object, message: str) -> None:
    name = f"refused-{next(iter(change)).lower()}"
    start(kube, name, "true", **change)
    found = ended(kube, name)
    assert (found["phase"], found["reason"]) == ("Failed", "NotSupportedLocally")
    assert message in found["message"]


def test_a_deleted_pod_gets_its_time_and_its_end_is_recorded(
    kube: Kube, kubectl: list[str], plane: ControlPlane
) -> None:
    script = "trap 'echo saving; sleep 1; echo saved; exit 7' TERM; echo up; while :; do sleep 0.1; done"
    start(kube, "saves", "sh", "-c", script, finalizer=True)
    wait_for_output(kube, kubectl, "saves", "up")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "saves"}}
    kube.api.request("POST", "/api/v1/namespaces/default/pods/saves/eviction", None, eviction)
    found = ended(kube, "saves")
    assert exit_of(found)["exitCode"] == 7
    assert logs(kubectl, "saves").endswith("saving\nsaved\n")
    conditions = {row["type"]: row["status"] for row in found["conditions"]}
    assert conditions["DisruptionTarget"] == "True", "a condition of others was lost"
    kube.stays("held by its finalizer", lambda: not is_gone(kube, "saves"), 1.0)
    kube.api.patch("v1", "Pod", "saves", {"metadata": {"finalizers": None}}, "default")
    kube.wait("saves is gone", lambda: is_gone(kube, "saves"))


def test_a_pod_that_does_not_end_is_killed_after_its_grace(
    kube: Kube, kubectl: list[str], plane: ControlPlane
) -> None:
    """And with it what it started, also in a session of its own."""
    script = "trap '' TERM; setsid sleep 300 & echo up; sleep 300; sleep 300"
    start(kube, "stubborn", "sh", "-c", script, finalizer=True)
    wait_for_output(kube, kubectl, "stubborn", "up")
    kube.wait("all of it runs", lambda: len(of_pod(plane, kube, "stubborn")) == 3)
    pids = of_pod(plane, kube, "stubborn")
    begun = time.monotonic()
    kube.api.delete("v1", "Pod", "stubborn", "default", 2)
    found = ended(kube, "stubborn")
    assert time.monotonic() - begun >= 2
    assert (exit_of(found)["exitCode"], exit_of(found)["signal"]) == (137, 9)
    assert alive(pids) == []
    kube.api.patch("v1", "Pod", "stubborn", {"metadata": {"finalizers": None}}, "default")
    kube.wait("stubborn is gone", lambda: is_gone(kube, "stubborn"))


def test_force_deletion_kills_at_once(kube: Kube, kubectl: list[str], plane: ControlPlane) -> None:
    start(kube, "forced", "sh", "-c", "trap '' TERM; echo up; sleep 300; sleep 300")
    wait_for_output(kube, kubectl, "forced", "up")
    pids = of_pod(plane, kube, "forced")
    assert pids
    kube.api.delete("v1", "Pod", "forced", "default", 0)
    assert is_gone(kube, "forced")
    kube.wait("its processes are gone", lambda: not alive(pids))


def test_a_deadline_ends_the_pod(kube: Kube) -> None:
    start(kube, "late", "sleep", "300", activeDeadlineSeconds=1)
    found = ended(kube, "late")
    assert (found["phase"], found["reason"]) == ("Failed", "DeadlineExceeded")
    assert (exit_of(found)["exitCode"], exit_of(found)["signal"]) == (143, 15)


def test_an_indexed_job_runs_each_index_and_other_pods_stay_simulated(kube: Kube, kubectl: list[str]) -> None:
    def job(name: str, annotations: Object) -> Object:
        template = {
            "metadata": {"annotations": annotations},
            "spec": spec("sh", "-c", "echo index $JOB_COMPLETION_INDEX"),
        }
        size = {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}
        meta = {"name": name, "namespace": "default"}
        body = {**size, "backoffLimit": 0, "template": template}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}

    def succeeded(name: str) -> bool:
        return bool(kube.get("batch/v1", "Job", name, "default")["status"].get("succeeded") == 2)

    kube.api.create(job("real", RUNS))
    kube.api.create(job("simulated", {"gpupool.dev/simulated-duration": "1s"}))
    for name in ("real", "simulated"):
        kube.wait(f"{name} is complete", lambda name=name: succeeded(name))
    names = sorted(pod["metadata"]["name"] for pod in kube.pods(selector="job-name=real"))
    assert [logs(kubectl, name) for name in names] == ["index 0\n", "index 1\n"]
    simulated = kube.pods(selector="job-name=simulated")[0]["metadata"]["name"]
    assert "is simulated: it has no process and no output" in logs(kubectl, simulated)


def test_only_the_api_server_can_ask_for_output(kube: Kube, plane: ControlPlane) -> None:
    port = json.loads(plane.layout.state.read_text())["ports"]["kubelet"]
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
        urllib.request.urlopen(f"https://127.0.0.1:{port}/containerLogs/default/fine/work", context=trusting)


def test_repairing_another_part_leaves_pods_running_and_a_killed_runner_does_not(
    kube: Kube, kubectl: list[str], plane: ControlPlane
) -> None:
    def kill(component: str) -> None:
        pid = next(part.pid for part in plane.status().components if part.name == component)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        kube.wait(f"{component} is dead", lambda: not alive([pid]))

    start(kube, "lost", "sh", "-c", "echo up; sleep 300")
    wait_for_output(kube, kubectl, "lost", "up")
    pids = of_pod(plane, kube, "lost")
    assert pids
    kill("kwok")
    assert plane.up().healthy
    assert alive(pids) == pids
    kill("pod-runner")
    assert alive(pids) == pids
    assert plane.up().healthy
    assert alive(pids) == []
    found = ended(kube, "lost")
    assert found["phase"] == "Failed"
    assert exit_of(found) | {"exitCode": 137, "reason": "ContainerStatusUnknown"} == exit_of(found)
    assert logs(kubectl, "lost") == "up\n"
    start(kube, "after", "true")
    assert ended(kube, "after")["phase"] == "Succeeded"


def test_down_leaves_no_process(kube: Kube, kubectl: list[str], plane: ControlPlane) -> None:
    start(kube, "stays", "sh", "-c", "trap '' TERM; echo up; env -i sleep 300; sleep 300")
    wait_for_output(kube, kubectl, "stays", "up")
    pids = processes.descendants(of_pod(plane, kube, "stays")) + of_pod(plane, kube, "stays")
    assert alive(pids)
    kube.api.close()
    assert plane.down()
    assert alive(pids) == []
    assert processes.marked(plane.layout.data) == []
    assert not plane.layout.data.exists()
