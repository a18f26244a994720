#!/bin/sh
# Starts one role of the cluster: rm, nm, sidecar, or job CLASS [ARGUMENT...].
set -eu

JAVA_HOME=$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")
HADOOP_CONF_DIR=/opt/hadoop/conf
YARN_CONF_DIR=$HADOOP_CONF_DIR
export JAVA_HOME HADOOP_CONF_DIR YARN_CONF_DIR

hadoop() { # HEAP CLASS [ARGUMENT...]
  heap=$1
  shift
  exec java "-Xmx$heap" --add-opens java.base/java.lang=ALL-UNNAMED -cp \
    "$HADOOP_CONF_DIR:/opt/treadle/shim.jar:/opt/hadoop/lib/*" "$@"
}

role=${1:-}
[ $# -eq 0 ] || shift
case $role in
  rm) hadoop 1g org.apache.hadoop.yarn.server.resourcemanager.ResourceManager ;;
  nm) hadoop 400m org.apache.hadoop.yarn.server.nodemanager.NodeManager ;;
  sidecar) exec treadle sidecar --external --connection-file /run/treadle/connection.json "$@" ;;
  job)
    # relative paths of a job are on the volume that every container has
    cd /shared
    hadoop 256m "$@"
    ;;
  *)
    echo "which role? rm, nm, sidecar, or job CLASS [ARGUMENT...]" >&2
    exit 2
    ;;
esac
