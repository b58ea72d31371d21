"""What this machine has: the project, Pulumi's engine, and Pulumi's Kubernetes plugin.

Nothing is downloaded or built to find out. git, Helm and kubectl are not looked for: `up` needs none of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from gpupool.adopt.doctor.model import CheckResult, DoctorInput, result
from gpupool.adopt.doctor.reasons import Reason
from gpupool.infra import engine
from gpupool.infra.pulumi_plugins import env as pulumi_env
from gpupool.programs import binaries, gobuild
from gpupool.programs.failures import LocalError

_ENGINE = "pulumi"


def project(_: DoctorInput) -> Iterator[CheckResult]:
    """The folder that states are found by."""
    try:
        yield result("Pulumi.yaml", Reason.PROJECT_FOUND, folder=engine.work_dir())
    except engine.EngineError as error:
        yield result("Pulumi.yaml", Reason.PROJECT_MISSING, problem=error)


def engine_program(_: DoctorInput) -> Iterator[CheckResult]:
    """The engine: where it is, or how `up` gets it."""
    program = binaries.programs()[_ENGINE]
    path = binaries.find(_ENGINE)
    if path is not None:
        version = binaries.reported_version(program, path)
        text = f"v{'.'.join(map(str, version))}" if version else "of unknown version"
        yield result(_ENGINE, Reason.ENGINE_FOUND, version=text, pinned=program.version, path=path)
        return
    on_path = shutil.which(_ENGINE)
    passed_over = f"; {on_path} has another version" if on_path else ""
    values = {"pinned": program.version, "passed_over": passed_over, "minutes": max(1, program.seconds // 60)}
    try:
        if program.release is not None:
            yield result(_ENGINE, Reason.ENGINE_DOWNLOADED, **values)
            return
        go = gobuild.require_go(program.source / "go.mod")
    except LocalError as error:
        yield result(_ENGINE, Reason.ENGINE_MISSING, problem=error, **values)
        return
    yield result(_ENGINE, Reason.ENGINE_BUILT, go=go, **values)


def kubernetes_plugin(_: DoctorInput) -> Iterator[CheckResult]:
    """Pulumi's plugin for Kubernetes."""
    subject, pinned = pulumi_env.KUBERNETES_PLUGIN, pulumi_env.pinned_plugin()
    values = {"pinned": pinned, "install": " ".join(pulumi_env.install_plugin())}
    path = pulumi_env.kubernetes_plugin()
    if path is not None:
        version = pulumi_env.plugin_version(path)
        if version is None:
            yield result(subject, Reason.PLUGIN_ON_PATH, path=path, **values)
        elif path == binaries.find(subject):
            yield result(subject, Reason.PLUGIN_BUILT, version=version, path=path, **values)
        else:
            same = Reason.PLUGIN_FOUND if version == pinned else Reason.PLUGIN_OTHER
            yield result(subject, same, version=version, path=path, **values)
        return
    yield result(subject, Reason.PLUGIN_COMES, built=binaries.programs()[subject].version, **values)
