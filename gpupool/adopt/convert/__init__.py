"""What was written by hand, or is in a cluster -> an environment file.

Pure: objects in, text and a list of what could not be carried over out. Nothing here reads files or clusters.
"""
