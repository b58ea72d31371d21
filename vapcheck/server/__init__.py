"""How an API server processes an object before policies see it: kinds, schemas, defaults, addresses."""
