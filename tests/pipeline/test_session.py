"""Starting Spark: what is refused before a JVM is."""

from __future__ import annotations

import pytest

from reput.errors import ConfigError
from reput.pipeline.session import refuse_unknown_master


@pytest.mark.parametrize(
    "master",
    ["local", "local[1]", "local[*]", "local[4,2]", "local-cluster[2, 1, 1024]", "spark://a:7077", "yarn", "k8s://x:1"],
)
def test_masters(master: str) -> None:
    """Every form of Spark's master URL passes."""
    refuse_unknown_master(master)


@pytest.mark.parametrize("master", ["", "foo", "local[0]", "local[]", "local[-1]", "localhost:7077", "spark://"])
def test_no_masters(master: str) -> None:
    """What is no master URL is refused by name, not by a Java stack trace."""
    with pytest.raises(ConfigError, match="no Spark master URL"):
        refuse_unknown_master(master)
