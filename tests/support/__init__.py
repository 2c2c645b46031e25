"""Helpers of several test packages: golden stores, and builders of records and logs."""
