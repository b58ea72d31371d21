"""Pictures of the dashboards for docs: `make pictures`."""
