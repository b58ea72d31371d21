"""The queue's jobs as Jobs of a Kubernetes cluster: how they look, what is seen of them, what that means.

`roles/launcher` acts on it. It must not decide which job runs, or write to the database.
"""
