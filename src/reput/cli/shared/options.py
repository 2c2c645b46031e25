"""Options that several verbs share, and the values that they become."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from reput.cli.shared import output
from reput.config import FOUND_IN_STORE, StoreConfig, parse_properties, setting_names


def _together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


class WholeNumber(click.IntRange):
    """The type of an option that takes a whole number."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002 - click asks so
        """Return the name of the value in the help; the range follows it there."""
        return "INTEGER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number.

        Raises:
            click.BadParameter: It is no whole number, or it is out of range.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            extent = f"of at least {self.min}" if self.max is None else f"from {self.min} to {self.max}"
            self.fail(f"{value!r}: give a whole number {extent}", param, ctx)


class PlaceNumber(click.types.IntParamType):
    """The type of an option that takes a place to begin: a whole number, negative to count from the end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number.

        Raises:
            click.BadParameter: It is no whole number.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r}: give a whole number; a negative one counts from the end", param, ctx)


class Mebibytes(click.FloatRange):
    """The type of an option that takes a size in MiB."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number.

        Raises:
            click.BadParameter: It is no number, or it is out of range.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r}: give a number of MiB from {self.min} to {self.max}", param, ctx)


FILE_PATH = click.Path(dir_okay=False, readable=False)
"""The type of an option that names a file; who reads it refuses one that is not there."""


class StorePath(click.Path):
    """The type of an argument that names a store."""

    def __init__(self) -> None:
        super().__init__(path_type=str, readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.

        Raises:
            click.BadParameter: It is empty: an unset variable of a shell must not become the current folder.
        """
        if not value:
            self.fail("the path is empty. Give the folder of a store; '.' is the current one", param, ctx)
        return super().convert(value, param, ctx)


store_argument = click.argument("store", type=StorePath())

json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON instead of text.")
json_lines_option = click.option(
    "--json", "as_json", is_flag=True, help="Write a JSON object on each line instead of text."
)
body_option = click.option(
    "--body-bytes", type=WholeNumber(0), help="The most bytes of each body. Without it text shows no bodies."
)

config_options = _together(
    click.option(
        "--config",
        "config_path",
        type=FILE_PATH,
        help="The broker's broker.conf. Without it the store's files decide, then RocketMQ's defaults.",
    ),
    click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting by RocketMQ's name, such as mappedFileSizeConsumeQueue=6000000. May be given again.",
    ),
)

_master_option = click.option(
    "--master", help="The URL of a Spark master, which runs all tasks. --spark alone means local[*], this machine."
)

_FORCED = "reput.force_setting"


def _keep_force(ctx: click.Context, _option: click.Parameter, is_given: bool) -> None:
    ctx.meta[_FORCED] = is_given


force_setting_option = click.option(
    "--force-setting",
    is_flag=True,
    expose_value=False,
    callback=_keep_force,
    help="Continue if a given setting contradicts the store's files (a file size, storePathRootDir). The setting wins.",
)
"""An option of verbs that write; `config_of` puts it into the settings."""


def _spark(default: str) -> Callable[[Any], Any]:
    """Return the option `--spark`; `default` says where the tasks run without it."""
    return click.option(
        "--spark/--no-spark",
        default=None,
        help="--spark runs all tasks in Spark. --no-spark runs them one after the other in this process, without "
        f"Java.  [default: {default}]",
    )


_spark_option = _spark("threads of this process run them; for the rest of a long job Spark is started")
_follow_spark_option = _spark(
    "--spark, but --no-spark if PySpark is not installed, or if --until-caught-up has less than 64 MiB to take in and "
    "no --master is given"
)

_quiet_option = click.option("--quiet", is_flag=True, help="Write no progress, assumptions or notes to stderr.")

verify_crc_option = click.option(
    "--verify-crc/--no-verify-crc", default=True, help="Check the CRC of each body.  [default: on]"
)

_split_options = _together(
    click.option(
        "--split-mb",
        type=Mebibytes(min=0.001, max=1024),
        default=128,
        show_default=True,
        help="Size of the log ranges that tasks decode (MiB). The memory of a task grows with it.",
    ),
    verify_crc_option,
)


def dry_run_option(what_is_done: str) -> Callable[[Any], Any]:
    """Return the option `--dry-run`; `what_is_done` says what the verb does with parts of a store."""
    return click.option(
        "--dry-run", is_flag=True, help=f"Change nothing. Show what would be {what_is_done}, or the error."
    )


ROWS_SHOWN = 100


def most_option(help_text: str, noun: str = "messages") -> Callable[[Any], Any]:
    """Return the option `-c`, the most messages; or the most of another `noun`."""
    return click.option("-c", f"--max-{noun}", type=WholeNumber(0), help=help_text)


def rows_option(noun: str = "messages") -> Callable[[Any], Any]:
    """Return the option `-c` of verbs that show rows and totals; `most_rows` has its default."""
    return most_option(f"The most rows; totals count all.  [default: {ROWS_SHOWN}, all with --json]", noun)


def most_rows(asked: int | None, as_json: bool) -> int | None:
    """Return the most rows to show, for the value of `rows_option`; None for all."""
    return asked if asked is not None else None if as_json else ROWS_SHOWN


def config_of(config_path: str | None, assignments: tuple[str, ...], store: str | None = None) -> StoreConfig:
    """Return the settings from `--config` and `--set`, with warnings about the file on stderr.

    If `store` is given, there is a warning for a storePathRootDir that names another store. A verb that compares all
    settings with the store leaves it out.
    """
    config = StoreConfig()
    if config_path:
        config = StoreConfig.from_file(config_path)
        _warn_of(config_path, config, store)
    config = config.updated(assignments)
    context = click.get_current_context(silent=True)
    forced = context is not None and context.meta.get(_FORCED, False)
    return replace(config, force_setting=True) if forced else config


def _warn_of(config_path: str, config: StoreConfig, store: str | None) -> None:
    given = parse_properties(Path(config_path).read_text("utf-8", "replace"))
    known = setting_names()
    for name in given:
        similar = difflib.get_close_matches(name, known, 1, cutoff=0.9) if name not in known else []
        if similar:
            output.say(f"warning: {config_path}: {name} is no setting of the store; {similar[0]} is")
    if not set(given) & {*known, *FOUND_IN_STORE}:
        output.say(
            f"warning: {config_path}: {output.counted(len(given), 'setting')}, none of which concerns the store; "
            "is it a broker.conf?"
        )
    root = config.store_path_root_dir
    if root and store and Path(root).absolute() != Path(store).absolute():
        output.say(f"warning: {config_path}: storePathRootDir={root}, and the store is {store}")


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The values of `--master` and the other options of a job."""

    master: str | None
    wants_spark: bool | None
    split_mb: float
    verify_crc: bool
    config: StoreConfig
    quiet: bool

    @property
    def spark(self) -> Literal[False] | None:
        """The argument `spark` of a job: False to run it without Spark, None for a Spark that the job may start."""
        return False if self.wants_spark is False else None

    @property
    def spark_of_follower(self) -> Literal[False] | None:
        """The argument `spark` of a follower: also False if PySpark is not installed and nobody asked for Spark."""
        from reput.pipeline.spark.session import has_pyspark

        return self.spark if self.spark_master or has_pyspark() else False

    @property
    def spark_master(self) -> str | None:
        """The argument `master` of a job: the master on which Spark runs all tasks, None if it need not."""
        from reput.pipeline.spark.session import DEFAULT_MASTER

        return self.master or (DEFAULT_MASTER if self.wants_spark else None)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that `reput.rebuild` and `reput.check` share."""
        return {
            "spark": self.spark,
            "master": self.spark_master,
            "config": self.config,
            "verify_crc": self.verify_crc,
            "split_mb": self.split_mb,
        }


def job(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a job to a verb, which is called with `store`, `job` (a JobOptions) and `as_json`."""
    return _with_job_options(verb, _spark_option, _split_options)


def follow_job(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a follower to a verb; otherwise as `job`."""
    return _with_job_options(verb, _follow_spark_option)


def export_job(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of an export to a verb; otherwise as `job`."""
    return _with_job_options(verb, _spark_option)


def _with_job_options(
    verb: Callable[..., Any], spark_option: Callable[[Any], Any], split_options: Callable[[Any], Any] | None = None
) -> Callable[..., Any]:
    @functools.wraps(verb)
    def called(
        store: str,
        config_path: str | None,
        assignments: tuple[str, ...],
        master: str | None,
        spark: bool | None,
        quiet: bool,
        split_mb: float = 0,
        verify_crc: bool = True,
        **others: Any,
    ) -> Any:
        if master and spark is False:
            raise click.UsageError("--no-spark and --master contradict each other: give one of them")
        # A job with splits compares all settings with the store.
        config = config_of(config_path, assignments, store if split_options is None else None)
        return verb(store, JobOptions(master, spark, split_mb, verify_crc, config, quiet), **others)

    own = () if split_options is None else (split_options,)
    shared = _together(config_options, _master_option, spark_option, *own, _quiet_option, json_option)
    return store_argument(shared(called))  # type: ignore[no-any-return]
