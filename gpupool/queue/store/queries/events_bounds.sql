SELECT s.position AS latest, coalesce((SELECT min(position) FROM gpu_events), s.position + 1) AS oldest
FROM gpu_event_stream s
