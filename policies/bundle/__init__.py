"""Rules over a whole bundle: the Plan and its manifests together, for what no single object shows.

They are pure functions. What one object shows by itself belongs into a policy, not here.
"""
