"""One tenant fills a pool beyond its grant; the other comes back, has its own again, and no step is lost."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from gpupool.client import Client
from gpupool.client.sync_client import Job

SCRIPT = (Path(__file__).parents[1] / "training-checkpoint" / "train.py").read_text(encoding="utf-8")
TRAININGS, GRANT, STEPS = 7, 4, 100


def training(client: Client, folder: Path) -> Job:
    folder.mkdir()
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody")  # as whom commands run where root started gpupool
    return client.submit_job(
        job_name=f"borrowing-{folder.name}",
        gpu_pool_requested="training",
        container_image="python:3.13",
        container_command=["python3", "-c", SCRIPT],
        # No checkpoint is due before the end: what is saved is saved at SIGTERM.
        env={"CHECKPOINT_DIR": str(folder), "STEPS": str(STEPS), "SAVE_EVERY": "1000", "STEP_S": "0.4"},
        priority="low",  # the level that may be preempted: no other job borrows
        retries=0,
    )


def started(jobs: list[Job]) -> list[Job]:
    """The jobs once all of them run."""
    while any(job.state in ("queued", "scheduled") for job in jobs):
        time.sleep(0.2)
        jobs = [job.refresh() for job in jobs]
    return jobs


with (
    Client(tenant="vision") as vision,
    Client(tenant="serving") as serving,
    tempfile.TemporaryDirectory() as top,
):
    Path(top).chmod(0o711)
    trainings = started([training(vision, Path(top, str(number))) for number in range(TRAININGS)])
    borrowed = sum(job.borrowed for job in trainings)
    print(f"{TRAININGS} trainings of vision run, {borrowed} of them borrowed", flush=True)

    since = time.monotonic()
    mine = started(
        [
            serving.submit_job(
                job_name="back",
                gpu_pool_requested="training",
                container_image="busybox:1.37",
                container_command=["sleep", "20"],  # longer than the least runtime: all four at once
            )
            for _ in range(GRANT)
        ]
    )
    print(f"serving is back at its {GRANT} GPUs after {time.monotonic() - since:.0f} s", flush=True)

    trainings = [job.wait() for job in trainings]
    succeeded = sum(job.state == "succeeded" for job in trainings)
    disrupted = sum(job.disruptions for job in trainings)
    print(f"{succeeded} trainings succeeded, {disrupted} gave way meanwhile")
    printed = [[line.split()[1] for line in job.logs() if line.startswith("step ")] for job in trainings]
    whole = sum(steps == [str(step + 1) for step in range(STEPS)] for steps in printed)
    print(f"{whole} of {TRAININGS} did each of their {STEPS} steps once")
