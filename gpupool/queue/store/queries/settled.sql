-- What was ever settled, by account: an account has a row for each period, and none is ever deleted.
SELECT name, sum(spent_micro)::bigint AS micro FROM gpu_accounts GROUP BY name
