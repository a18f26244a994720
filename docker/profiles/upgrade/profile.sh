# One ResourceManager: at first the stock scheduler without Treadle's jar, and two builds of Treadle to install. The second
# build is that of this checkout with another version; TREADLE_OTHER_WHEEL names any other one.
services=(namenode rm-host rm history worker-1 worker-2)
tests=(tests/docker/test_upgrade.py)

other_wheel() { # into the context
  if [ -n "${TREADLE_OTHER_WHEEL:-}" ]; then
    cp "$TREADLE_OTHER_WHEEL" "$context"
    return
  fi
  local source=$context/source version other
  version=$(.venv/bin/python -c 'import treadle; print(treadle.__version__)')
  other=${version%.*}.$((${version##*.} + 1))
  mkdir -p "$source"
  git ls-files -z java-shim python conf pyproject.toml README.md LICENSE | tar --null -T - -c | tar -C "$source" -x
  sed -i "s/\"$version\"/\"$other\"/" "$source/python/treadle/__init__.py"
  find "$source/java-shim" -name pom.xml -exec sed -i "s#<version>$version</version>#<version>$other</version>#" {} +
  echo "Building Treadle $other of the sources of $version"
  .venv/bin/python -m pip wheel -q --disable-pip-version-check --no-deps -w "$context" "$source"
  rm -rf "$source"
}

prepare() {
  other_wheel
  # both have been compiled for their folders, so that no start waits for it
  mkdir -p "$context/kernels"
  .venv/bin/python docker/kernels.py "$context/kernels" /opt/treadle-next/lib/python3.11/site-packages/treadle
  own_image
}
