"""Options that several verbs share, and what they become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import click

from reput.config import StoreConfig

LOOP, SPARK = "loop", "spark"


def _together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


store_argument = click.argument("store", type=click.Path(path_type=str))

json_option = click.option("--json", "as_json", is_flag=True, help="Give JSON instead of text.")

config_options = _together(
    click.option(
        "--config",
        "config_path",
        type=click.Path(dir_okay=False),
        help="RocketMQ's own broker.conf. Without it the store's files tell, then RocketMQ's defaults.",
    ),
    click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="NAME=VALUE",
        help="One setting under RocketMQ's name, such as mappedFileSizeConsumeQueue=6000000. May be given again.",
    ),
)

engine_options = _together(
    click.option("--master", help="Spark master URL.  [default: local[*], embedded, nothing else to start]"),
    click.option(
        "--engine",
        type=click.Choice([SPARK, LOOP]),
        default=SPARK,
        show_default=True,
        help="loop runs the same tasks one after the other in this process, without Java.",
    ),
    click.option(
        "--splits-mb",
        type=click.FloatRange(min=0.001, max=1024),
        default=128,
        show_default=True,
        help="Size of the log ranges that tasks decode; memory per worker follows it.",
    ),
    click.option("--no-verify-crc", is_flag=True, help="Do not check the CRC of each body."),
)


def config_of(config_path: str | None, assignments: tuple[str, ...]) -> StoreConfig:
    """The settings from `--config` and `--set`."""
    config = StoreConfig.from_file(config_path) if config_path else StoreConfig()
    return config.updated(assignments)


def spark_of(engine: str) -> Literal[False] | None:
    """What `reput.rebuild(spark=...)` takes for `--engine`."""
    return False if engine == LOOP else None
