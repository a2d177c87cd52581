"""Everything that touches Spark: sessions, sources, the micro-batch runtime, queries, actuators."""
