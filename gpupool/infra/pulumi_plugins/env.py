"""What a process needs to run Pulumi on this project: where the state is, and which plugins serve.

The Kubernetes provider is the one that is installed; where none is, the one that gpupool has built
(`tools/pulumi-kubernetes`). The engine takes the first from its own folders, and the second from PATH,
whatever version a program or a state asks for. For a shell, `environment()` puts both on PATH, and a command
`pulumi` that serves a language host where none is installed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gpupool.environment import project, shipped
from gpupool.live.cluster.local_layout import Layout, default_folder
from gpupool.programs import binaries
from gpupool.programs.failures import LocalError

KUBERNETES_PLUGIN = "pulumi-resource-kubernetes"
LANGUAGE_HOST = "pulumi-language-python"
PATCH_FORCE = {"PULUMI_K8S_ENABLE_PATCH_FORCE": "true"}
"""What the provider's option `enablePatchForce` says, for plugins before 4.29.0, which lack the option
(CHANGELOG of pulumi-kubernetes, 4.29.0)."""
_SERVE = "gpupool.infra.pulumi_plugins.serve"


def pulumi_home() -> Path:
    """Pulumi's own folder: PULUMI_HOME, or ~/.pulumi."""
    given = os.environ.get("PULUMI_HOME")
    return Path(given).expanduser() if given else Path.home() / ".pulumi"


def pinned_plugin() -> str:
    """The version of the Kubernetes plugin that programs ask for: that of its SDK (pulumi-kubernetes)."""
    return version("pulumi-kubernetes")


def install_plugin() -> list[str]:
    """Arguments with which the engine installs the pinned Kubernetes plugin."""
    return ["plugin", "install", "resource", "kubernetes", pinned_plugin()]


def kubernetes_plugin() -> Path | None:
    """The Kubernetes plugin that serves, None where there is none: on PATH, installed (of several the pinned
    one), or built by gpupool."""
    on_path = shutil.which(KUBERNETES_PLUGIN)
    if on_path:
        return Path(on_path)
    installed = (pulumi_home() / "plugins").glob(f"resource-kubernetes-v*/{KUBERNETES_PLUGIN}")
    newest = max(sorted(installed), key=lambda path: plugin_version(path) == pinned_plugin(), default=None)
    return newest or binaries.find(KUBERNETES_PLUGIN)


def plugin_version(plugin: Path) -> str | None:
    """The version of a Kubernetes plugin by its folder: as the engine installs it (Pulumi 3.259:
    sdk/go/common/workspace/plugins.go, Dir), or as gpupool builds it; None for any other, which the engine
    takes as it is."""
    built = binaries.programs()[KUBERNETES_PLUGIN]
    if plugin == built.cached:
        return built.version.removeprefix("v")
    named = re.fullmatch(r"resource-kubernetes-v(.+)", plugin.parent.name)
    return named[1] if named else None


def provider_variables() -> dict[str, str]:
    """What lets the engine find a provider that gpupool has built, and has any provider force patches."""
    plugin = kubernetes_plugin()
    values = dict(PATCH_FORCE)
    if plugin is not None and plugin == binaries.find(KUBERNETES_PLUGIN):
        values["PATH"] = f"{plugin.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        # Otherwise the engine tries for two seconds each run to download the version that the state names.
        values["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
    return values


def language_host(pulumi: Path | None) -> Path | None:
    """The installed Python language host, None where there is none: on PATH, or beside `pulumi`."""
    on_path = shutil.which(LANGUAGE_HOST)
    if on_path:
        return Path(on_path)
    beside = pulumi.resolve().with_name(LANGUAGE_HOST) if pulumi else None
    return beside if beside and beside.is_file() else None


def backend(platform: str = "local") -> dict[str, str]:
    """Backend, passphrase and quiet for stacks of `platform`, as environment variables.

    The state of a local stack lies in the control plane's folder and goes when that goes. For all others
    a PULUMI_BACKEND_URL of the user's wins over the project's folder, but for the one that `gpupool local
    env` exports: there theirs would go as well. There are no secrets in our state, so the passphrase is
    empty unless the user has one. Raises LocalError where there is no local control plane to keep the
    state with.
    """
    values = {"PULUMI_SKIP_UPDATE_CHECK": "true"}
    if platform == "local":
        folder = Layout(default_folder()).pulumi
        try:
            folder.mkdir(exist_ok=True, mode=0o700)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise LocalError(
                f"{folder.parent}: no local control plane here; start it with `gpupool local up`"
            ) from error
        except OSError as error:
            raise LocalError(
                f"{folder}: the folder for the state can't be made ({error.strerror}); make room, or the "
                "folder writable, and run this again"
            ) from error
        values["PULUMI_BACKEND_URL"] = file_backend(folder)
    elif not _lasting(os.environ.get("PULUMI_BACKEND_URL", "")):
        values["PULUMI_BACKEND_URL"] = file_backend(project.root())
    if not {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"} & os.environ.keys():
        values["PULUMI_CONFIG_PASSPHRASE"] = ""
    return values


def _lasting(url: str) -> bool:
    """Whether a backend is given, and not one that lies in the folder of a local control plane."""
    given = urlsplit(url)
    return bool(url) and not (given.scheme == "file" and Layout(Path(unquote(given.path)).parent).owned)


def file_backend(folder: Path) -> str:
    """The URL of state files under `folder`, written without sidecars.

    By default a .attrs file goes with each one, and unlike the state itself it is not written in one
    step: an engine killed at that moment leaves a state that can't be loaded (gocloud.dev fileblob).
    """
    return f"{folder.as_uri()}?metadata=skip"


def environment(platform: str = "local", pulumi: Path | None = None) -> dict[str, str]:
    """What a shell needs so that plain `pulumi` works here. `pulumi` is the engine, to find a language host
    beside it."""
    values = backend(platform) | provider_variables()
    if pulumi is None:
        return values
    folder = pulumi.parent
    if language_host(pulumi) is None:
        folder = _write_command(pulumi)
    elif shutil.which("pulumi"):
        return values
    values["PATH"] = f"{folder}{os.pathsep}{values.get('PATH', os.environ.get('PATH', ''))}"
    return values


def _write_command(pulumi: Path) -> Path:
    """The folder with a command `pulumi` that serves a language host to this engine (`serve`)."""
    own = Layout(default_folder()).pulumi
    file = own / "bin" / "pulumi"
    if pulumi == file:  # the shell has it on PATH already, and no other engine
        return file.parent
    # Not PYTHONPATH: the engine and its programs would get it as well.
    find = f"import runpy, sys; sys.path.insert(0, {str(shipped.library())!r})"
    code = f"{find}; runpy.run_module({_SERVE!r}, run_name='__main__')"
    words = shlex.join([sys.executable, "-P", "-c", code, str(pulumi)])
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    fresh.chmod(0o700)
    fresh.replace(file)
    return file.parent


def forget_settings() -> None:
    """Remove the settings (encryption salts) of the stacks whose state goes with the local control plane."""
    settings = project.root() / project.OWN / "stacks"
    for state in (_folder() / ".pulumi" / "stacks").rglob("*.json"):
        (settings / f"Pulumi.{state.stem}.yaml").unlink(missing_ok=True)
    for folder in (settings, settings.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _folder() -> Path:
    return Layout(default_folder()).pulumi
