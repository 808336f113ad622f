/** Streams the events of an execution over HTTP. A reader that disconnects does not affect the execution. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { Timers } from '../../kit/env/env.ts';
import { openEventStream } from '../../wire/event-stream.ts';
import type { Stream } from '../../wire/route.ts';
import type { EventLog } from './event-log.ts';

const HEARTBEAT_MS = 15_000;
/** Written to a socket at a time; the rest stays in the event log, which is bounded. */
const WRITE_CHARS = 64 * 1024;

/** Streams the events after number `from` up to the last one. */
export const followLog = (log: EventLog, from: number, timers: Timers): Stream => ({
  stream: (request, response) => follow(log, from, timers, request, response),
});

function follow(
  log: EventLog,
  from: number,
  timers: Timers,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  let last = from;
  let ended = false;
  const pump = (): void => {
    while (!ended && !out.writableNeedDrain) {
      const events = log.after(last, WRITE_CHARS);
      const newest = events.at(-1);
      if (newest) {
        last = newest.n;
        out.write(events.map(({ text }) => text).join(''));
      }
      if (newest?.isLast || (!newest && log.closed)) finish();
      if (!newest) return;
    }
  };
  const finish = (): void => {
    ended = true;
    unwatch();
    out.end();
  };
  const unwatch = log.watch(() => pump());
  const out: Writable = openEventStream({
    request,
    response,
    timers,
    heartbeatMs: HEARTBEAT_MS,
    // The brain sends its next job on the same connection.
    keepsConnection: true,
    onDrain: pump,
    onClose: () => {
      ended = true;
      unwatch();
    },
  });
  pump();
}
