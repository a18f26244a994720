#!/usr/bin/env bash
# Tests a cluster of containers: docker/test.sh [PROFILE]. pytest runs in a client container; the image is docker/build.sh's.
# What all containers, clients and jobs have logged is kept in build/docker-test.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "docker/test.sh: $*" >&2
  exit 2
}

case ${1:-simple} in
  simple | all) ;;
  *) fail "there is no profile '$1'; there are: simple, and all, which runs each" ;;
esac
if docker compose version >/dev/null 2>&1; then
  compose=(docker compose)
elif command -v docker-compose >/dev/null; then
  compose=(docker-compose)
else
  fail "neither 'docker compose' nor 'docker-compose' is there; on Debian run docker/setup-debian.sh"
fi
compose+=(-f docker/compose.yaml -f docker/compose-test.yaml)

logs=$PWD/build/docker-test
client=treadle-test-client
export COMPOSE_PROJECT_NAME=treadle-test TREADLE_RM_PORT=${TREADLE_RM_PORT:-0} TREADLE_CHECKS=$PWD/build/docker-checks
export TREADLE_DOCKER_SOCKET=${TREADLE_DOCKER_SOCKET:-/var/run/docker.sock}
TREADLE_DOCKER_GROUP=$(stat -L -c %g "$TREADLE_DOCKER_SOCKET") || fail "there is no socket of Docker's at $TREADLE_DOCKER_SOCKET"
TREADLE_SPARK=$(.venv/bin/python -c 'import pyspark; print(pyspark.__path__[0])')
export TREADLE_DOCKER_GROUP TREADLE_SPARK

gather() { # what the client runs, for the Python of the image
  rm -rf "$logs" "$TREADLE_CHECKS"
  mkdir -p "$logs" "$TREADLE_CHECKS/tests"
  .venv/bin/python -m pip install -q --disable-pip-version-check --target "$TREADLE_CHECKS/lib" --only-binary=:all: \
    --python-version 3.11 --platform "manylinux_2_28_$(uname -m)" --platform "manylinux2014_$(uname -m)" --group containers
  cp -r tests/docker tests/support "$TREADLE_CHECKS/tests"
  cp pyproject.toml "$TREADLE_CHECKS"
  chmod -R a+rX "$TREADLE_CHECKS"
}

containers() {
  docker ps -a --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" --format '{{.Names}}'
}

remove() {
  docker rm -f "$client"
  "${compose[@]}" --profile test down -v --remove-orphans
}

finish() {
  code=$?
  trap '' INT TERM
  for container in $(containers); do
    docker logs "$container" >"$logs/$container.log" 2>&1 || true
    case $container in
      "$client") docker cp "$container:/var/lib/hadoop/clients" "$logs/clients" ;;
      *worker*) docker cp "$container:/var/lib/hadoop/yarn/containers" "$logs/$container" ;;
    esac >/dev/null 2>&1 || true
  done
  remove >"$logs/down.txt" 2>&1 || true
  left=$(containers || echo "Docker does not answer")
  [ -z "$left" ] || { echo "docker/test.sh: these containers are still there: $left" >&2; code=1; }
  echo "What the containers, clients and jobs have logged is in $logs"
  exit "$code"
}

gather
trap finish EXIT
remove >/dev/null 2>&1 || true
echo "Starting the containers"
"${compose[@]}" up -d >"$logs/up.txt" 2>&1 || {
  cat "$logs/up.txt" >&2
  exit 1
}
"${compose[@]}" run --name "$client" -T client client /opt/treadle/bin/python -m pytest \
  -v -s -p no:cacheprovider --timeout=1500 --durations=15 ${PYTEST_OPTIONS:-} tests/docker 2>&1 | tee "$logs/pytest.txt"
