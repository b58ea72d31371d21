"""Trains on a spot node, takes the node away meanwhile, and shows that the job goes on where it stopped."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from gpupool.client import Client

SCRIPT = Path(__file__).parents[1] / "training-checkpoint" / "train.py"

with Client(tenant="vision") as client, tempfile.TemporaryDirectory(prefix="checkpoints-") as folder:
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody")  # as whom commands run where root started gpupool
    job = client.submit_job(
        job_name="spot-preemption",
        gpu_pool_requested="research-a100",
        container_image="python:3.13",
        container_command=["python3", "-c", SCRIPT.read_text(encoding="utf-8")],
        # No checkpoint is due before the end: what is saved is saved at SIGTERM.
        env={"CHECKPOINT_DIR": folder, "STEPS": "100", "SAVE_EVERY": "1000", "STEP_S": "0.1"},
        retries=0,
        preemptible=True,
    )
    for line in job.logs(follow=True):
        print(line, flush=True)
        if line.startswith("step 10 "):
            started = next(event for event in job.history() if event.type.endswith(".started"))
            node = started.change["node"]
            print(f"the {job.refresh().capacity_type} node goes away", flush=True)
            subprocess.run(["kubectl", "delete", "node", node, "--wait=false", "-o", "name"], check=True)
    job = job.wait()
    for event in job.history():
        if event.type.endswith(".requeued"):
            print(f"attempt {event.change['attempt']} {event.change['outcome']}: {event.change['reason']}")
    print(f"{job.state}, {job.attempt} attempts, {job.disruptions} disrupted, {job.failures} failed")
