/**
 * Requests of many JSON texts, one a line (NDJSON). The lines are collected into arrays, each of which is handled like an
 * array that was sent as JSON; the answers follow as lines, in order, while later lines still arrive.
 *
 * N1  Lines are handled in their order: an array is handled when the answers to the one before have come.
 * N2  Memory is bounded: reading pauses while MAX_WAITING_BYTES of lines wait, or the client leaves MAX_UNREAD_BYTES of
 *     answers unread. What is held counts in the room for bodies; where that is full, the stream ends with SERVER_BUSY.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ByteRoom, ByteShare } from '../kit/byte-room.ts';
import type { Timers } from '../kit/env/env.ts';
import { type BodySize, ONE_TURN_BYTES, ownTurns } from '../kit/slices.ts';
import { OrchdError, toOrchdError } from '../model/errors.ts';
import { parseJsonBody, parseLargeBody } from './json-body.ts';
import { type Line, LineSplitter } from './line-splitter.ts';
import { drained } from './pieces.ts';
import { renderError } from './render-error.ts';
import type { Call, HandlerResult, Route } from './route.ts';

export const NDJSON_TYPE = 'application/x-ndjson';

export const isNdjson = ({ 'content-type': type }: IncomingMessage['headers']): boolean =>
  type?.split(';', 1)[0]?.trim().toLowerCase() === NDJSON_TYPE;

/** Answers to one array, in its order; each is an object. */
type Answers = readonly object[];

export interface LineStreamParts {
  readonly timers: Timers;
  readonly maxLineBytes: number;
  readonly room: ByteRoom;
  readonly correlationId: string;
  /** Handles an array of values. What it throws becomes the answer to each of them. */
  readonly handle: (values: readonly unknown[], size: BodySize) => Promise<Answers>;
}

const MAX_ARRAY_LINES = 1000;
const MAX_ARRAY_BYTES = 256 * 1024;
const MAX_WAITING_BYTES = 1024 * 1024;
/** A client that sends everything before it reads an answer is served up to here: some 20,000 jobs. */
const MAX_UNREAD_BYTES = 4 * 1024 * 1024;

export class LineStream {
  readonly #parts: LineStreamParts;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #splitter: LineSplitter;
  #waiting: Line[] = [];
  #waitingBytes = 0;
  #isComplete = false;
  readonly #share: ByteShare;
  /** Why lines after those that wait are not read. */
  #refusal: OrchdError | undefined;
  #lastNumber = 0;
  #wake: () => void = () => undefined;

  constructor(parts: LineStreamParts, request: IncomingMessage, response: ServerResponse) {
    this.#parts = parts;
    this.#request = request;
    this.#response = response;
    this.#splitter = new LineSplitter(parts.maxLineBytes);
    this.#share = parts.room.enter();
  }

  /** Resolves when all lines are answered, or the client is gone. */
  async run(): Promise<void> {
    try {
      await this.#run();
    } finally {
      this.#share.release();
    }
  }

  async #run(): Promise<void> {
    const response = this.#response;
    response.on('error', () => undefined);
    response.writeHead(200, { 'content-type': NDJSON_TYPE });
    response.flushHeaders();
    this.#read();
    for (let lines = await this.#next(); lines.length > 0; lines = await this.#next()) {
      const text = await this.#answersTo(lines);
      if (response.destroyed) return;
      response.write(text);
      if (response.writableLength > MAX_UNREAD_BYTES) await drained(response, this.#parts.timers);
    }
    if (!this.#refusal) return void response.end();
    const line = { line: this.#lastNumber + 1, ...this.#refused(this.#refusal) };
    response.end(`${JSON.stringify(line)}\n`, () => this.#request.socket.destroySoon());
  }

  #read(): void {
    const request = this.#request;
    const wake = (): void => this.#wake();
    request.on('data', (piece: Buffer) => {
      if (this.#refusal) return;
      this.#keep(this.#splitter.add(piece));
      this.#count();
      if (this.#waitingBytes > MAX_WAITING_BYTES) request.pause();
      wake();
    });
    request.on('end', () => {
      if (!this.#refusal) this.#keep(this.#splitter.end());
      this.#isComplete = true;
      wake();
    });
    // Lines whose sender is gone are still handled; half a line at the end is not.
    for (const event of ['error', 'close'] as const) {
      request.on(event, () => {
        this.#isComplete = true;
        wake();
      });
    }
  }

  /** Counts what is held in the room. */
  #count(): void {
    try {
      this.#share.release();
      this.#share.grow(this.#waitingBytes + this.#splitter.heldBytes);
    } catch (error) {
      this.#refusal = toOrchdError(error);
      this.#isComplete = true;
    }
  }

  #keep(lines: Iterable<Line>): void {
    for (const line of lines) {
      this.#lastNumber = line.number;
      this.#waiting.push(line);
      this.#waitingBytes += line.bytes?.length ?? 0;
    }
  }

  /** The next lines that are handled together; none at the end. */
  async #next(): Promise<readonly Line[]> {
    while (this.#waiting.length === 0 && !this.#isComplete) {
      this.#request.resume();
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    let bytes = 0;
    let count = 0;
    for (const line of this.#waiting) {
      bytes += line.bytes?.length ?? 0;
      if (count > 0 && (count === MAX_ARRAY_LINES || bytes > MAX_ARRAY_BYTES)) break;
      count++;
    }
    const lines = this.#waiting.slice(0, count);
    this.#waiting = this.#waiting.slice(count);
    this.#waitingBytes -= lines.reduce((sum, line) => sum + (line.bytes?.length ?? 0), 0);
    if (!this.#refusal) this.#count();
    if (this.#waitingBytes <= MAX_WAITING_BYTES) this.#request.resume();
    return lines;
  }

  /** The text of the answers to these lines: each with the number of its line. */
  async #answersTo(lines: readonly Line[]): Promise<string> {
    const { values, refusals, size } = await this.#parsed(lines);
    const answers = await this.#handled(values, size);
    let next = 0;
    let text = '';
    for (const { number } of lines) {
      const refusal = refusals.get(number);
      const answer = refusal ? this.#refused(refusal) : answers[next++];
      text += `${JSON.stringify({ line: number, ...answer })}\n`;
    }
    return text;
  }

  async #parsed(lines: readonly Line[]): Promise<ParsedLines> {
    await ownTurns(this.#parts.timers).next();
    const values: unknown[] = [];
    const refusals = new Map<number, OrchdError>();
    let size: BodySize = 'small';
    for (const { number, bytes } of lines) {
      try {
        if (!bytes) throw new OrchdError('TOO_LARGE', 'the line is too long');
        // A long line is alone, or nearly so: it fills the array.
        const parsed =
          bytes.length <= ONE_TURN_BYTES
            ? { value: parseJsonBody(bytes), size }
            : await parseLargeBody([bytes], this.#parts.timers);
        values.push(parsed.value);
        if (parsed.size === 'large') size = 'large';
      } catch (error) {
        refusals.set(number, toOrchdError(error));
      }
    }
    return { values, refusals, size };
  }

  async #handled(values: readonly unknown[], size: BodySize): Promise<Answers> {
    if (values.length === 0) return [];
    try {
      return await this.#parts.handle(values, size);
    } catch (error) {
      const refused = this.#refused(toOrchdError(error));
      return values.map(() => refused);
    }
  }

  #refused(error: OrchdError): object {
    const { status, body } = renderError(error, this.#parts.correlationId);
    return { http_status: status, ...body };
  }
}

interface ParsedLines {
  readonly values: readonly unknown[];
  /** By the number of the line. */
  readonly refusals: ReadonlyMap<number, OrchdError>;
  readonly size: BodySize;
}

/** Handles an array of lines by a route that takes arrays. */
export const linesHandler =
  (route: Route, call: Call): LineStreamParts['handle'] =>
  async (body, bodySize) => {
    // The lines are admitted even if their sender leaves: it may have read no answer at all.
    const result = await route.handle({ ...call, body, bodySize, onDisconnect: () => undefined });
    return answersIn(result, body.length);
  };

function answersIn(result: HandlerResult, count: number): Answers {
  if ('error' in result) throw result.error;
  if ('stream' in result) throw new OrchdError('INTERNAL');
  const { status, body, json, text } = result;
  const given = body ?? JSON.parse(String(text?.content ?? json));
  if (status === 200) return (given as { readonly answers: Answers }).answers;
  // Another node has refused the array as a whole.
  return new Array<object>(count).fill({ http_status: status, ...(given as object) });
}
