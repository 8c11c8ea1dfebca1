"""What is remembered and shown: records, counters, metrics, the admin port, the report."""
