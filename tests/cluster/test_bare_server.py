"""An API server alone, as `make kinds` and the tests of older minors start it; here of the newest minor."""

from __future__ import annotations

import stat

import pytest

from gpupool.local import processes
from gpupool.local.bare_server import bare_server
from tests.cluster.policies.server import Server
from vapcheck.server.minors import NEWEST


def test_it_serves_alone_and_leaves_nothing() -> None:
    with bare_server(NEWEST) as plane:
        folder = plane.layout.data
        status = plane.status()
        assert {part.name for part in status.components if part.running} == {"etcd", "kube-apiserver"}
        assert status.server is not None
        assert status.server.startswith("https://127.0.0.1:")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        api = plane.api()
        version = api.request("GET", "/version")[1]
        api.close()
        assert f"{version['major']}.{version['minor']}" == NEWEST
        spec = {"containers": [{"name": "c", "image": "x"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        assert Server(plane.kubeconfig).ask("CREATE", pod).status == 201
    assert not folder.exists()
    assert processes.marked(folder) == []


def test_a_failure_leaves_nothing() -> None:
    folders = []

    def failing() -> None:
        with bare_server(NEWEST) as plane:
            folders.append(plane.layout.data)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        failing()
    (folder,) = folders
    assert not folder.exists()
    assert processes.marked(folder) == []
