/** Formats and parses server-sent events. Runs in browsers too, so it uses no decoder of Node. */
import { OrchdError } from '../model/errors.ts';

export interface SseEvent {
  readonly id?: string;
  readonly event: string;
  readonly data: string;
}

/** `data` must be a single line, such as JSON. */
export function formatEvent({ id, event, data }: SseEvent): string {
  return id === undefined
    ? `event: ${event}\ndata: ${data}\n\n`
    : `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`;
}

export const HEARTBEAT = ': keep-alive\n\n';

/**
 * Limit of one event, so that a stream which never ends an event cannot fill the memory. Job results are events too.
 */
export const MAX_EVENT_CHARS = 64 * 2 ** 20;

const ANY_LINE_END = /\r\n|\n|\r/;

/** Parses text that arrives in pieces of any size, and passes each complete event to `on`. */
export class SseReader {
  #rest = '';
  /** The last piece ended with `\r`: a `\n` at the start of the next piece belongs to the same line end. */
  #afterReturn = false;
  #id: string | undefined;
  #event = '';
  #data: string[] = [];
  #dataChars = 0;
  readonly #on: (event: SseEvent) => void;
  readonly #maxEventChars: number;

  constructor(on: (event: SseEvent) => void, maxEventChars = MAX_EVENT_CHARS) {
    this.#on = on;
    this.#maxEventChars = maxEventChars;
  }

  push(piece: string): void {
    if (piece === '') return;
    const text = this.#afterReturn && piece.startsWith('\n') ? piece.slice(1) : piece;
    this.#afterReturn = piece.endsWith('\r');
    if (text.includes('\r')) for (const line of this.#lines(text)) this.#line(line);
    else this.#pushUnix(text);
    if (this.#rest.length + this.#dataChars > this.#maxEventChars)
      throw new OrchdError('WORKER_PROTOCOL', 'an event of the stream is too long');
  }

  /** Splits only the new text: a long line arrives in many pieces and must not be searched again for each. */
  #lines(text: string): string[] {
    const lines = text.split(ANY_LINE_END);
    lines[0] = this.#rest + lines[0];
    this.#rest = lines.pop() ?? '';
    return lines;
  }

  /** The fast path for text without `\r`, which runs for every token. */
  #pushUnix(text: string): void {
    let from = 0;
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', from)) {
      const line = this.#rest + text.slice(from, at);
      from = at + 1;
      this.#rest = '';
      this.#line(line);
    }
    this.#rest += text.slice(from);
  }

  #line(line: string): void {
    if (line === '') return this.#dispatch();
    if (line.startsWith(':')) return;
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') {
      this.#data.push(value);
      this.#dataChars += value.length + 1;
    } else if (field === 'event') this.#event = value;
    else if (field === 'id') this.#id = value;
  }

  #dispatch(): void {
    const data = this.#data;
    const event = this.#event || 'message';
    const id = this.#id;
    this.#data = [];
    this.#dataChars = 0;
    this.#event = '';
    this.#id = undefined;
    if (data.length > 0) this.#on({ event, data: data.join('\n'), ...(id !== undefined && { id }) });
  }
}

/** Yields the events of a stream of bytes as they become complete; an incomplete event at the end is dropped. */
export async function* readEvents(
  chunks: AsyncIterable<Uint8Array>,
  maxEventChars = MAX_EVENT_CHARS,
): AsyncGenerator<SseEvent> {
  const events: SseEvent[] = [];
  const reader = new SseReader((event) => events.push(event), maxEventChars);
  const decoder = new TextDecoder();
  for await (const chunk of chunks) {
    reader.push(decoder.decode(chunk, { stream: true }));
    yield* events.splice(0);
  }
}
