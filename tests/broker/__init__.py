"""Tests of the broker for real clients."""
