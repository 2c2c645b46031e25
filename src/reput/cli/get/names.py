"""Names and defaults of the options of `get`. Its help needs them before it loads what reads a store."""

MAX_MESSAGES = 32
"""The most messages without `--max-messages` and `--follow`."""
EARLIEST, LATEST = "earliest", "latest"
OFFSETS = {"beginning": EARLIEST, "end": LATEST, EARLIEST: EARLIEST, LATEST: LATEST}

LETTERS_HELP = """\
%t topic, %p queue, %o queue offset, %k keys, %K their length, %s body, %S its length, %T store time (ms), %h \
properties (NAME=VALUE with commas between), %% a percent sign; \\n \\t \\r \\0 \\\\ \\xFF\
"""
