"""Gossip in virtual time: the shipped core with its real bytes, over a network that can be spoiled."""
