-- Waits for transactions that may have found a lane there and not committed their job yet.
LOCK TABLE gpu_lanes IN SHARE ROW EXCLUSIVE MODE
