"""What is measured of an environment, and what is made of it: exporter settings, rules, alerts, dashboards.

Pure values from the Plan. Objects of Kubernetes are made of them in `gpupool.generators.monitoring.objects`.
"""
