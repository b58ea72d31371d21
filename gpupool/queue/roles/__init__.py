"""The processes that advance jobs, one module per role: dispatcher, executor, relay, janitor, alerts.

Each runs alone or beside the others in one process; whatever two of them must agree on is in the database.
"""
