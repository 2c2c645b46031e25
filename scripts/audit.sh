#!/usr/bin/env bash
# Asks for known vulnerabilities of the pinned packages, and writes build/sbom.json, a software bill of materials
# (CycloneDX) of the environment. The tools have an environment of their own, .venv-audit.
#
#   audit.sh PYTHON   the interpreter of the environment to describe
#
# Exit code 1: no bill of materials could be written. 3: there are known vulnerabilities. Where the tools or the data
# cannot be had it says so, and ends with 0.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=$1
TOOLS=.venv-audit

say() { printf 'audit: %s\n' "$*" >&2; }

if [ ! -x "$TOOLS/bin/pip-audit" ]; then
    if ! "$PYTHON" -m venv "$TOOLS" >&2 ||
        ! "$TOOLS/bin/python" -m pip install -q -c constraints.txt pip-audit cyclonedx-bom >&2; then
        say "skipped: pip-audit and cyclonedx-bom cannot be installed here"
        rm -rf "$TOOLS"
        exit 0
    fi
fi

mkdir -p build
"$TOOLS/bin/cyclonedx-py" environment "$PYTHON" --output-reproducible --output-file build/sbom.json
say "build/sbom.json has $(grep -c '"bom-ref"' build/sbom.json) components"

status=0
said=$("$TOOLS/bin/pip-audit" --requirement constraints.txt --no-deps --disable-pip --progress-spinner off 2>&1) || status=$?
if [ "$(grep -c 'could not be audited' <<<"$said")" -ge "$(grep -c == constraints.txt)" ] ||
    { [ "$status" != 0 ] && ! grep -q '^Found [0-9]* known vulnerabilit' <<<"$said"; }; then
    say "the vulnerabilities were not looked up: their data cannot be had here"
    exit 0
fi
printf '%s\n' "$said"
[ "$status" = 0 ] || exit 3
