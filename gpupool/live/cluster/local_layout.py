"""Where one control plane stores its files: every path of an instance, and nothing but paths.

All of it lies under one folder, which only its owner can enter; `down` removes the folder. So whatever
must vanish with the control plane (the Pulumi state of the stack `local`, for one) belongs in here. What the
commands of pods write lies elsewhere for root, because they run as another account.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from gpupool.environment import project

_FOR_ALL = Path("/var/tmp")  # noqa: S108 - what is there already and not ours is refused
CONTEXT = "gpupool-local"
"""The name of context, cluster and user in the kubeconfig."""


def default_folder() -> Path:
    """The data folder when none is named: GPUPOOL_LOCAL_DIR, or .gpupool/local in the project."""
    given = os.environ.get("GPUPOOL_LOCAL_DIR")
    return Path(given).expanduser().absolute() if given else project.root() / project.OWN / "local"


@dataclass(frozen=True)
class Layout:
    """The paths of the control plane whose data folder is `data` (absolute)."""

    data: Path

    @property
    def marker(self) -> Path:
        """Says that the folder is a control plane's own: the first thing in it, and the last to go.

        Where it is missing nothing may be changed or removed, whatever the folder's name.
        """
        return self.data / "gpupool-local"

    @property
    def owned(self) -> bool:
        """Whether the folder exists and is a control plane's own."""
        return os.path.isfile(self.marker)  # unlike Path.is_file, False where it can't be looked at

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, mode 0600, for people and tests."""
        return self.data / "kubeconfig"

    @property
    def state(self) -> Path:
        """What runs: ports, and pid with start mark of each component."""
        return self.data / "state.json"

    @property
    def logs(self) -> Path:
        """One <component>.log each; kept when a start fails."""
        return self.data / "logs"

    @property
    def pki(self) -> Path:
        """The API server's certificate and key; it makes them itself at the first start."""
        return self.data / "pki"

    @property
    def certificate(self) -> Path:
        """The API server's certificate together with the one that signed it: what clients trust."""
        return self.pki / "apiserver.crt"

    @property
    def service_account_key(self) -> Path:
        """The private key that signs service account tokens."""
        return self.pki / "service-account.key"

    @property
    def tokens(self) -> Path:
        """The API server's --token-auth-file."""
        return self.pki / "tokens.csv"

    @property
    def kubelet(self) -> tuple[Path, Path]:
        """Certificate and key with which API server and pod runner prove themselves to each other."""
        return self.pki / "kubelet.crt", self.pki / "kubelet.key"

    @property
    def pulumi(self) -> Path:
        """The place for Pulumi state that belongs to this control plane and goes when it goes.

        Made by `up`; the control plane itself never reads it.
        """
        return self.data / "pulumi"

    @property
    def commands(self) -> Path:
        """Work folders and volumes of the pods that run as processes; `down` removes it as well.

        For root not under `data`, which the account of these processes (`gpupool.programs.local_command`)
        can't enter.
        """
        if os.geteuid() != 0:
            return self.data / "commands"
        return _FOR_ALL / f"gpupool-commands-{hashlib.sha256(os.fsencode(self.data)).hexdigest()[:12]}"

    def log(self, component: str) -> Path:
        """The log file of one component."""
        return self.logs / f"{component}.log"

    def kubeconfig_of(self, component: str) -> Path:
        """The kubeconfig of one component: its own user, so that it shows who did what."""
        return self.data / "components" / f"{component}.kubeconfig"

    def config_of(self, component: str, suffix: str) -> Path:
        """A configuration file written for one component."""
        return self.data / "components" / f"{component}{suffix}"
