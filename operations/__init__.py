"""What is done to a running cluster beyond applying the file: assert, repartition, roll back.

Nothing here derives anything: what should be is in the Plan and the manifests.
"""
