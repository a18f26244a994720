"""Exit code 0 if a role of the cluster answers: healthy.py rm|namenode|worker|history|sidecar."""

import json
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

PAGES = {
    "rm": ["http://localhost:8088/ws/v1/cluster/info"],
    "namenode": ["http://localhost:9870/jmx?qry=Hadoop:service=NameNode,name=NameNodeStatus"],
    "history": ["http://localhost:19888/ws/v1/history/info"],
    "worker": ["http://localhost:8042/ws/v1/node/info", "http://localhost:9864/"],
}

LISTEN = "0A"
UNAUTHORIZED = 401  # it answers, and wants a ticket

if sys.argv[1] == "sidecar":
    connection = json.loads(Path("/run/treadle/connection.json").read_text("utf-8"))
    # looked up: whoever connects and says nothing is warned of in the log
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text("utf-8").splitlines()[1:]]
    listening = {int(fields[1].partition(":")[2], 16) for fields in sockets if fields[3] == LISTEN}
    sys.exit(connection["port"] not in listening)
for page in PAGES.get(sys.argv[1], []):
    try:
        urlopen(page, timeout=5).close()  # noqa: S310 - the addresses above
    except HTTPError as error:
        if error.code != UNAUTHORIZED:
            raise
