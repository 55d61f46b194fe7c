"""Gossip between nodes: who is well, who is gone, decided without a centre.

Sans I/O: bytes and kernel evidence go in, bytes and events come out. Nothing here reads a clock, opens a
socket or draws chance of its own; ``gossip.Gossip`` is the one object that a shell holds.
"""
