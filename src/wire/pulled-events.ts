/** Server-sent events of an outbound stream, pulled one at a time: the reader may wait between two of them. */
import type { StreamReply } from './outbound.ts';
import type { SseEvent } from './sse.ts';
import { eachEvent } from './sse-bytes.ts';

/**
 * Yields the events of a stream in order, also those that came before it failed. While the reader is busy, no more is
 * read from the connection. The connection is closed when the reader stops.
 */
export async function* pulledEvents(reply: StreamReply, maxEventChars: number): AsyncGenerator<SseEvent> {
  const waiting: SseEvent[] = [];
  let ended: { readonly failure: unknown } | undefined;
  let wake = (): void => undefined;
  const take = (event: SseEvent): void => {
    waiting.push(event);
    reply.pause();
    wake();
  };
  const end = (failure: unknown): void => {
    ended = { failure };
    wake();
  };
  eachEvent(reply, take, maxEventChars).then(() => end(undefined), end);
  try {
    for (;;) {
      for (let event = waiting.shift(); event; event = waiting.shift()) yield event;
      if (ended) break;
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      reply.resume();
      await woken;
    }
    if (ended.failure !== undefined) throw ended.failure;
  } finally {
    reply.close();
  }
}
