"""The queue's jobs as Kubernetes Jobs: their manifests, their observed status, and its interpretation.

`roles/launcher` acts on it. It must not decide which job runs, or write to the database.
"""
