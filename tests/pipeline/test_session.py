"""Starting Spark: what is refused before a JVM is."""

from __future__ import annotations

import pytest

from reput.errors import ConfigError
from reput.pipeline.engine import _failure
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


def test_a_master_that_nobody_reaches_is_named() -> None:
    """Spark ends its own context then, and its error says no more than that it is stopped."""
    stopped = Exception(": java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n\tat x")
    told = _failure(stopped, "spark://nohost:7077")
    assert "its master spark://nohost:7077 cannot be reached" in told
    assert (
        _failure(Exception(": java.io.IOException: full"), "local") == "a Spark job failed: java.io.IOException: full"
    )
