"""Requests judged by policies: matching, evaluation, findings."""
