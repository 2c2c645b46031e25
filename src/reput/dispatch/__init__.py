"""Record columns to ConsumeQueue entries and index items; pure."""
