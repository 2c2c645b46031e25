"""What several test packages share: golden stores, and builders of records and logs."""
