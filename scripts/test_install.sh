#!/usr/bin/env bash
# Installs reput's wheel without the extra `spark` into a new environment, and uses it: PySpark must not be needed.
#
#   scripts/test_install.sh PYTHON    PYTHON is that of the environment that `make setup` made
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_CONSTRAINT=$PWD/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

"$1" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$folder" .
"$1" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet "$folder"/reput-*.whl
if "$folder/venv/bin/python" -c 'import pyspark' 2>/dev/null; then
    echo "the install without the extra has PySpark" >&2
    exit 1
fi
echo "installed: $(du -sm "$folder/venv" | cut -f 1) MB"

reput=$folder/venv/bin/reput
echo "an apple" | "$reput" put "$folder/store" -t orders --key o-1 --create
[ "$("$reput" get "$folder/store" -t orders -q 0 2>/dev/null)" = "an apple" ]
"$reput" check "$folder/store" --no-spark --quiet
"$reput" rebuild "$folder/store" --no-spark --quiet
echo "put, get, check and rebuild work without PySpark"
