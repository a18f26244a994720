"""An engine's process without an engine: it proposes nothing, and thinks when a file says so."""

from __future__ import annotations

import pickle
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from treadle.events import Proposals
from treadle.live.engine_child import Line
from treadle.sidecar.child import READY
from treadle.wire.answer import Answer, encode_answer
from treadle.wire.frames import read_frame_header


def main() -> None:
    """Serve the hub. Arguments: a folder, a name, and the descriptor of the connection."""
    folder, name, connection = Path(sys.argv[1]), sys.argv[2], Connection(int(sys.argv[3]))
    line = Line(connection)
    if (folder / f"{name}.cannot").exists():
        line.send(b"it has no policy")
        return
    line.send(READY)
    with (folder / f"{name}.heard").open("ab") as heard:
        while True:
            content = connection.recv_bytes()
            heard.write(content)
            heard.flush()
            while (folder / f"{name}.thinks").exists():
                time.sleep(0.01)
            header, _ = read_frame_header(pickle.loads(content).frame)
            line.send(encode_answer(Answer(header.epoch, header.sequence, 1, False, Proposals.none(), "")))


if __name__ == "__main__":
    main()
