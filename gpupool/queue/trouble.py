"""What keeps the queue from working on its cluster, and how that is said.

The process that leads finds it out and writes it into the database, where every other one reads it: the API,
which may not see the cluster itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

TAKE_OVER = "gpupool serve ENV --take-over"
"""What an administrator runs to let this database have the cluster."""


class TroubleKind(StrEnum):
    UNREACHABLE = "unreachable"
    """The API server does not answer."""
    REFUSED = "refused"
    """It answers, and does not let the queue in: its credential, its rights."""
    OTHERS = "others"
    """The cluster belongs to the queue of another database."""
    RESTORED = "restored"
    """It belongs to a later state, or a copy, of this database; or the cluster itself was restored."""
    UNKNOWN_JOBS = "unknown-jobs"
    """It has no Lease, and Jobs of a queue that this database does not know."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """`about`: what is in the way, by its kind: an error, the other's id, how many Jobs."""

    kind: TroubleKind
    server: str
    since: datetime
    about: str

    @property
    def keeps_off(self) -> bool:
        """Whether the cluster is another queue's, until an administrator says otherwise."""
        return self.kind in _KEEP_OFF

    @property
    def whose(self) -> str:
        """What an administrator lets the queue take over; the same for as long as it is this trouble."""
        return (
            f"{self.kind} {self.about}"
            if self.kind in (TroubleKind.OTHERS, TroubleKind.RESTORED)
            else self.kind.value
        )

    def as_dict(self) -> dict[str, str]:
        return {
            "kind": self.kind.value,
            "server": self.server,
            "since": self.since.isoformat(),
            "about": self.about,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Trouble:
        """The inverse of `as_dict`."""
        since = datetime.fromisoformat(values["since"])
        return cls(TroubleKind(values["kind"]), values["server"], since, values["about"])

    def __str__(self) -> str:
        since = f"since {self.since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        return _SENTENCES[self.kind].format(server=self.server, since=since, about=self.about)


_KEEP_OFF = frozenset({TroubleKind.OTHERS, TroubleKind.RESTORED, TroubleKind.UNKNOWN_JOBS})
_NOTHING = "so that this one starts and ends nothing there"
_ON_PURPOSE = f"to take the cluster over on purpose, run `{TAKE_OVER}`"
_SENTENCES = {
    TroubleKind.UNREACHABLE: "the cluster at {server} can't be reached {since}: {about}",
    TroubleKind.REFUSED: "the cluster at {server} does not let the queue in {since}: {about}; apply the "
    "environment to it (gpupool up ENV), or renew the credential",
    TroubleKind.OTHERS: "the cluster at {server} belongs to the queue of another database ({about}), "
    f"{_NOTHING} {{since}}; stop one of the two, or give one another cluster; {_ON_PURPOSE}",
    TroubleKind.RESTORED: "the cluster at {server} has the mark of a later state, or of a copy, of this "
    f"database ({{about}}), {_NOTHING} {{since}}: one of them was restored from a backup, or the copy runs "
    f"elsewhere; {_ON_PURPOSE}",
    TroubleKind.UNKNOWN_JOBS: "the cluster at {server} has Jobs of a queue that this database does not know "
    f"({{about}}), {_NOTHING} {{since}}; {_ON_PURPOSE}",
}
