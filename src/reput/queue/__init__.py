"""The kinds of ConsumeQueue as they lie on disk."""
