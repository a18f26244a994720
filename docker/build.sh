#!/usr/bin/env bash
# Gathers what the image needs into build/docker and builds it: docker/build.sh [BASE-IMAGE]
# The image installs from these files alone, so that it also builds where containers reach no registry. Without a base
# image it is docker/setup-debian.sh's, if that is there. Versions of packages are those of .venv, which are tested.
set -euo pipefail
cd "$(dirname "$0")/.."

context=build/docker
python=3.11 # the base image's: Debian 12
base=${1:-}
[ -n "$base" ] || ! docker image inspect treadle-base >/dev/null 2>&1 || base=treadle-base

echo "Gathering wheels, jars and compiled kernels in $context"
rm -rf "$context"
mkdir -p "$context/kernels"
for platform in manylinux_2_28 manylinux2014; do platforms+=(--platform "${platform}_$(uname -m)"); done
.venv/bin/python -m pip freeze --disable-pip-version-check --exclude-editable >"$context/versions.txt"
.venv/bin/python -m pip download -q --disable-pip-version-check --dest "$context/wheels" -c "$context/versions.txt" \
  --only-binary=:all: --python-version "$python" "${platforms[@]}" dist/treadle-*.whl
.venv/bin/python -c 'from treadle_lab.minicluster.settings import gather; print(gather(print))' | tail -1 >"$context/lib.txt"
cp -r "$(cat "$context/lib.txt")" "$context/lib"
.venv/bin/python docker/kernels.py "$context/kernels" "/opt/treadle/lib/python$python/site-packages/treadle"
cp -r docker/conf docker/start.sh docker/yarn docker/healthy.py "$context"
chmod -R a+rX "$context" # whatever the umask was: the image's user reads it

echo "Building the image treadle${base:+ on $base}"
# the builder that every Docker has: the newer one is a package of its own in Debian
DOCKER_BUILDKIT=0 docker build -q -t treadle -f docker/Dockerfile ${base:+--build-arg "BASE=$base"} "$context" \
  >"$context/image.txt" 2>&1 || {
  cat "$context/image.txt" >&2
  exit 1
}
docker image inspect -f '{{.Size}}' treadle | awk '{ printf "The image treadle has %.2f GB\n", $1 / 1e9 }'
