"""The last good states of an environment, and the rollback to one."""
