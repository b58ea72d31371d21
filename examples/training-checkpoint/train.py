"""Fits a line by gradient descent, and goes on where an earlier attempt of the same job stopped.

It saves a checkpoint every SAVE_EVERY steps and when it is asked to stop (SIGTERM): into the folder
CHECKPOINT_DIR if that is set, else to GPUPOOL_CHECKPOINT_URI, which the queue sets from checkpoint_s3_path
(fsspec and s3fs must be in the image for that). CRASH_AT: the first attempt fails at this step.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

STEPS = int(os.environ.get("STEPS", "40"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "10"))
CRASH_AT = int(os.environ.get("CRASH_AT", "0"))
STEP_S = float(os.environ.get("STEP_S", "0.05"))
GPUS = int(os.environ["GPUPOOL_GPUS"])
ATTEMPT = int(os.environ["GPUPOOL_ATTEMPT"])
FOLDER = os.environ.get("CHECKPOINT_DIR") or os.environ["GPUPOOL_CHECKPOINT_URI"].rstrip("/")
CHECKPOINT = f"{FOLDER}/{os.environ['GPUPOOL_JOB_ID']}.json"

DATA = [(x / 20, 3 * x / 20 + 2) for x in range(-20, 20)]
SHARDS = [DATA[gpu::GPUS] for gpu in range(GPUS)]
"""Each GPU's part of the data. A real training runs a process per GPU; here they take turns."""

stop = False


def ask_to_stop(*_: object) -> None:
    """Finish the step first: half of one can't be saved."""
    global stop
    stop = True


def load() -> dict[str, Any]:
    try:
        if "://" in CHECKPOINT:
            import fsspec

            with fsspec.open(CHECKPOINT, "r") as file:
                return json.load(file)
        with open(CHECKPOINT, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {"step": 0, "weight": 0.0, "bias": 0.0}


def save(state: dict[str, Any]) -> None:
    """The whole checkpoint or the one before, never half of one: objects appear whole, files by a rename."""
    if "://" in CHECKPOINT:
        import fsspec

        with fsspec.open(CHECKPOINT, "w") as file:
            json.dump(state, file)
        return
    with open(f"{CHECKPOINT}.new", "w", encoding="utf-8") as file:
        json.dump(state, file)
    os.replace(f"{CHECKPOINT}.new", CHECKPOINT)


def gradient(shard: list[tuple[float, float]], weight: float, bias: float) -> tuple[float, float, float]:
    """Of the mean squared error, and the error itself."""
    errors = [(weight * x + bias - y, x) for x, y in shard]
    size = len(shard)
    return (
        sum(2 * error * x for error, x in errors) / size,
        sum(2 * error for error, _ in errors) / size,
        sum(error**2 for error, _ in errors) / size,
    )


def train_step(state: dict[str, Any]) -> float:
    """One step down the mean of all shards' gradients; returns the loss before it."""
    parts = [gradient(shard, state["weight"], state["bias"]) for shard in SHARDS]
    by_weight, by_bias, loss = (sum(column) / GPUS for column in zip(*parts, strict=True))
    state["weight"] -= 0.3 * by_weight
    state["bias"] -= 0.3 * by_bias
    state["step"] += 1
    return loss


signal.signal(signal.SIGTERM, ask_to_stop)
state = load()
print(f"attempt {ATTEMPT} on {GPUS} GPUs starts at step {state['step']}", flush=True)
while state["step"] < STEPS:
    time.sleep(STEP_S)
    loss = train_step(state)
    print(f"step {state['step']} loss {loss:.6f}", flush=True)
    if stop:
        save(state)
        print(f"asked to stop: step {state['step']} is saved", flush=True)
        sys.exit(128 + signal.SIGTERM)
    if state["step"] % SAVE_EVERY == 0:
        save(state)
    if state["step"] == CRASH_AT and ATTEMPT == 1:
        sys.exit("out of memory, as it were")
save(state)
print(f"y = {state['weight']:.3f} x + {state['bias']:.3f}")
