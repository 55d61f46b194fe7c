"""What the node does to the world; nothing here decides."""
