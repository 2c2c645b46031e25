"""`reput prepare`: prepare quick starts, once for each machine and user."""

from __future__ import annotations

import click

from reput.cli.shared import output


@click.command()
def prepare() -> int:
    """Compile the kernels and make the archive from which Spark's JVM starts faster.

    Run it once for each machine and user. It takes half a minute, and later starts of `rebuild` and `check` take two
    seconds less. Everything also works without it.

    \b
    reput prepare
    """  # noqa: D301 - click wants the control character
    from reput.kernels.warm import (
        warm_field_kernels,
        warm_filter_kernels,
        warm_key_kernels,
        warm_line_kernels,
        warm_store_kernels,
        warm_table_kernels,
    )
    from reput.pipeline.spark.jvm_archive import java_command, make_archive
    from reput.pipeline.spark.session import has_pyspark

    warm_store_kernels()
    warm_field_kernels()
    warm_filter_kernels()
    warm_line_kernels()
    warm_table_kernels()
    warm_key_kernels()
    output.say("kernels: compiled and cached")
    if not has_pyspark():
        output.say("Spark: PySpark is not installed (pip install 'reput[spark]'), so there is nothing to prepare")
        return 0
    if java_command() is None:
        output.say("Spark: no Java found, so no archive; install Java 17 or later for Spark")
        return 0
    archive = make_archive()
    output.say(f"Spark: {archive}" if archive else "Spark: the archive could not be made; Spark starts without it")
    return 0
