"""A bucket of consistent hashing is Guava's, and stays the same for most keys when there is one bucket more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.java.consistent_hash import consistent_bucket

GUAVA = [0, 55, 62, 8, 45, 59, 86, 97, 82, 59, 73, 37, 17, 56, 86, 21, 90, 37, 38, 83]
"""The buckets of the keys from 0 on among 100, as Guava's own tests have them."""


@pytest.mark.parametrize(
    ("key", "buckets", "bucket"),
    [
        *((key, 100, bucket) for key, bucket in enumerate(GUAVA)),
        (10863919174838991, 11, 6),
        (2016238256797177309, 11, 3),
        (1673758223894951030, 11, 5),
        (2, 100001, 80343),
        (2201, 100001, 22152),
        (2202, 100001, 15018),
    ],
)
def test_buckets_are_guavas(key: int, buckets: int, bucket: int) -> None:
    """The values of Guava's own tests."""
    assert consistent_bucket(key, buckets) == bucket


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(1, 2000))
def test_one_bucket_more_takes_keys_and_moves_no_others(key: int, buckets: int) -> None:
    """A key stays where it is, or goes to the new bucket."""
    before, after = consistent_bucket(key, buckets), consistent_bucket(key, buckets + 1)
    assert 0 <= before < buckets
    assert after in {before, buckets}
