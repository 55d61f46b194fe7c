"""The per-node daemon: watches its own GPUs, joins and leaves Ray, says why.

Data flows one way: sensors -> readings -> rules -> findings -> verdict -> policy -> actuators, publish.
"""
