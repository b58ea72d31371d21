"""The commands that need the job queue: submit and follow jobs, serve, keys, simulate, recommend."""
