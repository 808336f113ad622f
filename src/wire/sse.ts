/** Server-sent events, both ways. */
export interface SseEvent {
  readonly id?: string;
  readonly event: string;
  readonly data: string;
}

/** `data` must be a single line, as JSON is. */
export function formatEvent({ id, event, data }: SseEvent): string {
  return id === undefined
    ? `event: ${event}\ndata: ${data}\n\n`
    : `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`;
}

export const HEARTBEAT = ': keep-alive\n\n';

const MAX_LINE_CHARS = 1024 * 1024;

/** Takes text as it arrives, in pieces of any size, and hands on whole events. */
export class SseReader {
  #rest = '';
  #id: string | undefined;
  #event = '';
  #data: string[] = [];
  readonly #on: (event: SseEvent) => void;

  constructor(on: (event: SseEvent) => void) {
    this.#on = on;
  }

  push(text: string): void {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    if (this.#rest.length > MAX_LINE_CHARS) throw new Error('a line of the stream is too long');
    for (const line of lines) this.#line(line);
  }

  #line(line: string): void {
    if (line === '') return this.#dispatch();
    if (line.startsWith(':')) return;
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') this.#data.push(value);
    else if (field === 'event') this.#event = value;
    else if (field === 'id') this.#id = value;
  }

  #dispatch(): void {
    const data = this.#data;
    const event = this.#event || 'message';
    const id = this.#id;
    this.#data = [];
    this.#event = '';
    this.#id = undefined;
    if (data.length > 0) this.#on({ event, data: data.join('\n'), ...(id !== undefined && { id }) });
  }
}
