"""Submits train.py to four GPUs of the pool `training`. Its first attempt crashes at step 25; the queue tries
again, and the second attempt goes on from the checkpoint of step 20."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from gpupool.client import Client

SCRIPT = Path(__file__).with_name("train.py").read_text(encoding="utf-8")

with Client(tenant="vision") as client, tempfile.TemporaryDirectory(prefix="checkpoints-") as folder:
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody")  # as whom commands run where root started gpupool
    job = client.submit_job(
        job_name="training-checkpoint",
        gpu_pool_requested="training",
        gpu_count=4,
        container_image="python:3.13",
        container_command=["python3", "-c", SCRIPT],
        # On this machine a folder; on a cluster leave it out and give checkpoint_s3_path="s3://...".
        env={"CHECKPOINT_DIR": folder, "STEPS": "40", "SAVE_EVERY": "10", "CRASH_AT": "25"},
        retries=1,
    )
    for line in job.logs(follow=True):
        print(line)
    job = job.wait()
    print(f"{job.state} on {job.pool}, {job.attempt} attempts, {job.failures} failed")
