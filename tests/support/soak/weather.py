"""The weather of a soak. `begin` comes before the first import of reput, which keeps the clock."""

from __future__ import annotations

import ctypes
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from support.soak.board import Phase, Weather

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.soak.board import Board

SLOW_BYTES_PER_S = 10_000_000
JUMPS_S = (0, 3600, -3600, 1, -1, 60)
JUMP_INTERVAL_S = 3.0
PAGING_INTERVAL_S = 0.5
_MADV_PAGEOUT = 21
_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def begin(board: Board) -> None:
    """Give this process the board's weather from now on."""
    _let_the_clock_jump(board)
    _slow_the_disk(board)
    threading.Thread(target=_page_out, args=[board], daemon=True).start()


def _let_the_clock_jump(board: Board) -> None:
    now, now_ns = time.time, time.time_ns

    def jump() -> int:
        if board.weather is not Weather.JUMPING_CLOCK:
            return 0
        return JUMPS_S[int(time.monotonic() / JUMP_INTERVAL_S) % len(JUMPS_S)]

    time.time = lambda: now() + jump()
    time.time_ns = lambda: now_ns() + jump() * 1_000_000_000


def _slow_the_disk(board: Board) -> None:
    from reput.files import fs

    lock, synced = threading.Lock(), int(board.state[board.LOG_END])

    def slowed(sync: Callable[[int], None]) -> Callable[[int], None]:
        def slow(descriptor: int) -> None:
            nonlocal synced
            sync(descriptor)
            with lock:
                grown, synced = int(board.state[board.LOG_END]) - synced, int(board.state[board.LOG_END])
                if board.weather is Weather.SLOW_DISK:
                    time.sleep(max(0, grown) / SLOW_BYTES_PER_S)

        return slow

    fs.sync, fs.sync_data = slowed(fs.sync), slowed(fs.sync_data)


def _page_out(board: Board) -> None:
    while board.phase is not Phase.END:
        time.sleep(PAGING_INTERVAL_S)
        if board.weather is Weather.PAGING:
            give_pages_back()


def give_pages_back() -> None:
    """Let the system take all pages of this process: those of files are read again, others come from a swap."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(word, 16) for word in line.split(" ", 1)[0].split("-"))
        # A mapping may be gone by now, or be none that can go.
        _libc.madvise(begin, end - begin, _MADV_PAGEOUT)
