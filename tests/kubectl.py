"""The real kubectl without a cluster: a server of three fixed answers that serves ConfigMaps.

kubectl asks which kinds there are before it reads a file, and here it is the reading that is tested.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

RESOURCES = [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True, "verbs": ["create"]}]
KINDS = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": RESOURCES},
}


@contextmanager
def command_line(program: str | Path, cache: Path) -> Iterator[list[str]]:
    """The command line of kubectl `program` up to its verb; it keeps what it learns in `cache`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Kinds) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield [str(program), f"--server=http://127.0.0.1:{server.server_port}", f"--cache-dir={cache}"]
        server.shutdown()


class _Kinds(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = KINDS.get(self.path.partition("?")[0])
        self.send_response(200 if answer else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer or {}).encode())

    def log_message(self, *_: object) -> None:
        pass
