"""From sources to snapshots: which cluster, which hosts, what they say together, why something waits, and what is wrong."""
