/** The events of an execution over HTTP. A reader that goes away takes nothing with it. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { Timers } from '../../kit/env/env.ts';
import { openEventStream } from '../../wire/event-stream.ts';
import type { Stream } from '../../wire/route.ts';
import type { EventLog } from './event-log.ts';

const HEARTBEAT_MS = 15_000;
/** What is handed to a socket at once; the rest waits in the log, where it has a bound. */
const PUMP_CHARS = 64 * 1024;

/** The events after `from`, then the end. */
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
      const events = log.after(last, PUMP_CHARS);
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
    // The brain comes with the next job at once.
    keepsConnection: true,
    onDrain: pump,
    onClose: () => {
      ended = true;
      unwatch();
    },
  });
  pump();
}
