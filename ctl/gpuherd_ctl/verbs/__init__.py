"""The verbs of agentctl."""
