"""What is done to a running cluster beyond applying the file: hold it to the file, repartition it, roll it back.

Nothing here derives anything: what should be is in the Plan and the manifests.
"""
