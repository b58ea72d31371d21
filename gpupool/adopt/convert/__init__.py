"""Converts hand-written GPU settings, or those of a cluster, into an environment file.

Pure: objects in, text and a list of what could not be carried over out. Nothing here reads files or clusters.
"""
