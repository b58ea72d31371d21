"""The GPU job queue: accept, decide, account, explain.

`domain` decides and knows no clock; `store` is the only SQL; `roles` move jobs along; `api` and `web` are
what people see; `service` puts them into processes. Pools, slots, tenants, limits and prices come from the
Plan. This package must not know how pools are generated, applied or run locally.
"""
