"""What a process needs to run Pulumi on this project: where the state is, and the stand-ins if they serve.

An ordinary installation has its own language host and Kubernetes plugin; then nothing here but the
backend and the passphrase is set. Where they are missing (they are not published as Go modules or Python
packages), the engine is pointed at stand-ins. `gpupool up` runs its own inside the process; for a
shell, `environment()` starts a small background process that serves both.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psutil

from gpupool import project, shipped
from gpupool.cluster.local_layout import Layout, default_folder
from gpupool.programs.failures import LocalError

KUBERNETES_PLUGIN = "pulumi-resource-kubernetes"
LANGUAGE_HOST = "pulumi-language-python"

NO_CHARTS = (
    "Helm releases need Pulumi's own Kubernetes plugin, which is not installed here: run "
    "`pulumi plugin install resource kubernetes` where plugins can be downloaded, or install the "
    "chart by GitOps (`gpupool render`)"
)
"""The stand-in's message for a chart."""
_START_SECONDS = 60.0


@dataclass(frozen=True)
class StandIns:
    """The background process that serves the stand-ins."""

    pid: int
    provider_port: int
    language_port: int
    started: float
    """Start time of the process from psutil: the pid may have been reused."""

    def alive(self) -> bool:
        """Whether the process runs; it has noted itself only once it answered."""
        try:
            return abs(psutil.Process(self.pid).create_time() - self.started) < 1.0
        except psutil.Error:
            return False


def pulumi_home() -> Path:
    """Pulumi's own folder: PULUMI_HOME, or ~/.pulumi."""
    given = os.environ.get("PULUMI_HOME")
    return Path(given).expanduser() if given else Path.home() / ".pulumi"


def kubernetes_plugin() -> Path | None:
    """The installed Kubernetes plugin, None where there is none."""
    on_path = shutil.which(KUBERNETES_PLUGIN)
    if on_path:
        return Path(on_path)
    pattern = f"resource-kubernetes-v*/{KUBERNETES_PLUGIN}"
    return next(iter(sorted((pulumi_home() / "plugins").glob(pattern))), None)


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
    """What a shell needs so that plain `pulumi` works here; starts the stand-ins where they serve.

    `pulumi` is the engine, to find a language host beside it. Raises LocalError when the background
    process does not start.
    """
    values = backend(platform)
    if pulumi is not None and not shutil.which("pulumi"):
        values["PATH"] = f"{pulumi.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    needs_provider, needs_language = kubernetes_plugin() is None, language_host(pulumi) is None
    if not (needs_provider or needs_language):
        return values
    served = start()
    if needs_provider:
        values |= provider_variables(served.provider_port)
    if needs_language:
        values["PULUMI_DEBUG_LANGUAGES"] = f"python:{served.language_port}"
    return values


def provider_variables(port: int) -> dict[str, str]:
    """What points the engine at a stand-in provider on `port`."""
    return {
        "PULUMI_DEBUG_PROVIDERS": f"kubernetes:{port}",
        # Otherwise the engine tries to download the plugin that the state names, for two seconds each run.
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }


def start() -> StandIns:
    """The running background process, started if need be. Its ports stay the same while they are free."""
    known = _read()
    if known is not None and known.alive():
        return known
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    ports = [str(known.provider_port), str(known.language_port)] if known else ["0", "0"]
    log = folder / "stand-ins.log"
    with log.open("ab") as stream:
        subprocess.Popen(
            shipped.command("gpupool.pulumi_plugins.serve", str(_file()), *ports),
            cwd=folder,
            env={**os.environ, **shipped.variables()},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        fresh = _read()
        if fresh is not None and fresh != known and fresh.alive():
            return fresh
        time.sleep(0.05)
    raise LocalError(f"the stand-ins for Pulumi's plugins did not start; see {log}")


def stop() -> bool:
    """Stop the background process; False when there was none."""
    known = _read()
    _file().unlink(missing_ok=True)
    if known is None or not known.alive():
        return False
    process = psutil.Process(known.pid)
    process.terminate()
    try:
        process.wait(5)
    except psutil.TimeoutExpired:
        process.kill()
    return True


def forget_settings() -> None:
    """Remove the settings (encryption salts) of the stacks whose state goes with the local control plane."""
    settings = project.root() / ".gpupool" / "stacks"
    for state in (_folder() / ".pulumi" / "stacks").rglob("*.json"):
        (settings / f"Pulumi.{state.stem}.yaml").unlink(missing_ok=True)
    for folder in (settings, settings.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def write(file: Path, provider_port: int, language_port: int) -> None:
    """Note where this process serves; called by the background process itself."""
    started = psutil.Process().create_time()
    value = {
        "pid": os.getpid(),
        "provider_port": provider_port,
        "language_port": language_port,
        "started": started,
    }
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(value))
    fresh.replace(file)


def _read() -> StandIns | None:
    try:
        return StandIns(**json.loads(_file().read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _folder() -> Path:
    return Layout(default_folder()).pulumi


def _file() -> Path:
    return _folder() / "stand-ins.json"
