"""What a process needs to run Pulumi on this project: where the state is, and the stand-ins if they serve.

An ordinary installation has its own language host and Kubernetes plugin; then nothing here but the
backend and the passphrase is set. Where they are missing (they are not published as Go modules or Python
packages), the engine is pointed at stand-ins. `gpupool up` runs its own inside the process; for a
shell, `environment()` puts a command `pulumi` first on PATH that serves both to the engine while it runs.
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

from gpupool import project, shipped
from gpupool.cluster.local_layout import Layout, default_folder
from gpupool.programs.failures import LocalError

KUBERNETES_PLUGIN = "pulumi-resource-kubernetes"
STAND_IN = "GPUPOOL_STAND_IN"
"""Variable by which the stand-in for the Kubernetes plugin is asked for, as `--stand-in` does: 1."""
LANGUAGE_HOST = "pulumi-language-python"

NO_CHARTS = (
    "Helm releases need Pulumi's own Kubernetes plugin, which is not installed here: run "
    "`pulumi plugin install resource kubernetes` where plugins can be downloaded, or install the "
    "chart by GitOps (`gpupool render`)"
)
"""The stand-in's message for a chart."""
_SERVE = "gpupool.pulumi_plugins.serve"


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
    """The installed Kubernetes plugin, of several the pinned one; None where there is none."""
    on_path = shutil.which(KUBERNETES_PLUGIN)
    if on_path:
        return Path(on_path)
    installed = sorted((pulumi_home() / "plugins").glob(f"resource-kubernetes-v*/{KUBERNETES_PLUGIN}"))
    return max(installed, key=lambda path: plugin_version(path) == pinned_plugin(), default=None)


def plugin_version(plugin: Path) -> str | None:
    """The version of an installed Kubernetes plugin by its folder, as the engine finds it (Pulumi 3.259:
    sdk/go/common/workspace/plugins.go, Dir); None for one on PATH, which the engine takes as it is."""
    named = re.fullmatch(r"resource-kubernetes-v(.+)", plugin.parent.name)
    return named[1] if named else None


def stand_in_allowed(platform: str) -> bool:
    """Whether the stand-in may serve for stacks of `platform` where the plugin is not installed: on the local
    control plane, and elsewhere where it is asked for."""
    return platform == "local" or os.environ.get(STAND_IN) == "1"


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
    """What a shell needs so that plain `pulumi` works here; the stand-ins run while the command does.

    `pulumi` is the engine, to find a language host beside it.
    """
    values = backend(platform)
    if pulumi is None:
        return values
    folder = pulumi.parent
    if kubernetes_plugin() is None or language_host(pulumi) is None:
        folder = _write_command(pulumi)
    elif shutil.which("pulumi"):
        return values
    values["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"
    return values


def _write_command(pulumi: Path) -> Path:
    """The folder with a command `pulumi` that serves the stand-ins to this engine (`serve`)."""
    own = Layout(default_folder()).pulumi
    # Earlier releases left a process behind that served everybody; it ends when this file goes.
    (own / "stand-ins.json").unlink(missing_ok=True)
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


def provider_variables(port: int) -> dict[str, str]:
    """What points the engine at a stand-in provider on `port`."""
    return {
        "PULUMI_DEBUG_PROVIDERS": f"kubernetes:{port}",
        # Otherwise the engine tries to download the plugin that the state names, for two seconds each run.
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }


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
