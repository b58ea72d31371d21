"""The queue's database: PostgreSQL, and the only SQL of gpupool.

A statement is a file in `queries`; a function here runs one or a few of them in one transaction and returns
values of `gpupool.queue.records`. Transitions are guarded by what they start from: job, attempt, state and,
for the leader's, the epoch.
"""
