"""What the Python client can do, in the order in which one needs it."""

from __future__ import annotations

from itertools import takewhile

from gpupool.client import ApiError, Client

IMAGE = "python:3.13"

with Client(tenant="vision") as client:
    # What would it cost, and would it start now? This makes no job.
    forecast = client.validate_job(gpu_pool_requested="t4", container_image=IMAGE, timeout_seconds=3600)
    print(f"estimate: {forecast.offers[0].pool}, at most ${forecast.estimate_usd:.2f} for an hour")

    # Submit, wait, read what it printed.
    job = client.submit_job(
        job_name="hello",
        gpu_pool_requested="t4",
        container_image=IMAGE,
        container_command=["python3", "-c", "print('hello from a slice')"],
        project_id="detector",
        budget_limit_usd=1.0,
    )
    job = job.wait(timeout=120)
    print(f"wait: {job.state} on {job.pool}")
    print("logs:", *job.logs())
    print("events:", ", ".join(event.type.split(".")[3] for event in job.history()))

    # A job that waits says for what; until it runs it may be changed, and it may be cancelled at any time.
    long = client.submit_job(
        job_name="long", gpu_pool_requested="t4", container_image=IMAGE, container_command=["sleep", "60"]
    )
    waiting = client.submit_job(
        job_name="after", gpu_pool_requested="t4", container_image=IMAGE, depends_on=long.id
    )
    why = waiting.why()
    print(f"why: {why.waiting.reason}" if why.waiting else "why: not waiting")
    print(f"priority: {waiting.set_priority('high').priority}")
    for one in (waiting, long):
        print(f"cancel: {one.job_name} is {one.cancel().wait(timeout=120).state}")

    # The newest jobs first, and the events of all jobs from the first on; without `after`, from now on.
    newest = next(client.jobs(project="detector"))
    print(f"list: {newest.job_name} {newest.state}")
    seen = takewhile(lambda event: event.job != waiting.id, client.events(after=0))
    print(f"stream: {sum(event.job == job.id for event in seen)} events of {job.job_name}")

    # A Ray cluster is made by KubeRay: this is its manifest, and nothing is submitted.
    cluster = client.create_ray_cluster("training", min_workers=1, max_workers=2, gpu_count=4)
    workers = cluster["spec"]["workerGroupSpecs"][0]
    print(
        f"ray: {workers['minReplicas']} to {workers['maxReplicas']} workers, {len(cluster.yaml)} characters"
    )

    # Errors have a type, and say what to do.
    try:
        client.submit_job(gpu_pool_requested="t5", container_image=IMAGE)
    except ApiError as error:
        print(f"refused: {error}")
