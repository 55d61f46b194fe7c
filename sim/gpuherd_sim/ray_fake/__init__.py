"""Ray as its users see it, in virtual time: head, raylets, tasks, drains and the key-value store.

Semantics and times are those measured on Ray 2.60; each has a test that names its source.
"""
