# Name: keys-users
# Finding: issue 40: a user with 10^6 request keys, and one who changes 20,000 a second, slow each decision for everybody
# Internal: io.treadle.shim.mirror (Cluster of its tests), treadle.live.process.loading, treadle.wire.frames.FrameDecoder, Engine.apply, Engine.decide
# Limit: 1500
# CPU time of a frame: the mirror on the link's thread, and decoding, applying and deciding in the engine. p99 of 400 frames
# with both users more than 10 ms above the same frames without them PROVES.
import json

from proof_kit import PROOFS, PYTHON, WORK, cannot_run, compile_java, jvm, not_proved, proved, run

FRAMES = 400
BOUND_MS = 10
CODE = """
import json, struct, sys, time
from treadle.config.reader import parse_settings
from treadle.engine import Engine
from treadle.live.process import loading
from treadle.wire.frames import FrameDecoder

with loading():  # as a sidecar starts
    engine, decoder = Engine(parse_settings("x.yaml", "policy: {}\\n")), FrameDecoder()
    engine.warm_up()
took, java_ns = [], []
with open(sys.argv[1], "rb") as file:
    while header := file.read(12):
        length, ns = struct.unpack(">iq", header)
        data = file.read(length)
        began = time.process_time_ns()
        frame = decoder.decode(data)
        engine.apply(frame.events)
        if not frame.header.more:
            engine.decide(frame.header.rm_time_ms, frame.header.limit, sequence=frame.header.sequence)
        took.append(time.process_time_ns() - began)
        java_ns.append(ns)
frames = int(sys.argv[2])
p99 = lambda values: sorted(values[-frames:])[frames * 99 // 100] / 1e6
print(json.dumps([p99(java_ns), p99(took), p99([a + b for a, b in zip(took, java_ns)])]))
"""


def measure(standing, changes):
    file = WORK / f"frames-{standing}-{changes}"
    command = jvm(path, "io.treadle.shim.mirror.GreedyUsers", file, standing, changes, FRAMES, heap="2800m")
    # compiled as in an RM
    done = run([word for word in command if "TieredStopAtLevel" not in str(word)], timeout=900)
    if done.code:
        cannot_run(f"the mirror: {done.said}")
    read = run([PYTHON, "-c", CODE, file, FRAMES], timeout=300)
    file.unlink()
    if read.code:
        cannot_run(f"the engine: {read.said}")
    return json.loads(read.out.splitlines()[-1])


path = compile_java(PROOFS / "GreedyUsers.java")
java_0, python_0, sum_0 = measure(0, 0)
java_1, python_1, sum_1 = measure(0, 20_000)
java_2, python_2, sum_2 = measure(1_000_000, 20_000)
text = (
    f"p99 of CPU a frame (mirror + engine = both): without the users {java_0:.1f} + {python_0:.1f} = {sum_0:.1f} ms; with 20,000 "
    f"changes a second {java_1:.1f} + {python_1:.1f} = {sum_1:.1f} ms; with 1,000,000 keys of another user too {java_2:.1f} + "
    f"{python_2:.1f} = {sum_2:.1f} ms"
)
if sum_2 > sum_0 + BOUND_MS:
    proved(text)
not_proved(text)
