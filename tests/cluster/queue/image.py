"""The image of the Dockerfile, and containers of it as a kubelet has them made, where neither a registry nor
the daemon of a container runtime is at hand.

The base image is a stand-in: Debian 12, of which python:3.11-slim-bookworm is made as well, with its own
Python 3.11. buildah builds, runc runs; both are Debian's. A container has the network of this machine, and no
seccomp profile. It must not know what the queue does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.required_programs import absent

Object = dict[str, Any]
ROOT = Path(__file__).parents[3]
DEBIAN = "bookworm"
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")
"""What this machine trusts; a build behind a proxy needs it."""
_PROGRAMS = ("buildah", "mmdebstrap", "runc")
_PROCESS_ID = "container.pid"
_BASE = "localhost/base"


@dataclass(frozen=True)
class Image:
    root: Path
    """Its files."""
    config: Object
    """As the OCI's image specification has it: Env, Entrypoint, User."""

    def command(
        self,
        folder: Path,
        pod: Object,
        arguments: list[str],
        env: Mapping[str, str],
        files: Mapping[str, Path],
    ) -> list[str]:
        """Runs the container of a pod, with other `arguments`, variables besides the image's, and folders of
        this machine at some paths."""
        (container,) = pod["containers"]
        folder.mkdir()
        subprocess.run(["runc", "spec", "--bundle", folder], check=True)
        config = json.loads((folder / "config.json").read_text())
        limits, user = container["securityContext"], pod["securityContext"]
        assert limits["capabilities"] == {"drop": ["ALL"]}
        config["process"] |= {
            "args": [*([] if "command" in container else self.config["Entrypoint"]), *arguments],
            "capabilities": {},
            "cwd": container.get("workingDir", "/"),
            "env": [*self.config["Env"], *(f"{name}={value}" for name, value in env.items())],
            "noNewPrivileges": not limits["allowPrivilegeEscalation"],
            "terminal": False,
            "user": {"uid": user["runAsUser"], "gid": user["runAsGroup"]},
        }
        config["root"] = {"path": str(self.root), "readonly": limits["readOnlyRootFilesystem"]}
        config["linux"]["namespaces"] = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
        empty = {volume["name"] for volume in pod["volumes"] if "emptyDir" in volume}
        config["mounts"] = [
            *(one for one in config["mounts"] if one["type"] not in ("cgroup", "sysfs")),
            *(
                {
                    "destination": one["mountPath"],
                    "type": "tmpfs",
                    "source": "tmpfs",
                    "options": ["mode=1777"],
                }
                for one in container["volumeMounts"]
                if one["name"] in empty
            ),
            *(
                {"destination": path, "type": "bind", "source": str(source), "options": ["rbind", "ro"]}
                for path, source in files.items()
            ),
        ]
        (folder / "config.json").write_text(json.dumps(config))
        name = f"gpupool-test-{os.getpid()}-{folder.name}"
        state = ["--root", str(folder / "state")]
        return ["runc", *state, "run", "--bundle", str(folder), "--pid-file", str(folder / _PROCESS_ID), name]


def seen(folder: Path) -> tuple[set[str], str]:
    """Of the container that was made in `folder`: user IDs of its process, and how its root is mounted."""
    process = Path("/proc") / (folder / _PROCESS_ID).read_text()
    (users,) = re.findall(r"^Uid:\t(.*)$", (process / "status").read_text(), re.MULTILINE)
    (options,) = re.findall(r"^\S+ / \S+ (\S+)", (process / "mounts").read_text(), re.MULTILINE)
    return set(users.split()), options


@contextmanager
def built(folder: Path) -> Iterator[Image]:
    """The image of this checkout; its files are in `folder` meanwhile."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        absent(f"an image is built by root with {', '.join(_PROGRAMS)}; Debian has them as packages")
    buildah = ["buildah", "--root", str(folder / "store"), "--runroot", str(folder / "run")]

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            [*command], capture_output=True, text=True, timeout=900, check=False, cwd=folder
        )
        assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
        return done.stdout.strip()

    try:
        run("mmdebstrap", "--variant=minbase", "--include=python3-venv,ca-certificates", DEBIAN, "base.tar")
        made = run(*buildah, "from", "scratch")
        run(*buildah, "add", made, "base.tar", "/")
        files = Path(run(*buildah, "mount", made))
        (files / "usr" / "local" / "bin" / "python").symlink_to("/usr/bin/python3")
        shutil.copy(TRUSTED, files / TRUSTED.relative_to("/"))
        paths = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
        run(*buildah, "config", "--env", f"PATH={paths}", "--env", f"PIP_CERT={TRUSTED}", made)
        run(*buildah, "commit", "--rm", made, _BASE)
        built_with = ("--pull=never", "--isolation=chroot", "--network=host", f"--build-arg=BASE={_BASE}")
        run(*buildah, "bud", *built_with, "--tag=gpupool", ROOT)
        described = json.loads(run(*buildah, "inspect", "--type", "image", "gpupool"))
        container = run(*buildah, "from", "gpupool")
        yield Image(Path(run(*buildah, "mount", container)), described["OCIv1"]["config"])
    finally:
        subprocess.run([*buildah, "unmount", "--all"], capture_output=True, check=False)
