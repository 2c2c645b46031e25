"""Options that several verbs share, and what they become."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from reput.cli import output
from reput.config import StoreConfig, parse_properties, setting_names

AUTO, LOOP, SPARK = "auto", "loop", "spark"


def _together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


store_argument = click.argument("store", type=click.Path(path_type=str, readable=False))

json_option = click.option("--json", "as_json", is_flag=True, help="Give JSON instead of text.")

config_options = _together(
    click.option(
        "--config",
        "config_path",
        type=click.Path(dir_okay=False, readable=False),
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

_master_option = click.option(
    "--master", help="Spark master URL.  [default: local[*], embedded, nothing else to start]"
)

_FORCED = "reput.force_setting"


def _keep_force(ctx: click.Context, _option: click.Parameter, is_given: bool) -> None:
    ctx.meta[_FORCED] = is_given


force_setting_option = click.option(
    "--force-setting",
    is_flag=True,
    expose_value=False,
    callback=_keep_force,
    help="Go on where a given setting contradicts the store's files (a file size, storePathRootDir): the setting wins.",
)
"""For verbs that write: `config_of` puts it into the settings."""


def _engine(also: str = "") -> Callable[[Any], Any]:
    """`--engine`; `also` says when else the loop engine works."""
    return click.option(
        "--engine",
        type=click.Choice([AUTO, SPARK, LOOP]),
        default=AUTO,
        show_default=True,
        help="loop runs the tasks one after the other in this process, without Java. auto means Spark, but loop where "
        f"PySpark is not installed{also}.",
    )


_engine_option = _engine()
_follow_engine_option = _engine(
    ", and for less than 64 MiB with --until-caught-up and no --master, since Spark takes longer to start"
)

_quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress, assumptions or notes on stderr.")

_split_options = _together(
    click.option(
        "--splits-mb",
        type=click.FloatRange(min=0.001, max=1024),
        default=128,
        show_default=True,
        help="Size of the log ranges that tasks decode; memory per worker follows it.",
    ),
    click.option("--no-verify-crc", is_flag=True, help="Do not check the CRC of each body."),
)


dry_run_option = click.option(
    "--dry-run",
    is_flag=True,
    help="Change nothing: say what would be built and removed, or why it would be refused.",
)


def config_of(config_path: str | None, assignments: tuple[str, ...], store: str | None = None) -> StoreConfig:
    """The settings from `--config` and `--set`; what is odd about that file is said on stderr.

    `store`: where it is given, a storePathRootDir that names another one is said too. A verb that holds all settings
    against the store leaves it out.
    """
    config = StoreConfig()
    if config_path:
        config = StoreConfig.from_file(config_path)
        _tell_oddities(config_path, config, store)
    config = config.updated(assignments)
    context = click.get_current_context(silent=True)
    forced = context is not None and context.meta.get(_FORCED, False)
    return replace(config, force_setting=True) if forced else config


def _tell_oddities(config_path: str, config: StoreConfig, store: str | None) -> None:
    given = parse_properties(Path(config_path).read_text("utf-8", "replace"))
    known = setting_names()
    for name in given:
        similar = difflib.get_close_matches(name, known, 1, cutoff=0.9) if name not in known else []
        if similar:
            output.say(f"warning: {config_path}: {name} is no setting of the store; {similar[0]} is")
    if not set(given) & set(known):
        output.say(
            f"warning: {config_path}: {output.counted(len(given), 'setting')}, none of which concerns the store; "
            "is it a broker.conf?"
        )
    root = config.store_path_root_dir
    if root and store and Path(root).expanduser().absolute() != Path(store).absolute():
        output.say(f"warning: {config_path}: storePathRootDir={root}, and the store looked at is {store}")


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What `--master` and the other options of a job say."""

    master: str | None
    engine: str
    splits_mb: float
    no_verify_crc: bool
    config: StoreConfig
    quiet: bool

    @property
    def spark(self) -> Literal[False] | None:
        """The argument `spark` of a job: False for the loop engine, None for a Spark that the job starts."""
        if self.engine == LOOP:
            return False
        if self.engine == SPARK or self.master:
            return None
        from reput.pipeline.spark.session import has_pyspark

        return None if has_pyspark() else False

    def arguments(self) -> dict[str, Any]:
        """The arguments that `reput.rebuild` and `reput.check` share."""
        return {
            "spark": self.spark,
            "master": self.master,
            "config": self.config,
            "verify_crc": not self.no_verify_crc,
            "split_mb": self.splits_mb,
        }


def _refuse_both(master: str | None, engine: str) -> None:
    if master and engine == LOOP:
        raise click.UsageError("--engine loop runs without Spark, and --master chooses one: give one of them")


def job(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a verb that runs a job: it is called with `store`, `job` (a JobOptions) and `as_json`."""

    @functools.wraps(verb)
    def called(
        store: str,
        config_path: str | None,
        assignments: tuple[str, ...],
        master: str | None,
        engine: str,
        splits_mb: float,
        no_verify_crc: bool,
        quiet: bool,
        **others: Any,
    ) -> Any:
        _refuse_both(master, engine)
        config = config_of(config_path, assignments)
        return verb(store, JobOptions(master, engine, splits_mb, no_verify_crc, config, quiet), **others)

    shared = _together(config_options, _master_option, _engine_option, _split_options, _quiet_option, json_option)
    return store_argument(shared(called))  # type: ignore[no-any-return]


def follow_job(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a verb that follows a store; otherwise as `job`."""
    return _job_without_splits(verb, _follow_engine_option)


def export_job(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a verb that exports a store; otherwise as `job`."""
    return _job_without_splits(verb, _engine_option)


def _job_without_splits(verb: Callable[..., Any], engine_option: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(verb)
    def called(
        store: str,
        config_path: str | None,
        assignments: tuple[str, ...],
        master: str | None,
        engine: str,
        quiet: bool,
        **others: Any,
    ) -> Any:
        _refuse_both(master, engine)
        config = config_of(config_path, assignments, store)
        return verb(store, JobOptions(master, engine, 0, False, config, quiet), **others)

    shared = _together(config_options, _master_option, engine_option, _quiet_option, json_option)
    return store_argument(shared(called))  # type: ignore[no-any-return]
