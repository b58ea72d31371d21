"""Shows the objects that validating admission is given: a webhook of the API server that allows everything
and keeps what it was asked.

The server hands the same object to webhooks as to policies. It listens with the API server's own certificate,
which is for 127.0.0.1 and is there anyway.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gpupool.live.cluster.kube_api import ApiError, KubeApi
from gpupool.local.control_plane import ControlPlane

Object = dict[str, Any]
NAME = "admission-recorder"
_WAIT_SECONDS = 180.0
MARK = "admission-recorder/case"
"""The annotation of the objects that are recorded."""


class Recorder:
    """Sends objects as dry runs and returns what admission was asked about them; for the kinds of admission
    itself, which it is not asked about, what the server answered."""

    def __init__(self, api: KubeApi) -> None:
        self.api = api
        self.requests: dict[str, Object] = {}
        """By the mark of the object."""
        self._count = 0

    def create(self, body: Object) -> Object:
        """The admission request of creating `body`, with `object` among its fields; of a dry run."""
        self._count += 1
        case = f"case-{self._count}"
        metadata = body.get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), MARK: case}
        marked = {**body, "metadata": {**metadata, "annotations": annotations}}
        where = self.api.require(body["apiVersion"], body["kind"])
        path = where.path(metadata.get("namespace"))
        query = {"dryRun": "All", "fieldValidation": "Ignore"}
        answer = self.api.request("POST", path, query, marked)[1]
        request = self.requests.pop(case, {"object": answer})
        left = request["object"]["metadata"]["annotations"]
        del left[MARK]
        if not left:
            del request["object"]["metadata"]["annotations"]
        return request


@contextmanager
def recording(control_plane: ControlPlane) -> Iterator[Recorder]:
    """A recorder that the API server calls already."""
    api = control_plane.api()
    recorder = Recorder(api)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review["request"]
            case = (request["object"]["metadata"].get("annotations") or {}).get(MARK)
            if case is not None:
                recorder.requests[case] = request
            answer = {"uid": request["uid"], "allowed": True}
            body = json.dumps(
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
            )
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    certificate = control_plane.layout.certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        api.create(_configuration(server.server_port, certificate.read_bytes()))
        _wait(recorder)
        yield recorder
    finally:
        api.delete("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", NAME)
        server.shutdown()
        api.close()


def _configuration(port: int, certificate: bytes) -> Object:
    webhook = {
        "name": "recorder.gpupool.dev",
        "clientConfig": {
            "url": f"https://127.0.0.1:{port}/",
            "caBundle": base64.b64encode(certificate).decode(),
        },
        "rules": [
            {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["CREATE", "UPDATE"]}
        ],
        "matchConditions": [{"name": "dry-run", "expression": "request.dryRun == true"}],
        "matchPolicy": "Exact",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [webhook],
    }


def _wait(recorder: Recorder) -> None:
    """The server takes a moment before it calls a new webhook."""
    deadline = time.monotonic() + _WAIT_SECONDS
    probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe", "namespace": "default"}}
    while True:
        try:
            if "uid" in recorder.create(probe):
                return
        except ApiError:
            pass
        assert time.monotonic() < deadline, "the API server doesn't call the webhook"
        time.sleep(0.1)
