"""An API server of any known minor with its store and nothing else, for as long as a block runs.

For `make kinds` and the exhaustive tests, which ask it what it knows and admits: no controllers, no nodes. It
is started with the flags, keys and tokens of the local control plane's (`instance`), in a folder of its own.
A server of an older minor is built from tools/kubernetes-1.N, minutes the first time.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from gpupool.live.cluster.local_layout import Layout
from gpupool.local import components
from gpupool.local.control_plane import ControlPlane
from gpupool.local.instance import Instance
from gpupool.programs import binaries
from vapcheck import NEWEST

_ACCOUNT = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "default", "namespace": "default"},
}
"""What pods run as; there is no controller to make it."""


def program_of(minor: str) -> str:
    """The name in binaries.yaml of the API server of that minor ("1.33")."""
    return "kube-apiserver" if minor == NEWEST else f"kube-apiserver-{minor}"


@contextlib.contextmanager
def bare_server(minor: str, report: Callable[[str], None] = lambda _: None) -> Iterator[ControlPlane]:
    """The control plane whose API server is of that minor, with nothing beside it but its store.

    It serves what GPUPOOL_LOCAL_APIS says. Raises LocalError with the end of its log where it does not start.
    """
    server = program_of(minor)
    found = binaries.locate_all(["etcd", server], report)
    programs = {"etcd": found["etcd"], "kube-apiserver": found[server]}
    with tempfile.TemporaryDirectory(prefix="gpupool-bare-") as folder:
        layout = Layout(Path(folder))
        with Instance.locked(layout, make=True) as instance:
            try:
                instance.start_core(programs, report)
                plane = ControlPlane(layout.data)
                with contextlib.closing(plane.api()) as api:
                    instance.wait(
                        components.CORE[-1], lambda: api.get("v1", "Namespace", "default") is not None
                    )
                    api.create(_ACCOUNT)
                yield plane
            finally:
                instance.stop_all()
