#!/usr/bin/env bash
# One run of a profile's tests, for docker/test.sh: docker/run.sh PROFILE[-VARIANT]
# docker/profiles/PROFILE/profile.sh says which services and tests, and may make an image of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

run=$1
profile=${run%%-*}
variant=${run#"$profile"}
variant=${variant#-}
folder=docker/profiles/$profile

fail() {
  echo "docker/run.sh: $*" >&2
  exit 2
}

if docker compose version >/dev/null 2>&1; then
  compose=(docker compose)
elif command -v docker-compose >/dev/null; then
  compose=(docker-compose)
else
  fail "neither 'docker compose' nor 'docker-compose' is there; on Debian run docker/setup-debian.sh"
fi
compose+=(-f docker/compose.yaml -f docker/compose-test.yaml)
[ ! -f "$folder/compose.yaml" ] || compose+=(-f "$folder/compose.yaml")

logs=$PWD/build/docker-test/$run
context=build/docker-$run # of an image of the profile's own
image=treadle-test:$run
client=treadle-test-client
export COMPOSE_PROJECT_NAME=treadle-test TREADLE_RM_PORT=${TREADLE_RM_PORT:-0} TREADLE_CHECKS=$PWD/build/docker-checks
export TREADLE_DOCKER_SOCKET=${TREADLE_DOCKER_SOCKET:-/var/run/docker.sock} TREADLE_VARIANT=$variant
TREADLE_DOCKER_GROUP=$(stat -L -c %g "$TREADLE_DOCKER_SOCKET") || fail "there is no socket of Docker's at $TREADLE_DOCKER_SOCKET"
TREADLE_SPARK=$(.venv/bin/python -c 'import pyspark; print(pyspark.__path__[0])')
export TREADLE_DOCKER_GROUP TREADLE_SPARK

# What a profile sets: the services that it starts (all, if it names none), its tests, and what it does before.
services=()
tests=()
prepare() { :; }
# shellcheck source=/dev/null
. "$folder/profile.sh"

own_image() { # [OPTION...]: treadle's image with what is in the context, and with the profile's entries of *-site.xml
  .venv/bin/python docker/sites.py docker/conf "$folder/conf" "$context/conf"
  chmod -R a+rX "$context"
  DOCKER_BUILDKIT=0 docker build -q "$@" -t "$image" -f "$folder/Dockerfile" "$context" >"$logs/image.txt" 2>&1 || {
    cat "$logs/image.txt" >&2
    exit 1
  }
  export TREADLE_IMAGE=$image
}

gather() { # what the client runs, for the Python of the image
  if [ ! -d "$TREADLE_CHECKS/lib" ] || [ pyproject.toml -nt "$TREADLE_CHECKS/lib" ]; then
    rm -rf "$TREADLE_CHECKS"
    .venv/bin/python -m pip install -q --disable-pip-version-check --target "$TREADLE_CHECKS/lib" --only-binary=:all: \
      --python-version 3.11 --platform "manylinux_2_28_$(uname -m)" --platform "manylinux2014_$(uname -m)" --group containers
    touch "$TREADLE_CHECKS/lib"
  fi
  rm -rf "$TREADLE_CHECKS/tests" "$TREADLE_CHECKS/lib/treadle_lab"
  mkdir -p "$TREADLE_CHECKS/tests"
  cp -r python/treadle_lab "$TREADLE_CHECKS/lib" # the image's wheel has it not
  cp -r tests/docker tests/support "$TREADLE_CHECKS/tests"
  cp pyproject.toml "$TREADLE_CHECKS"
  chmod -R a+rX "$TREADLE_CHECKS"
}

containers() {
  docker ps -a --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" --format '{{.Names}}'
}

remove() {
  docker rm -f "$client"
  "${compose[@]}" --profile test down -v --remove-orphans -t 1
}

keep_logs() { # of one container
  docker logs "$1" >"$logs/$1.log" 2>&1 || true
  case $1 in
    *-host[-_]*) ;; # holds a network, nothing else
    "$client") docker cp "$1:/var/lib/hadoop/clients" "$logs/clients" ;;
    *worker*) docker cp "$1:/var/lib/hadoop/yarn/containers" "$logs/$1" ;;
    *rm*) docker cp "$1:/var/lib/hadoop/logs" "$logs/$1" ;; # of a sidecar that the ResourceManager started
  esac >/dev/null 2>&1 || true
}

finish() {
  code=$?
  trap '' INT TERM
  for container in $(containers); do keep_logs "$container"; done
  remove >"$logs/down.txt" 2>&1 || true
  left=$(containers || echo "Docker does not answer")
  [ -z "$left" ] || { echo "docker/run.sh: these containers are still there: $left" >&2; code=1; }
  docker image rm -f "$image" >/dev/null 2>&1 || true
  [ "$code" = 0 ] || echo "What the containers, clients and jobs of $run have logged is in $logs" >&2
  exit "$code"
}

rm -rf "$logs" "$context"
mkdir -p "$logs" "$context"
gather
trap finish EXIT
remove >/dev/null 2>&1 || true
prepare
echo "Starting the containers of $run"
"${compose[@]}" up -d "${services[@]}" >"$logs/up.txt" 2>&1 || {
  cat "$logs/up.txt" >&2
  exit 1
}
"${compose[@]}" run --no-deps --name "$client" -T client client /opt/treadle/bin/python -m pytest \
  -v -s -p no:cacheprovider --timeout=1500 --durations=15 ${PYTEST_OPTIONS:-} "${tests[@]}" 2>&1 | tee "$logs/pytest.txt"
