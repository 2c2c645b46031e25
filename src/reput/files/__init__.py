"""The only code that calls the operating system: open, map, write, sync, rename, lock."""
