"""A partitioned-stateful operator: splitter, replicas, merger, keys, CPU frequency, migration of state."""
