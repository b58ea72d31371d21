UPDATE gpu_event_stream SET published = greatest(published, %(position)s)
