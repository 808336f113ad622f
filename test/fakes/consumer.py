"""A consumer in Python whose jobs say what they do. Each one that begins is a line of the ledger."""

import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "sdk" / "python"))

from orchd_consumer import Consumer, JobError  # noqa: E402

options = json.loads(sys.argv[1])


def note(word, context):
    line = f"{word} {context.token} {os.getpid()}\n".encode()
    ledger = os.open(options["ledger"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(ledger, line)
    os.close(ledger)
    print(line.decode(), end="", flush=True)


def handle(payload, context):
    note("began", context)
    what = payload["do"]
    time.sleep(payload.get("lasts", 0) / 1000)
    if what == "note":
        note("ended", context)
    elif what == "block":
        end = time.monotonic() + payload["ms"] / 1000
        while time.monotonic() < end:
            pass
    elif what == "die" and not os.path.exists(payload["unless"]):
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "fail":
        raise JobError("no luck", code="NO_LUCK")
    elif what == "say":
        for word in payload["words"]:
            context.emit(word)
        context.usage = {"prompt_tokens": 3, "completion_tokens": 4}
        note("said", context)
        while "until" in payload and not os.path.exists(payload["until"]):
            time.sleep(0.02)
        note("ended", context)
    elif what == "large":
        return "x" * payload["chars"]
    elif what == "hold":
        while not os.path.exists(payload["until"]):
            if context.stopped.wait(0.02):
                note("stopped", context)
                return None
    return {"pid": os.getpid()}


Consumer(options["url"], options["pool"], ["work"], options["slots"], handle, lease_ttl_ms=options["leaseTtlMs"],
         wait_ms=2000, grace_s=options["graceMs"] / 1000, redis_url=options.get("redisUrl")).run()
print("left", flush=True)
