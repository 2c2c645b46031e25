"""The store as a whole: what it is, its settings, its lock, its rules."""
