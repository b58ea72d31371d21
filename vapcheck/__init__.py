"""Evaluates ValidatingAdmissionPolicies offline, as the API server does.

The engine is general: it knows manifests, policies and CEL, and nothing of GPUs, pools or environments.
"""
