"""`python -m reput.formats` prints docs/formats.md."""

from __future__ import annotations

import sys

from reput.formats.documentation import formats_document

if __name__ == "__main__":
    sys.stdout.buffer.write(formats_document().encode())
