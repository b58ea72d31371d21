"""Monitoring of an environment: exporter settings, recording rules, alerts and dashboards.

Pure values from the Plan; `gpupool.generators.monitoring.objects` makes Kubernetes objects of them.
"""
