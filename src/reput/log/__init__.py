"""The CommitLog: its files, and what they hold."""
