SELECT DISTINCT ON (lane) lane, offers FROM gpu_lanes WHERE lane = ANY(%(lanes)s)
