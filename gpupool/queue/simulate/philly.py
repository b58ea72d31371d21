"""Microsoft's Philly trace: `cluster_job_log`, a JSON list of jobs with their attempts.

Its README (msr-fiddle/philly-traces) documents the fields. GPUs are counted in the placement of the first
attempt; times are local ones without a zone.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gpupool.findings import GpupoolError
from gpupool.queue.simulate.trace import Arrival, LeftOut, Trace, in_order
from vapcheck.reading import read_file

MAX_BYTES = 1 << 30
"""Of a trace: the largest public one of those that are known here, Philly's, has about 100 MB."""


def read_philly(file: Path, zone: timedelta | None) -> Trace:
    """Raises GpupoolError."""
    text = read_file(file, MAX_BYTES).decode("utf-8-sig")
    if zone is None:
        raise GpupoolError(f"{file}: its times have no time zone; add --zone, such as --zone -08:00")
    try:
        jobs = json.loads(text)
    except json.JSONDecodeError as error:
        raise GpupoolError(f"{file}:{error.lineno}:{error.colno}: is not JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise GpupoolError(
            f"{file}:1:1: is not a list of jobs: it is nested too deeply, or has a number with "
            "thousands of digits"
        ) from error
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise GpupoolError(f"{file}:1:1: is not a list of jobs, as cluster_job_log is")
    arrivals: list[Arrival] = []
    left_out = Counter[LeftOut]()
    for number, job in enumerate(jobs):
        try:
            arrival = _job(job, zone)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            fields = "submitted_time, vc, attempts with start_time, end_time and detail"
            raise GpupoolError(f"{file}: [{number}]: is not a Philly job, which has {fields}") from error
        if isinstance(arrival, LeftOut):
            left_out[arrival] += 1
        else:
            arrivals.append(arrival)
    return in_order(arrivals, left_out, "philly")


def _job(job: dict[str, Any], zone: timedelta) -> Arrival | LeftOut:
    attempts = job["attempts"]
    if not attempts or _missing(attempts[0]["start_time"]):
        return LeftOut.NO_START
    if _missing(attempts[-1]["end_time"]):
        return LeftOut.NO_END
    servers = [server["gpus"] for server in attempts[0]["detail"]]
    if not all(isinstance(gpus, list) for gpus in servers):
        raise TypeError("gpus")
    gpus = sum(map(len, servers))
    if not gpus:
        return LeftOut.NO_GPU
    runs = [attempt for attempt in attempts if not _missing(attempt["start_time"], attempt["end_time"])]
    seconds = sum(_seconds(run["end_time"], zone) - _seconds(run["start_time"], zone) for run in runs)
    return Arrival(_seconds(job["submitted_time"], zone), str(job["vc"]), None, gpus, None, max(0.0, seconds))


def _missing(*times: object) -> bool:
    return any(time in (None, "None", "") for time in times)


def _seconds(text: str, zone: timedelta) -> float:
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1) - zone).total_seconds()
