"""A Python language host, for machines without Pulumi's own.

Does the one thing this project needs: run the program when the engine asks. Each run is a process of
its own (this module as a script), because Pulumi's SDK keeps its connection in module globals.
Dependencies, plugins and debuggers are left to the real language host.
"""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from gpupool.environment import shipped
from gpupool.infra.pulumi_plugins import callers

_FAILED, _BAILED = 1, 32
"""Exit codes of a run: it wrote a message to stdout, or the engine knows already."""


class PythonLanguage(language_pb2_grpc.LanguageRuntimeServicer):
    """The protocol, as far as preview, up, refresh and destroy use it."""

    def Handshake(self, request: Any, context: Any) -> Any:
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="0.0.0")

    def About(self, request: Any, context: Any) -> Any:
        number = ".".join(map(str, sys.version_info[:3]))
        return language_pb2.AboutResponse(executable=sys.executable, version=number)

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:
        return language_pb2.GetRequiredPackagesResponse()

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:
        return language_pb2.GetProgramDependenciesResponse()

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Run(self, request: Any, context: Any) -> Any:
        settings = {
            "project": request.project,
            "stack": request.stack,
            "organization": request.organization or "organization",
            "monitor": request.monitor_address,
            "engine": request.args[0] if request.args else "",
            "parallel": max(request.parallel, 1),
            "preview": request.dryRun,
            "config": dict(request.config),
            "secrets": list(request.configSecretKeys),
            "folder": request.info.program_directory or request.pwd,
            "entry": request.info.entry_point or ".",
        }
        done = subprocess.run(
            shipped.command("gpupool.infra.pulumi_plugins.language"),
            input=json.dumps(settings),
            cwd=settings["folder"],
            env={**os.environ, **shipped.variables()},
            text=True,
            stdout=subprocess.PIPE,
            check=False,
        )
        if done.returncode == _BAILED:
            return language_pb2.RunResponse(bail=True)
        # The program's message comes last; anything else is left to the program.
        message = done.stdout.strip() or f"the program ended with exit code {done.returncode}"
        return language_pb2.RunResponse(error=message if done.returncode else "")


def serve() -> tuple[grpc.Server, int]:
    """Start answering this account on a port of 127.0.0.1: the server (`.stop(None)` ends it), the port."""
    server = callers.server(ThreadPoolExecutor(8, "python-language"))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(PythonLanguage(), server)
    bound = server.add_insecure_port(f"{callers.ADDRESS}:0")
    server.start()
    return server, bound


def run_program(settings: dict[str, Any]) -> int:
    """Run the program against the engine that `settings` describe; the process' exit code."""
    import pulumi
    from pulumi.runtime import reset_options, run_in_stack, set_all_config

    reset_options(
        project=settings["project"],
        stack=settings["stack"],
        organization=settings["organization"],
        monitor_address=settings["monitor"],
        engine_address=settings["engine"],
        parallel=settings["parallel"],
        preview=settings["preview"],
    )
    if settings["config"]:
        set_all_config(settings["config"], settings["secrets"] or None)
    entry = os.path.join(settings["folder"], settings["entry"])

    def program() -> None:
        runpy.run_path(entry, run_name="__main__")

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_default_executor(ThreadPoolExecutor(settings["parallel"] * 4))
    try:
        loop.run_until_complete(run_in_stack(program))
    except pulumi.RunError as error:
        print(error)
        return _FAILED
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNAVAILABLE:  # the engine has stopped and printed why
            return _BAILED
        raise
    finally:
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(run_program(json.load(sys.stdin)))
