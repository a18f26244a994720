#!/usr/bin/env bash
# Makes a Debian machine able to build and run the containers of this folder: docker/setup-debian.sh
# Installs what is missing, starts dockerd if none answers, and makes the base image `treadle-base` with debootstrap, so
# that no image has to be pulled. Needs root. What is there already is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=bookworm # its Python is the one that docker/build.sh gathers wheels for
base=treadle-base
data=${TREADLE_DOCKER_DATA:-/var/lib/treadle-docker}

fail() {
  echo "docker/setup-debian.sh: $*" >&2
  exit 1
}

[ "$(id -u)" = 0 ] || fail "needs root, to install packages and to start dockerd; run it with sudo"
command -v apt-get >/dev/null || fail "this is no Debian: install Docker and Compose by the system's own means"

mkdir -p build
missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need dockerd docker.io
need docker "$(apt-cache show docker-cli >/dev/null 2>&1 && echo docker-cli || echo docker.io)" # its own from Debian 13 on
need iptables iptables
need debootstrap debootstrap
docker compose version >/dev/null 2>&1 || need docker-compose docker-compose
if [ ${#missing[@]} -gt 0 ]; then
  echo "Installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >build/apt.log 2>&1 ||
    fail "apt-get could not install ${missing[*]}: $(tail -1 build/apt.log)"
fi

# await PID COMMAND...: waits 2 min for COMMAND to succeed, as long as the process PID runs
await() {
  local daemon=$1
  shift
  for _ in $(seq 240); do
    "$@" >/dev/null 2>&1 && return 0
    kill -0 "$daemon" 2>/dev/null || return 1
    sleep 0.5
  done
  return 1
}

if ! docker version >/dev/null 2>&1; then
  echo "Starting dockerd, its data in $data"
  run=/run/treadle-docker
  mkdir -p "$data/containerd" "$run"
  # started here, because dockerd gives a containerd of its own 15 s, which a busy machine exceeds
  setsid containerd --root "$data/containerd" --state "$run/containerd" --address "$run/containerd.sock" \
    >build/containerd.log 2>&1 </dev/null &
  await $! ctr --address "$run/containerd.sock" version ||
    fail "containerd does not answer; build/containerd.log ends with: $(tail -1 build/containerd.log)"
  setsid dockerd --data-root "$data" --containerd "$run/containerd.sock" >build/dockerd.log 2>&1 </dev/null &
  await $! docker version || fail "dockerd does not answer; build/dockerd.log ends with: $(tail -1 build/dockerd.log)"
fi

if ! docker image inspect "$base" >/dev/null 2>&1; then
  # the machine's own mirror: whatever else it has (a proxy, a copy) is reached by it
  mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' |
    awk -v suite="$suite" '$2 == suite && !found { print $1; found = 1 }')
  [ -n "$mirror" ] || fail "no source of Debian $suite in this machine's lists of packages (/etc/apt/sources.list)"
  echo "Making the image $base of Debian $suite"
  root=$(mktemp -d)
  # in memory where that can be had: dpkg waits for the disk after each file
  mount -t tmpfs -o size=2g tmpfs "$root" 2>/dev/null || true
  trap 'umount "$root" 2>/dev/null || true; rm -rf "$root"' EXIT
  debootstrap --variant=minbase --include=openjdk-17-jre-headless,python3,python3-venv "$suite" "$root" "$mirror" \
    >build/debootstrap.log 2>&1 || fail "debootstrap failed: $(tail -1 build/debootstrap.log)"
  rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc/* "$root"/usr/share/man/* \
    "$root"/usr/share/locale/*
  tar -C "$root" -c . | docker import - "$base" >/dev/null
fi
echo "Docker $(docker version --format '{{.Server.Version}}'), base image $base"
