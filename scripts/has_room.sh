#!/usr/bin/env bash
# Says by its exit status whether a folder in memory can hold the files of the tests.
#
#   scripts/has_room.sh FOLDER GIB    GIB are wanted in the folder, and twice as many of memory
set -euo pipefail
folder=$1
wanted_kib=$(($2 << 20))

[ -w "$folder" ] || exit 1
free_kib=$(df --output=avail -k "$folder" 2>/dev/null | tail -n 1) || exit 1
memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null) || exit 1
[ "${free_kib:-0}" -ge "$wanted_kib" ] && [ "${memory_kib:-0}" -ge $((2 * wanted_kib)) ]
