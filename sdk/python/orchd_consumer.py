"""A consumer of orchd for Python 3.9 and later: one file, standard library only (docs/consumers.md).

    from orchd_consumer import Consumer

    def embed(payload, context):
        return model.embed(payload["text"])

    Consumer("http://127.0.0.1:8080", "gpu", ["embed"], 4, embed).run()

A handler runs on a thread of its own and returns the result of the job. It raises JobError to fail the job; any other
exception fails it too, and it is tried again. context.stopped is an event that is set when the job is to end: then the
handler returns or raises soon, and what it returns is not used.

Heartbeats have a thread of their own, so a handler may block for as long as it likes. Only a call into a library of C
that keeps the interpreter's lock for longer than the lease makes the consumer look dead.
"""

import http.client
import json
import logging
import math
import os
import random
import secrets
import signal
import socket
import threading
import time
import urllib.parse

try:
    import redis
except ImportError:
    redis = None

__all__ = ["Consumer", "Context", "JobError", "ApiError"]

_KEPT_EVENT_BYTES = 256 * 1024
_BATCH_BYTES = 1024 * 1024
_MAX_BATCH = 200
_MAX_MESSAGE = 2000
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_LISTEN_MS = 5000
# A job that takes less is quick. While quick jobs come, a consumer asks the brain for more, and waits so long for each.
_FLOW_MS = 200
_LEAVE_S = 5.0
_log = logging.getLogger("orchd.consumer")


class JobError(Exception):
    """Fails the job. With retriable it is tried again, after retry_after_ms if that is given."""

    def __init__(self, message, code=None, retriable=False, retry_after_ms=None):
        super().__init__(message)
        self.code, self.retriable, self.retry_after_ms = code, retriable, retry_after_ms


class ApiError(Exception):
    """An answer of the brain that is an error."""

    def __init__(self, status, code, message, retriable=False):
        super().__init__(f"{code}: {message}")
        self.status, self.code = status, code
        # 401 and 403: a token may be renewed at the brain while this process runs.
        self.retriable = retriable or status >= 500 or status in (401, 403, 408, 429)


class Context:
    """What a handler knows of its job, beside the payload."""

    def __init__(self, consumer, job):
        self.job, self.token = job, job["token"]
        self.job_id, self.attempt, self.type = job["job_id"], job["attempt"], job["type"]
        self.stopped, self.why = threading.Event(), None
        self.usage = None
        self._consumer = consumer
        self._is_lost = False
        self._result = None
        # Events as (number, bytes, event); numbers count from 1.
        self._events, self._event_bytes, self._numbered = [], 0, 0
        self._sent = self._compared = 0

    def emit(self, text):
        """Passes on a piece of the answer to those who follow the job."""
        self._event("token", {"t": text})

    def metrics(self, data):
        self._event("metrics", data)

    def _event(self, kind, data):
        with self._consumer._lock:
            self._numbered += 1
            if kind == "token":
                data["i"] = self._numbered
            event = {"token": self.token, "n": self._numbered, "type": kind, "data": data}
            size = len(json.dumps(event, allow_nan=False))
            self._events.append((self._numbered, size, event))
            self._event_bytes += size
            while self._event_bytes > _KEPT_EVENT_BYTES and len(self._events) > 1:
                self._event_bytes -= self._events.pop(0)[1]
            self._consumer._news.notify_all()

    def _unsent(self):
        events = [event for n, _, event in self._events if n > self._sent]
        if events and events[0]["n"] > self._sent + 1:
            events[0] = {**events[0], "gap": True}
        return events

    def _stop(self, why):
        if self.why is None:
            self.why = why
        self.stopped.set()


class _Api:
    """One kept connection to the brain. All requests may be repeated: a lost answer is asked for again."""

    def __init__(self, url, token):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address such as http://127.0.0.1:8080")
        self._parts, self._base = parts, parts.path.rstrip("/")
        self._headers = {"content-type": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._connection = None

    def call(self, method, path, body=None, timeout_s=30.0):
        sent = None if body is None else json.dumps(body, allow_nan=False).encode()
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(self._parts.hostname, self._parts.port, timeout=timeout_s)
        connection = self._connection
        try:
            if connection.sock is None:
                connection.timeout = timeout_s
                connection.connect()
            connection.sock.settimeout(timeout_s)
            connection.request(method, self._base + path, sent, self._headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException, AttributeError) as error:
            self._connection = None
            connection.close()
            raise ConnectionError(f"no answer: {error!r}") from error
        return _read(answer.status, text)

    def cut(self):
        """Ends a request that waits on another thread."""
        try:
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        except (OSError, AttributeError):
            pass


def _read(status, text):
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConnectionError(f"status {status} without JSON: it is not from orchd") from error
    if status < 300:
        return value
    error = value.get("error", {}) if isinstance(value, dict) else {}
    raise ApiError(status, error.get("code", "UNKNOWN"), error.get("message", ""), error.get("retriable", False))


class _Stopping(Exception):
    """The consumer is to stop while it waits for the brain."""


class Consumer:
    def __init__(self, url, pool, types, slots, handler, token=None, *, name=None, models=None, labels=None,
                 paid=False, lease_ttl_ms=None, wait_ms=20_000, grace_s=30.0, redis_url=None,
                 gpu_memory_mb=None, gpu_pool=None):
        self._declared = {"pool": pool, "types": list(types), "slots": slots}
        listens = "redis" if redis and redis_url else None
        given = {"name": name, "models": models, "labels": labels, "paid": paid or None,
                 "lease_ttl_ms": lease_ttl_ms, "listens": listens,
                 "gpu_memory_mb": gpu_memory_mb, "gpu_pool": gpu_pool}
        self._declared.update({key: value for key, value in given.items() if value is not None})
        self._handler, self._slots, self._wait_ms, self._grace_s = handler, slots, wait_ms, grace_s
        self._redis_url = redis_url if listens else None
        self._url, self._secret = url, token if token is not None else os.environ.get("ORCHD_TOKEN")
        self._claims, self._beats, self._reports = (_Api(url, self._secret) for _ in range(3))
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._registration, self._is_gone = None, False
        self._claim = self._claimed = 0
        # When a claim last brought jobs, and the duration of the job that ended last.
        self._given_at, self._took_s = -math.inf, math.inf
        # The handlers that have not ended, and when they began, the oldest first.
        self._held, self._running = {}, {}
        self._stopping, self._ended = threading.Event(), threading.Event()

    def stop(self):
        """Ends run(): what runs may finish within the grace time, and nothing new is begun. Callable from anywhere."""
        # A signal handler runs between any two lines of the main thread, which may hold the locks.
        threading.Thread(target=self._stop_now, daemon=True).start()

    def _stop_now(self):
        self._stopping.set()
        self._wake()

    def _wake(self):
        self._claims.cut()
        with self._news:
            self._news.notify_all()

    def run(self, signals=True):
        """Works until stop(), SIGTERM or SIGINT, or until an operator drains this consumer."""
        if signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.stop())
        threads = [threading.Thread(target=each, daemon=True) for each in (self._beat, self._report)]
        try:
            self._register(is_first=True)
            for thread in threads:
                thread.start()
            while not self._stopping.is_set():
                self._claim_some()
        except _Stopping:
            if self._registration is None:
                return
        self._finish()
        self._ended.set()
        self._wake()
        for thread in threads:
            thread.join(_LEAVE_S)
        last = _Api(self._url, self._secret)
        # What a claim has taken whose answer never came is given back by this heartbeat.
        self._patiently(lambda: self._beats_once(last))
        self._patiently(lambda: last.call("DELETE", self._path("")))

    # Registration.

    def _path(self, rest):
        return f"/v2/consumers/{self._registration['consumer_id']}{rest}"

    def _register(self, is_first=False):
        # The id is chosen here: a registration whose answer was lost is repeated, and is the same one.
        body = {**self._declared, "consumer_id": secrets.token_hex(16)}
        pauses = _Pauses()
        while True:
            try:
                answer = self._claims.call("POST", "/v2/consumers", body)
                break
            except (ConnectionError, ApiError) as error:
                if is_first and isinstance(error, ApiError) and (not error.retriable or error.status in (401, 403)):
                    raise
                self._complain("the registration failed", error)
            if self._stopping.wait(pauses.next()):
                raise _Stopping
        with self._news:
            self._registration, self._is_gone = answer, False
            self._news.notify_all()
        self._stream = _Stream(self._redis_url, answer) if self._redis_url and "stream" in answer else None

    def _gone(self, registration):
        """The brain does not know this consumer any more: nothing that it holds is its own."""
        with self._news:
            if self._is_gone or registration is not self._registration:
                return
            self._is_gone = True
            for context in list(self._held.values()):
                self._lose(context)
            self._news.notify_all()
        self._claims.cut()

    def _lose(self, context):
        context._is_lost = True
        self._held.pop(context.token, None)
        context._stop("lost")

    # Claims.

    def _free(self):
        return self._slots - len(set(self._held) | set(self._running))

    def _claim_some(self):
        with self._news:
            self._wait_while(lambda: self._free() <= 0)
            # Results on their way free the slots of their jobs: one claim for all of them. A brain may take long to answer.
            self._wait_while(lambda: self._held and not self._running, _FLOW_MS / 1000)
            room, is_gone, is_flowing = self._free(), self._is_gone, self._is_flowing()
        if is_gone:
            return self._register()
        if self._stopping.is_set():
            return None
        # While quick jobs keep coming, the brain is asked for them, which takes fewer steps than to listen.
        tokens = self._stream.hear(room) if self._stream and not is_flowing else None
        wait_ms = 0 if tokens is not None else _FLOW_MS if self._stream and is_flowing else self._wait_ms
        answer = self._ask_for_jobs({"max": room, "wait_ms": wait_ms, **({"tokens": tokens} if tokens else {})})
        if answer is not None and answer["jobs"]:
            self._given_at = time.monotonic()
        if answer is not None and answer["drain"]:
            self._pause_or_leave()
        return None

    def _wait_while(self, holds, for_s=None):
        self._news.wait_for(lambda: self._is_gone or self._stopping.is_set() or not holds(), for_s)

    def _is_flowing(self):
        """Jobs keep coming, and none of them takes long."""
        now = time.monotonic()
        oldest = next(iter(self._running.values()), now)
        return max(now - self._given_at, now - oldest, self._took_s) < _FLOW_MS / 1000

    def _ask_for_jobs(self, body):
        """The number of a claim is repeated until its answer has arrived, so that no job is lost with an answer."""
        self._claim += 1
        pauses = _Pauses()
        while True:
            registration = self._registration
            if self._stopping.is_set():
                body = {"max": 1, "wait_ms": 0}
            try:
                wait_s = body["wait_ms"] / 1000
                request = {"claim": self._claim, **body}
                answer = self._claims.call("POST", self._path("/claim"), request, 15.0 + wait_s)
                break
            except (ConnectionError, ApiError) as error:
                if isinstance(error, ApiError) and error.code == "CONSUMER_GONE":
                    return self._gone(registration)
                if self._is_gone or (self._stopping.is_set() and pauses.count >= 3):
                    return None
                if not self._stopping.is_set():
                    self._complain("a claim failed", error)
            self._stopping.wait(pauses.next())
        with self._lock:
            if self._is_gone:
                return None
            self._claimed = self._claim
            for job in answer["jobs"]:
                self._begin(Context(self, job))
        return answer

    def _begin(self, context):
        self._held[context.token] = context
        if self._stopping.is_set():
            self._settle(context, {"returned": True})
            return
        self._running[context.token] = time.monotonic()
        threading.Thread(target=self._run, args=(context,), daemon=True).start()

    def _pause_or_leave(self):
        """The brain gives out nothing now. Only if it drains this consumer, which a heartbeat says, is that the end."""
        try:
            self._beats_once(_Api(self._url, self._secret))
        except (ConnectionError, ApiError) as error:
            self._complain("a heartbeat failed", error)
        self._stopping.wait(self._registration["heartbeat_ms"] / 1000)

    # Handlers.

    def _run(self, context):
        try:
            result = self._outcome(context)
        except BaseException as error:  # pylint: disable=broad-except
            result = {"ok": False, "error": {"message": repr(error)[:_MAX_MESSAGE], "retriable": True}}
        if context.usage is not None and "returned" not in result:
            result["usage"] = context.usage
        with self._news:
            self._took_s = time.monotonic() - self._running.pop(context.token)
            self._settle(context, result)

    def _outcome(self, context):
        try:
            value = self._handler(context.job["payload"], context)
            if not context.stopped.is_set():
                json.dumps(value, allow_nan=False)
                return {"ok": True, "result": value}
        except JobError as error:
            if not context.stopped.is_set():
                failed = {"message": str(error)[:_MAX_MESSAGE], "retriable": error.retriable}
                if error.code:
                    failed["code"] = error.code[:64]
                after = {} if error.retry_after_ms is None else {"retry_after_ms": error.retry_after_ms}
                return {"ok": False, "error": failed, **after}
        except BaseException as error:  # pylint: disable=broad-except
            if not context.stopped.is_set():
                _log.exception("the handler failed")
                message = f"{type(error).__name__}: {error}"[:_MAX_MESSAGE]
                # What cannot be written as JSON cannot be so the next time either.
                return {"ok": False, "error": {"message": message, "retriable": not _is_of_json(error)}}
        if context.why == "shutdown":
            return {"ok": False, "error": {"message": "the consumer was stopped", "retriable": True}}
        return {"cancelled": True}

    def _settle(self, context, result):
        with self._news:
            if not context._is_lost:
                context._result = {"token": context.token, **result}
            self._news.notify_all()

    # Results and events.

    def _report(self):
        pauses = _Pauses()
        while True:
            with self._news:
                while not self._has_news() and not self._ended.is_set():
                    self._news.wait()
                if self._ended.is_set() and not self._has_news():
                    return
                registration = self._registration
                contexts = list(self._held.values())
                events, is_whole = _batch([event for context in contexts for event in context._unsent()])
                ended = [context._result for context in contexts if context._result]
                # The events first: with the result of an attempt, nothing is passed on any more.
                results = _batch(ended)[0] if is_whole else []
            try:
                if events:
                    self._send_events(events)
                if results:
                    self._send_results(results)
                pauses.reset()
            except (ConnectionError, ApiError) as error:
                if isinstance(error, ApiError) and error.code == "CONSUMER_GONE":
                    self._gone(registration)
                    continue
                self._complain("a report failed", error)
                if self._ended.wait(pauses.next()):
                    return

    def _has_news(self):
        return not self._is_gone and any(each._result or each._unsent() for each in self._held.values())

    def _send_events(self, events):
        try:
            lost = self._reports.call("POST", self._path("/events"), {"events": events})["lost"]
        except ApiError as error:
            if error.retriable or error.code == "CONSUMER_GONE":
                raise
            # An event that is refused would be refused again.
            _log.warning("events were refused: %s", error)
            lost = []
        with self._news:
            for event in events:
                context = self._held.get(event["token"])
                if context:
                    context._sent = max(context._sent, event["n"])
            for token in lost:
                if token in self._held:
                    self._lose(self._held[token])
            self._news.notify_all()

    def _send_results(self, results):
        try:
            answers = self._reports.call("POST", self._path("/results"), {"results": results}, 60.0)["results"]
        except ApiError as error:
            if error.retriable or error.code == "CONSUMER_GONE":
                raise
            if len(results) > 1:
                for result in results:
                    self._send_results([result])
                return
            self._replace(results[0], error)
            return
        again = None
        with self._news:
            for result, answer in zip(results, answers):
                error = answer.get("error")
                if error and error.get("retriable"):
                    again = error
                    continue
                if error:
                    _log.warning("the result of %s is not wanted: %s", result["token"], error.get("code"))
                self._held.pop(result["token"], None)
            self._news.notify_all()
        if again:
            raise ConnectionError(f"a result was not taken: {again}")

    def _replace(self, result, error):
        """A result that the brain refuses, because it is too large, say, becomes a failure that says so."""
        token, message = result["token"], f"the result was refused: {error}"[:_MAX_MESSAGE]
        with self._news:
            context = self._held.get(token)
            if context and result.get("ok") is not False:
                context._result = {"token": token, "ok": False, "error": {"message": message}}
            else:
                self._held.pop(token, None)
            self._news.notify_all()

    # Heartbeats.

    def _beat(self):
        pauses = _Pauses()
        wait_s = self._registration["heartbeat_ms"] / 1000
        while not self._ended.wait(wait_s):
            registration = self._registration
            try:
                if not self._is_gone:
                    self._beats_once()
                pauses.reset()
                wait_s = registration["heartbeat_ms"] / 1000
            except (ConnectionError, ApiError) as error:
                if isinstance(error, ApiError) and error.code == "CONSUMER_GONE":
                    self._gone(registration)
                    continue
                self._complain("a heartbeat failed", error)
                wait_s = min(pauses.next(), registration["heartbeat_ms"] / 1000)

    def _beats_once(self, api=None):
        with self._lock:
            body = {"held": list(self._held), "claimed": self._claimed}
            timeout_s = max(1.0, self._registration["lease_ttl_ms"] / 2000)
        answer = (api or self._beats).call("POST", self._path("/heartbeat"), body, timeout_s)
        with self._news:
            for order in answer["stop"]:
                if order["token"] in self._held:
                    self._held[order["token"]]._stop(order["why"])
            for token in answer["lost"]:
                if token in self._held:
                    self._lose(self._held[token])
            for token, n in answer["events"].items():
                context = self._held.get(token)
                if context:
                    # What was sent before the last heartbeat and is still missing did not arrive, or a new brain asks.
                    if n < context._compared:
                        context._sent = n
                    context._compared = context._sent
            self._news.notify_all()
        if answer["drain"]:
            self._stopping.set()
            self._claims.cut()

    # The end.

    def _finish(self):
        self._wait_for_ends(self._grace_s)
        with self._lock:
            for context in self._held.values():
                context._stop("shutdown")
        self._wait_for_ends(_LEAVE_S)

    def _wait_for_ends(self, for_s):
        end = time.monotonic() + for_s
        with self._news:
            while (self._held or self._running) and time.monotonic() < end:
                self._news.wait(max(0.0, end - time.monotonic()))

    def _patiently(self, call):
        end, pauses = time.monotonic() + _LEAVE_S, _Pauses()
        while time.monotonic() < end:
            try:
                return call()
            except ApiError:
                return None
            except ConnectionError:
                time.sleep(pauses.next())
        return None

    def _complain(self, what, error):
        _log.warning("%s: %s", what, error)


class _Stream:
    """Hears of waiting jobs from Redis. What it says is a hint: while it is away, jobs are asked for by long poll."""

    def __init__(self, url, registration):
        self._key, self._group = registration["stream"]["key"], registration["stream"]["group"]
        self._name = registration["name"]
        self._client = redis.Redis.from_url(url, socket_timeout=_LISTEN_MS / 1000 + 5, decode_responses=True)
        self._away_until = 0.0
        self._waits = False

    def hear(self, room):
        """Tokens of waiting jobs; an empty list where none came, and None while Redis is away."""
        if time.monotonic() < self._away_until:
            return None
        # The first claim takes what waits already, and so does one after each wait in vain: a hint may be lost.
        if not self._waits:
            self._waits = True
            return []
        try:
            heard = self._client.xreadgroup(self._group, self._name, {self._key: ">"}, count=room, block=_LISTEN_MS)
        except Exception as error:  # pylint: disable=broad-except
            _log.warning("Redis is away: %s", error)
            self._away_until, self._waits = time.monotonic() + 5.0, False
            return None
        return [fields["token"] for _, entries in heard or [] for _, fields in entries if "token" in fields]


class _Pauses:
    """Growing pauses between tries, of random length, so that many consumers do not come back at once."""

    def __init__(self):
        self.count = 0

    def next(self):
        self.count += 1
        return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(self.count - 1, 10)) * random.uniform(0.5, 1.0)

    def reset(self):
        self.count = 0


def _batch(entries):
    """As many entries as go into one request, the first always; and whether that is all of them."""
    taken, size = [], 0
    for entry in entries[:_MAX_BATCH]:
        size += len(json.dumps(entry, allow_nan=False))
        if taken and size > _BATCH_BYTES:
            break
        taken.append(entry)
    return taken, len(taken) == len(entries)


def _is_of_json(error):
    return isinstance(error, (TypeError, ValueError)) and "JSON" in str(error)
