"""The central autoscaler: sources -> snapshot -> decide -> plan -> guards -> operations -> executors."""
