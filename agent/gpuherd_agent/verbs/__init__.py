"""What the agent does once when it is told to: one verb a file, all of them in ``catalog``."""
