"""Triggers: what beside Ray's queue asks for nodes. Each is read on its own and may fail on its own."""
