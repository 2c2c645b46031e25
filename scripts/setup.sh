#!/usr/bin/env bash
# Makes everything that the Makefile's targets need: a virtual environment with the pinned packages and reput itself, and
# a Java 17 or later for Spark. Safe to run again: it does only what is missing. Details go to .setup.log.
#
#   VENV           the environment's folder (.venv)
#   REPUT_PYTHON   the interpreter to make it with (the newest of python3.13, 3.12 and 3.11, else python3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=${VENV:-.venv}
BOOTSTRAP=.venv-bootstrap
LOG=$PWD/.setup.log
STAMP=$VENV/setup-stamp
JAVA_HOME_FILE=$VENV/java-home
PREPARED=$VENV/prepared
BEAT_S=10
PYTHON_MIN='(3, 11)'
JAVA_MIN=17
JRE_PACKAGES=(openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless)

say() { printf 'setup: %s\n' "$*" >&2; }

fail() {
    say "$1"
    exit 1
}

# Says every BEAT_S seconds how long a step has taken, and the log's last line, until it is killed or this script ends.
beat() {
    local what=$1 last
    while sleep "$BEAT_S" >/dev/null 2>&1 </dev/null && kill -0 $$ 2>/dev/null; do
        last=$(tail -n 1 "$LOG" | LC_ALL=C tr -cd ' -~' | cut -c 1-90) # ASCII: cut would halve other characters
        case $last in "== "* | "") last="details are in .setup.log" ;; esac
        say "$what: $((SECONDS - BEGIN)) s so far; $last"
    done
}

# timed WHAT COMMAND...: runs a command with its output in the log, says how long it takes, and returns its status.
timed() {
    local what=$1 status=0
    shift
    { printf '\n== %s\n' "$*"; } >>"$LOG"
    BEGIN=$SECONDS
    say "$what ..."
    beat "$what" &
    local beating=$!
    # The command stays in the foreground, so that Ctrl-C ends it.
    "$@" >>"$LOG" 2>&1 </dev/null || status=$?
    kill "$beating" 2>/dev/null || true
    wait "$beating" 2>/dev/null || true
    [ "$status" != 0 ] || say "$what: done in $((SECONDS - BEGIN)) s"
    return "$status"
}

# The same; on failure shows the log's end, and ends the script.
logged() {
    if ! timed "$@"; then
        tail -n 15 "$LOG" >&2
        fail "$1 failed; the whole log is in .setup.log"
    fi
}

# Prints the prefix that gives root's rights ("" for root itself); fails where there are none.
root_prefix() {
    if [ "$(id -u)" = 0 ]; then
        printf ''
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        printf 'sudo -n'
    else
        return 1
    fi
}

# apt_install PACKAGE: installs it, quietly; fails where there are no rights, no apt or no such package.
apt_install() {
    local prefix
    command -v apt-get >/dev/null || return 1
    prefix=$(root_prefix) || return 1
    timed "installing $1 from the system's packages" apt_get_install "$prefix" "$1"
}

apt_get_install() {
    # shellcheck disable=SC2086  # the prefix is two words or none
    $1 env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$2" ||
        { $1 apt-get update && $1 env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$2"; }
}

# --- Python ---------------------------------------------------------------------------------------

find_python() {
    local name
    for name in ${REPUT_PYTHON:-python3.13 python3.12 python3.11 python3}; do
        if "$name" -c "import sys; sys.exit(sys.version_info < $PYTHON_MIN)" 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    return 1
}

has_venv() { "$1" -c 'import venv, ensurepip' 2>/dev/null; }

# The distribution's package that completes this Python: python3.11 needs python3.11-venv.
venv_package() { "$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'; }

make_venv() {
    local python=$1
    rm -rf "$VENV" "$BOOTSTRAP"
    if ! has_venv "$python"; then
        apt_install "$(venv_package "$python")" || true
    fi
    if has_venv "$python"; then
        logged "making $VENV" "$python" -m venv "$VENV"
    elif "$python" -m pip --version >/dev/null 2>&1; then
        say "this Python comes without venv; making the environment with virtualenv instead"
        logged "fetching virtualenv" "$python" -m pip install --target "$BOOTSTRAP" -c constraints.txt virtualenv
        PYTHONPATH=$BOOTSTRAP logged "making $VENV" "$python" -m virtualenv --no-periodic-update "$VENV"
        rm -rf "$BOOTSTRAP"
    else
        fail "Python has neither venv nor pip: install them (Debian, Ubuntu: apt-get install python3-venv), then try again"
    fi
}

install_packages() {
    # The build tools lie in .venv, pinned, so no package is built with whatever is newest today.
    export PIP_CONSTRAINT=$PWD/constraints.txt
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
    logged "installing the build tools" "$VENV/bin/python" -m pip install hatchling editables setuptools wheel
    logged "installing the pinned packages (PySpark alone is half a gigabyte)" "$VENV/bin/python" -m pip install --no-build-isolation -e '.[dev,docs]'
}

# --- Java -----------------------------------------------------------------------------------------

# Prints the major version of a java command ("17"), or nothing.
java_major() {
    "$1" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1
}

# Prints the home of the first Java that is new enough: JAVA_HOME's, the PATH's, then the system's, Java 17 first.
find_java() {
    local java major
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" \
        /usr/lib/jvm/*-17-*/bin/java /usr/lib/jvm/*-21-*/bin/java /usr/lib/jvm/*/bin/java; do
        [ -n "$java" ] && [ -x "$java" ] || continue
        major=$(java_major "$java")
        if [ -n "$major" ] && [ "$major" -ge "$JAVA_MIN" ]; then
            dirname "$(dirname "$(readlink -f "$java")")"
            return
        fi
    done
    return 1
}

provide_java() {
    local home package
    if ! home=$(find_java); then
        for package in "${JRE_PACKAGES[@]}"; do
            if apt_install "$package" && home=$(find_java); then break; fi
        done
    fi
    [ -n "${home:-}" ] || fail "Spark needs Java $JAVA_MIN or later: install openjdk-17-jre-headless (Debian, Ubuntu: \
apt-get install openjdk-17-jre-headless) or set JAVA_HOME, then try again"
    if [ "$home" != "$(cat "$JAVA_HOME_FILE" 2>/dev/null)" ]; then
        printf '%s\n' "$home" >"$JAVA_HOME_FILE"
        say "Java: $home"
    fi
}

# Compiles the kernels and makes the archive that Spark starts faster from. All works without, so no failure stops set-up.
prepare() {
    local home wanted
    home=$(cat "$JAVA_HOME_FILE")
    # Of other sources the kernels are compiled anew: here once, and not in each process of a test run.
    wanted="$home $(find src/reput/kernels src/reput/formats -name '*.py' -print0 | sort -z | xargs -0 cat | sha256sum)"
    if [ "$(cat "$PREPARED" 2>/dev/null)" = "$wanted" ]; then return; fi
    timed "compiling the kernels, and preparing quick starts of Spark" \
        env JAVA_HOME="$home" "$VENV/bin/python" -m reput prepare ||
        say "that failed; everything works, but starts more slowly (see .setup.log)"
    printf '%s\n' "$wanted" >"$PREPARED"
}

# Compiles our modules to bytecode, as pip does for packages that it copies. An editable install leaves that to each
# start, and where PYTHONDONTWRITEBYTECODE is set each start repeats it: half a second. All works without.
compile_modules() { "$VENV/bin/python" -m compileall -q src >>"$LOG" 2>&1 || true; }

# --- All of it ------------------------------------------------------------------------------------

wanted_stamp() { cat pyproject.toml constraints.txt scripts/setup.sh | sha256sum | cut -d ' ' -f 1; }

packages_ready() {
    [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(wanted_stamp)" ] && "$VENV/bin/python" -c '' 2>/dev/null
}

if ! packages_ready; then
    : >"$LOG"
    python=$(find_python) || fail "no ${REPUT_PYTHON:-Python 3.11 or later} that runs: install one (Debian 12, Ubuntu 24.04: \
apt-get install python3)"
    if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        make_venv "$python"
    fi
    install_packages
    wanted_stamp >"$STAMP"
    rm -f "$PREPARED"
fi
compile_modules
provide_java
prepare
