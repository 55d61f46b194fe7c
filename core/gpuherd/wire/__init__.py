"""Documents that cross the broker: their topics, fields and bounded decoding."""
