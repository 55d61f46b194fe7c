"""What the world says, turned into readings; nothing here judges."""
