"""Kills the pod of a running job, without the grace in which it could save; the job succeeds all the same."""

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
        job_name="chaos",
        gpu_pool_requested="notebooks",
        container_image="python:3.13",
        container_command=["python3", "-c", SCRIPT.read_text(encoding="utf-8")],
        env={"CHECKPOINT_DIR": folder, "STEPS": "80", "SAVE_EVERY": "10", "STEP_S": "0.1"},
        retries=0,
    )
    kill = [
        "kubectl",
        "delete",
        "pod",
        "--namespace",
        "team-vision",
        "--selector",
        f"gpupool.dev/job={job.id}",
    ]
    killed = False
    for line in job.logs(follow=True):
        print(line, flush=True)
        if line.startswith("step 15 ") and not killed:  # an attempt that goes on from step 10 comes by again
            killed = True
            print("the pod is killed", flush=True)
            subprocess.run([*kill, "--grace-period=0", "--force", "--wait=false", "-o", "name"], check=True)
    job = job.wait()
    for event in job.history():
        if event.type.endswith(".requeued"):
            print(f"attempt {event.change['attempt']} {event.change['outcome']}: {event.change['reason']}")
    print(f"{job.state}, {job.attempt} attempts, {job.disruptions} disrupted, {job.failures} failed")
