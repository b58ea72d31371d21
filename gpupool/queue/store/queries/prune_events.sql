-- The oldest events without a gap: those before the first that is to stay, or still to be published.
DELETE FROM gpu_events WHERE number IN (
    SELECT number FROM gpu_events
    WHERE position <= (SELECT published FROM gpu_event_stream) AND position < coalesce(
        (SELECT min(position) FROM gpu_events WHERE at >= %(before)s),
        (SELECT position + 1 FROM gpu_event_stream))
    ORDER BY position LIMIT %(limit)s)
