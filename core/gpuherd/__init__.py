"""Words that the agent, the autoscaler and agentctl must mean the same by.

Everything here outside ``shell/`` is pure: no clock, socket, file or random of its own.
"""

__version__ = "0.1.0"
