"""What `policy check` finds: targets are sorted and read, manifests judged as one bundle, environments by
their Plans. Nothing here prints."""
