#!/usr/bin/env bash
# Says which prerequisite of the build is missing and how to get it on Debian, and stops.
# usage: prerequisites.sh [PYTHON [python]]: with `python` what Java needs is left out
set -u
python=${1:-python3}
missing=0

# lacks WHAT DEBIAN_PACKAGE
lacks() {
  echo "treadle: $1 is missing. On Debian: apt-get install $2" >&2
  missing=1
}

if ! command -v "$python" >/dev/null || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  lacks "Python 3.11 or newer ($python)" "python3 (Debian 12 or newer), or make PYTHON=/path/to/python3.11"
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  lacks "Python's venv module" python3-venv
fi

[ "${2:-}" != python ] || exit $missing

# Maven takes JAVA_HOME, if it is set, and not the PATH.
javac=${JAVA_HOME:+$JAVA_HOME/bin/}javac
if ! command -v "$javac" >/dev/null; then
  lacks "a JDK, 17 or newer${JAVA_HOME:+ (JAVA_HOME is $JAVA_HOME; correct or unset it)}," openjdk-17-jdk-headless
else
  version=$("$javac" -version 2>&1 | sed -E 's/^javac ([0-9]+).*/\1/')
  if ! [ "$version" -ge 17 ] 2>/dev/null; then
    lacks "a JDK 17 or newer ($javac says: $("$javac" -version 2>&1))" openjdk-17-jdk-headless
  fi
fi

command -v mvn >/dev/null || lacks "Maven" maven
command -v make >/dev/null || lacks "make" make
exit $missing
