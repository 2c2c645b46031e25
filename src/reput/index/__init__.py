"""IndexFiles as they lie on disk."""
