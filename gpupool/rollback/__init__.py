"""The last good states of an environment, and the way back to one."""
