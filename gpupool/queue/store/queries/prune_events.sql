-- The oldest events without a gap: those before the first that is to stay, or still to be published.
DELETE FROM gpu_events WHERE number IN (
    SELECT number FROM gpu_events
    WHERE position < coalesce(
        (SELECT min(position) FROM gpu_events WHERE at >= %(before)s OR published_at IS NULL),
        (SELECT position + 1 FROM gpu_event_stream))
    ORDER BY position LIMIT %(limit)s)
