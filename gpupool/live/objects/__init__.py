"""Kubernetes objects as plain values: how two of them differ, who set which field, and who owns them.

This package does not query clusters.
"""
