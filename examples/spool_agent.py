#!/usr/bin/env python3
"""An agent for a spool, in Python: spool_agent.py DIR COMMAND [ARGS]. Runs COMMAND for each job until none is left.

COMMAND gets prompt.json on standard input; what it prints is the result. docs/spool.md has the protocol."""
import json, os, secrets, shutil, socket, subprocess, sys, threading, time
from pathlib import Path

SPOOL, COMMAND = Path(sys.argv[1]), sys.argv[2:]
ID = f"py-{secrets.token_hex(8)}"
MINE = SPOOL / "in-progress" / ID
BUSY = [SPOOL / "completed" / end for end in ("succeeded", "failed", "killed")] + [SPOOL / "jobs" / "stale"]


def owner(nonce):
    stat = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(") ")[2].split()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    names = {"hostname": socket.gethostname(), "boot": boot, "pid": os.getpid(), "start": stat[19]}
    return {**names, "namespace": os.readlink("/proc/self/ns/pid"), "nonce": nonce, "actor": ID}


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace(path, data):
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)
    with open(temporary, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)


def lifecycle(folder):
    try:
        return json.loads((folder / "job.json").read_text())
    except FileNotFoundError:
        return {"status": "queued", "schema-version": "1.0.0", "retry_count": 0, "max_retries": 3}


def is_plain(path):
    return path.is_file() and not path.is_symlink()


def is_queued(folder):
    try:
        json.loads((folder / "prompt.json").read_bytes())
        job = lifecycle(folder)
        return job["schema-version"] == "1.0.0" and job["status"] == "queued"
    except (ValueError, LookupError, TypeError):
        return False  # half written, or of another kind: left to whoever wrote it


def change(folder, job, to):
    moves, attempt = job.get("moves", 0) + 1, job.get("attempt", 0) + (to == "in-progress")
    line = {"n": moves, "at": time.strftime("%FT%TZ", time.gmtime()), "from": job["status"], "to": to, "actor": ID, "attempt": attempt}
    with open(folder / "history.jsonl", "a") as history:
        history.write(json.dumps(line) + "\n")
    after = {**job, "status": to, "moves": moves, "attempt": attempt, "agent": ID}
    replace(folder / "job.json", json.dumps(after).encode())
    return after


def lock(name):
    nonce = secrets.token_hex(8)
    made = SPOOL / "tmp" / f"{ID}-{nonce}"
    made.mkdir()
    (made / "owner.json").write_text(json.dumps(owner(nonce)))
    try:
        os.rename(made, SPOOL / "incoming" / f"{name}.lock")
        return nonce
    except OSError:
        shutil.rmtree(made)
        return None


def unlock(name, nonce):
    place, aside = SPOOL / "incoming" / f"{name}.lock", SPOOL / "tmp" / f"{ID}-old-{nonce}"
    try:
        os.rename(place, aside)
        if json.loads((aside / "owner.json").read_text())["nonce"] != nonce:
            os.rename(aside, place)
    except (OSError, ValueError):
        pass
    shutil.rmtree(aside, ignore_errors=True)


def as_json(output):
    try:
        json.loads(output)
        return output
    except ValueError:
        return json.dumps({"text": output.decode(errors="replace")}).encode()


def heartbeat(stop):
    while not stop.wait(10):
        os.utime(MINE)


def run(name):
    waiting, folder = SPOOL / "incoming" / name, MINE / name
    if not is_queued(waiting):
        return
    MINE.mkdir(exist_ok=True)
    os.rename(waiting, folder)  # from here on the job is ours
    sync(SPOOL / "incoming"), sync(MINE.parent), sync(MINE)
    job = change(folder, lifecycle(folder), "in-progress")
    end = "succeeded"
    if not (folder / "result.json").exists():
        stop = threading.Event()
        threading.Thread(target=heartbeat, args=[stop], daemon=True).start()
        done = subprocess.run(COMMAND, stdin=open(folder / "prompt.json", "rb"), stdout=subprocess.PIPE)
        stop.set()
        end = "succeeded" if done.returncode == 0 else "failed"
        if end == "succeeded":
            replace(folder / "result.json", as_json(done.stdout))
    change(folder, job, end)
    sync(folder)
    os.rename(folder, SPOOL / "completed" / end / name)
    sync(MINE), sync(SPOOL / "completed" / end)


for path in sorted((SPOOL / "incoming").iterdir()):
    is_job = path.suffix != ".lock" and not path.is_symlink() and is_plain(path / "prompt.json")
    if not is_job or path.with_name(path.name + ".lock").exists() or any((place / path.name).exists() for place in BUSY):
        continue
    nonce = lock(path.name)
    if nonce is None:
        continue
    try:
        run(path.name)
    except FileNotFoundError:
        pass  # somebody else was faster, or has taken us for dead
    finally:
        unlock(path.name, nonce)
try:
    MINE.rmdir()
except OSError:
    pass
