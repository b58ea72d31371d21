"""What an API server makes of an object before policies see it: kinds, schemas, defaults, addresses."""
