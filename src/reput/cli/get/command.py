"""`reput get`: show messages of queues, in the order in which they were stored."""

from __future__ import annotations

import click

from reput.cli.get.names import EARLIEST, LETTERS_HELP, MAX_MESSAGES
from reput.cli.shared import opened as stores
from reput.cli.shared import options
from reput.cli.shared.bodies import Bodies, body_form_option


@click.command()
@options.store_argument
@click.option("-t", "--topic", "topics", multiple=True, required=True, help="The topic. May be given again.")
@stores.queue_option("The queue.  [default: all queues of the topic]")
@click.option(
    "-o",
    "--offset",
    help="Begin at this queue offset, at earliest (or beginning), or at latest (or end). A negative offset counts from "
    f"the end: -10 gives the last ten messages of all queues together.  [default: {EARLIEST}]",
)
@click.option(
    "--since", type=stores.time_value, metavar="TIME", help=f"Stored at this time or later. {stores.TIME_HELP}"
)
@click.option("--until", type=stores.time_value, metavar="TIME", help="Stored at this time or before.")
@click.option(
    "-c",
    "--max-messages",
    type=options.WholeNumber(0),
    help=f"The most messages.  [default: {MAX_MESSAGES}; with -f all]",
)
@click.option("--tags", help='Only messages with one of these tags, such as "paid || sent". Tags are compared by hash.')
@click.option(
    "--sql", help="Only messages whose properties match, such as \"amount > 100 AND region = 'eu'\" (RocketMQ's SQL92)."
)
@click.option("-f", "--follow", is_flag=True, help="Wait for new messages until Ctrl-C or SIGTERM.")
@click.option(
    "-l", "--long", "with_details", is_flag=True, help="Text: write log offset, time, tag and keys before the body."
)
@click.option(
    "--format", "line_format", metavar="TEXT", help=f"Write this text for each message, as kcat does: {LETTERS_HELP}."
)
@click.option("--raw", is_flag=True, help="Write the bodies' bytes, with the delimiter after each.")
@click.option("-D", "--delimiter", "delimiter_text", help="The text that --raw writes after a body.  [default: \\n]")
@body_form_option
@options.verify_crc_option
@options.config_options
@options.json_lines_option
def get(
    store: str,
    topics: tuple[str, ...],
    queue_id: int | None,
    offset: str | None,
    since: int | None,
    until: int | None,
    max_messages: int | None,
    tags: str | None,
    sql: str | None,
    follow: bool,
    with_details: bool,
    line_format: str | None,
    raw: bool,
    delimiter_text: str | None,
    body_form: str,
    verify_crc: bool,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show messages of one or more topics of STORE.

    Messages of several queues come in the order in which they were stored. The command changes nothing, and another
    process may write the store.

    Text has a body on each line: UTF-8 with newlines as \\n, or `base64:` and the body in base64. --json has the whole
    message, and body_encoding names the encoding; `reput put --json-lines` takes these lines. --raw and --format write
    the body's bytes. Bodies are decompressed, as a consumer gets them; --body raw leaves them as they are stored, and a
    copy then keeps its compression. The exit code is 1 if a body cannot be decompressed: its line says why. It is 1,
    too, if a body does not match its CRC: the body comes as it is, and stderr names it.

    If there is no message, stderr has the reason and the offsets of the queue.

    \b
    reput get /data/store -t orders
    reput get /data/store -t orders -t clicks -o -10
    reput get /data/store -t orders --since -1h --until 2026-07-30T18:00
    reput get /data/store -t orders -q 2 -o latest -f --tags "paid || sent"
    reput get /data/store -t orders --sql "amount > 100 AND region = 'eu'"
    reput get /data/store -t orders --format '%p %o %T %k %s\\n'
    reput get /data/store -t images -q 0 -o 17 -c 1 --raw -D "" > image.png
    reput get /data/store -t orders -c 1000000 --json | reput put /data/other --json-lines --create
    """  # noqa: D301 - click wants the control character
    config = options.config_of(config_path, assignments, store)
    # This loads numpy and more, which the help does not need.
    from reput.cli.get import run

    bounds = run.ReadBounds.of(offset, since, until, follow)
    wanted = run.wanted_by(tags, sql)
    form = run.form_of(
        Bodies(body_form, config, verify_crc=verify_crc), as_json, with_details, line_format, raw, delimiter_text
    )
    question = run.Question(topics, queue_id, wanted, bounds, max_messages, follow)
    return run.get_messages(store, config, question, form)
