# A secure cluster: an MIT key distribution centre, HDFS with tokens and TLS, an external sidecar without keys.
services=(kdc namenode rm-host rm sidecar history worker-1 worker-2)
tests=(tests/docker/test_kerberos.py)

prepare() {
  cp "$folder/krb5.conf" "$folder/kdc.conf" "$folder/kerberos-start" "$context"
  .venv/bin/python -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: -d "$context" 'requests-gssapi>=1.3'
  # Debian's packages come from where the base image's came from
  own_image --network=host
}
