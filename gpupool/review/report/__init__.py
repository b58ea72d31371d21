"""The report on a change of environment files: read both states, compare them, and render the result.

Nothing here changes a cluster or a file of the project.
"""
