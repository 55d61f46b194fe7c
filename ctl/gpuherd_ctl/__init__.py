"""agentctl: one file per verb; imports core only and stays off heavy libraries on the hot path."""
