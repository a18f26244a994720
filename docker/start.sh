#!/bin/sh
# Starts one role of the cluster: rm, namenode, worker, sidecar, host, zookeeper, history, client COMMAND..., or job CLASS [ARGUMENT...].
set -eu

JAVA_HOME=$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")
HADOOP_CONF_DIR=${HADOOP_CONF_DIR:-/opt/hadoop/conf}
YARN_CONF_DIR=$HADOOP_CONF_DIR
export JAVA_HOME HADOOP_CONF_DIR YARN_CONF_DIR

java="java -XX:+UseSerialGC ${TREADLE_JAVA_OPTIONS:-} --add-opens java.base/java.lang=ALL-UNNAMED"
classpath="$HADOOP_CONF_DIR:/opt/treadle/shim.jar:/opt/treadle/requirements.jar:/opt/hadoop/lib/*"

daemon() { # HEAP CLASS [ARGUMENT...]
  heap=$1
  shift
  exec $java "-Xmx$heap" -cp "$classpath" "$@"
}

role=${1:-}
[ $# -eq 0 ] || shift
case $role in
  rm) daemon 1g org.apache.hadoop.yarn.server.resourcemanager.ResourceManager ;;
  namenode)
    name=org.apache.hadoop.hdfs.server.namenode.NameNode
    [ -d /var/lib/hadoop/hdfs/name/current ] || $java -cp "$classpath" $name -format -nonInteractive
    daemon 400m $name
    ;;
  worker)
    # A DataNode beside each NodeManager, on one host, so that data can be local. If one ends, so does the container.
    $java -Xmx300m -cp "$classpath" org.apache.hadoop.hdfs.server.datanode.DataNode &
    data=$!
    $java -Xmx400m -cp "$classpath" org.apache.hadoop.yarn.server.nodemanager.NodeManager &
    node=$!
    trap 'kill $data $node' TERM INT
    while kill -0 $data 2>/dev/null && kill -0 $node 2>/dev/null; do sleep 1; done
    kill $data $node 2>/dev/null || true
    wait
    exit 1
    ;;
  sidecar) exec treadle sidecar run --external --connection-file /run/treadle/connection.json \
    --config "$HADOOP_CONF_DIR/treadle.yaml" "$@" ;;
  # Holds the network that ResourceManager and sidecar share, so that either can be started anew alone.
  host) exec sleep infinity ;;
  zookeeper) daemon 128m -Dzookeeper.admin.enableServer=false org.apache.zookeeper.server.ZooKeeperServerMain 2181 /var/lib/hadoop/zookeeper ;;
  history) daemon 400m org.apache.hadoop.mapreduce.v2.hs.JobHistoryServer ;;
  client) exec "$@" ;;
  job) daemon 256m "$@" ;;
  *)
    echo "which role? rm, namenode, worker, sidecar, host, zookeeper, history, client COMMAND..., or job CLASS [ARGUMENT...]" >&2
    exit 2
    ;;
esac
