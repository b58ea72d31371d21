"""What a change of the environment files would do, reported to its reviewers: read, compare, draw, write.

Nothing here changes a cluster or a file of the project.
"""
