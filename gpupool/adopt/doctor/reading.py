"""What becomes of a check that can't read what it needs: the one place that turns errors into results.

No check can end the others: whatever it raises is a result of its own, and what it yielded before stands.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

from gpupool.adopt.doctor.model import CheckResult, DoctorInput, result
from gpupool.adopt.doctor.reasons import Reason
from gpupool.findings import GpupoolError
from gpupool.live.cluster.kube_api import ApiError, UnreachableError

_FORBIDDEN = 403
_PACKAGE = "gpupool"


def guarded(subject: str, inputs: DoctorInput, rows: Iterator[CheckResult]) -> Iterator[CheckResult]:
    """`rows`, and in place of what could not be read a result about `subject` that says why.

    A server that does not answer is waited for once: the cluster counts as out of reach from then on.
    """
    try:
        yield from rows
    except ApiError as error:
        reason = Reason.FORBIDDEN if error.status == _FORBIDDEN else Reason.FAILED
        yield result(subject, reason, problem=error)
    except UnreachableError as error:
        inputs.api = None
        yield result(subject, Reason.SERVER_SILENT, problem=error)
    except GpupoolError as error:
        yield result(subject, Reason.FAILED, problem=error)
    except Exception as error:  # a fault of ours must not hide what other checks have to say
        # Neither its text nor its values: both may be what a Secret holds.
        yield result(subject, Reason.BROKEN, kind=type(error).__name__, place=_place(error))


def _place(error: BaseException) -> str:
    """The innermost line of gpupool's own, but for this module's."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if _PACKAGE in Path(frame.filename).parts] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}"
