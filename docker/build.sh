#!/usr/bin/env bash
# Gathers what the image needs into build/docker and builds it: docker/build.sh [BASE-IMAGE]
# The image installs from these files alone, so that it also builds where containers reach no registry.
set -euo pipefail
cd "$(dirname "$0")/.."

context=build/docker
python=3.11 # the base image's: Debian 12
rm -rf "$context"
mkdir -p "$context/wheels"
wheel=$(ls dist/treadle-*.whl)
cp "$wheel" "$context/wheels"
for platform in manylinux_2_28 manylinux2014; do platforms+=(--platform "${platform}_$(uname -m)"); done
.venv/bin/python -m pip download -q --disable-pip-version-check --dest "$context/wheels" \
  --only-binary=:all: --python-version "$python" "${platforms[@]}" "$wheel"
.venv/bin/python -c 'from treadle.lab.minicluster.runtime import gather; print(gather(print))' | tail -1 > "$context/lib.txt"
cp -r "$(cat "$context/lib.txt")" "$context/lib"
rm "$context/lib.txt"
cp -r docker/conf docker/start.sh "$context"
docker build -q -t treadle -f docker/Dockerfile ${1:+--build-arg "BASE=$1"} "$context"
