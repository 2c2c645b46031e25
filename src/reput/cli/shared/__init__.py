"""The parts that several verbs share: options, output, progress bars, lines of records, and opened stores.

May import everything below the command line, and no verb.
"""
