"""Time one `reput.rebuild` in a Spark session that has worked before: `warm_rebuild.py STORE WARM_UP_STORE`.

Prints one JSON line. Run by `rebuild.py` as a process of its own: every round starts from the same state.
"""

from __future__ import annotations

import json
import sys
import time

from sessions import start_session

import reput


def main() -> None:
    """Start a session, rebuild the small store untimed, then the other one timed."""
    store, warm_up_store = sys.argv[1:]
    begin = time.perf_counter()
    session = start_session()
    session_seconds = time.perf_counter() - begin
    reput.rebuild(warm_up_store, spark=session)
    begin = time.perf_counter()
    reput.rebuild(store, spark=session)
    seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "session_start_seconds": session_seconds}))
    session.stop()


if __name__ == "__main__":
    main()
