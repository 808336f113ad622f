/**
 * Parses JSON in slices, for texts that would block the event loop for too long in JSON.parse: that takes 250 ms for an
 * object of 500,000 keys. The result is the same as that of JSON.parse, except that the key `__proto__` is refused, and
 * so is a value beyond the bounds of depth.ts; a text is refused at the first fault (docs/decisions/0020).
 */
import { type Excess, MAX_DEPTH, MAX_KEYS, MAX_VALUES } from './depth.ts';
import { type Sliced, SliceMeter } from './slices.ts';

export type JsonFault = Excess | 'not JSON' | '__proto__';

export class JsonFaultError extends Error {
  readonly fault: JsonFault;

  constructor(fault: JsonFault) {
    super(fault);
    this.fault = fault;
  }
}

/** Work done in one slice: values that were read, and characters at CHARS_PER_UNIT. */
const UNITS_PER_SLICE = 4000;
const CHARS_PER_UNIT = 256;
/** Strings, numbers and white space of more characters than this get slices of their own. */
const LONG_CHARS = 2 ** 18;

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];
const [SPACE, TAB, LINE_FEED, RETURN] = [0x20, 0x09, 0x0a, 0x0d];

/** An array or object whose end has not been read yet. */
type Open =
  | { readonly is: 'array'; readonly items: unknown[] }
  | { readonly is: 'object'; readonly fields: Record<string, unknown>; key: string; keys: number };

/** `maxValues`: how many values the text may have in all. */
export const parseInSlices = (text: string, maxValues = MAX_VALUES): Sliced<unknown> =>
  new Parser(text, { depth: MAX_DEPTH, keys: MAX_KEYS, values: maxValues, hasProto: false }).run();

/** Whether JSON.parse would accept the text. */
export function* isJsonInSlices(text: string): Sliced<boolean> {
  try {
    yield* new Parser(text, UNBOUNDED).run();
    return true;
  } catch (error) {
    if (error instanceof JsonFaultError) return false;
    throw error;
  }
}

interface Bounds {
  readonly depth: number;
  /** In one object. */
  readonly keys: number;
  readonly values: number;
  /** Whether the key `__proto__` is accepted. */
  readonly hasProto: boolean;
}

const { POSITIVE_INFINITY } = Number;
const UNBOUNDED: Bounds = {
  depth: POSITIVE_INFINITY,
  keys: POSITIVE_INFINITY,
  values: POSITIVE_INFINITY,
  hasProto: true,
};

class Parser {
  readonly #text: string;
  readonly #bounds: Bounds;
  readonly #meter = new SliceMeter(UNITS_PER_SLICE);
  readonly #open: Open[] = [];
  #at = 0;
  #values = 0;

  constructor(text: string, bounds: Bounds) {
    this.#text = text;
    this.#bounds = bounds;
  }

  *run(): Sliced<unknown> {
    for (;;) {
      let value = yield* this.#begin();
      if (value === NOT_WHOLE) continue;
      // The value is whole: so are the arrays and objects that end behind it.
      for (;;) {
        const parent = this.#open.at(-1);
        const next = this.#peek() ?? (yield* this.#afterSpaces());
        if (!parent) {
          if (this.#at < this.#text.length) throw new JsonFaultError('not JSON');
          return value;
        }
        if (parent.is === 'array') parent.items.push(value);
        else parent.fields[parent.key] = value;
        this.#at++;
        if (next === COMMA) {
          if (parent.is === 'object') yield* this.#key(parent);
          break;
        }
        if (next !== (parent.is === 'array' ? CLOSE_ARRAY : CLOSE_OBJECT))
          throw new JsonFaultError('not JSON');
        value = this.#close();
      }
    }
  }

  /** Reads a scalar or an empty array or object; or the beginning of one that is not empty, and NOT_WHOLE. */
  *#begin(): Sliced<unknown> {
    if (++this.#values > this.#bounds.values) throw new JsonFaultError('too many');
    if (this.#meter.spend(1)) yield;
    const first = this.#peek() ?? (yield* this.#afterSpaces());
    if (first !== OPEN_ARRAY && first !== OPEN_OBJECT)
      return first === QUOTE ? yield* this.#string() : yield* this.#word();
    if (this.#open.length > this.#bounds.depth) throw new JsonFaultError('too deep');
    this.#at++;
    const opened: Open =
      first === OPEN_ARRAY ? { is: 'array', items: [] } : { is: 'object', fields: {}, key: '', keys: 0 };
    this.#open.push(opened);
    const next = this.#peek() ?? (yield* this.#afterSpaces());
    if (next === (opened.is === 'array' ? CLOSE_ARRAY : CLOSE_OBJECT)) {
      this.#at++;
      return this.#close();
    }
    if (opened.is === 'object') yield* this.#key(opened);
    return NOT_WHOLE;
  }

  #close(): unknown {
    const closed = this.#open.pop() as Open;
    return closed.is === 'array' ? closed.items : closed.fields;
  }

  *#key(parent: Extract<Open, { is: 'object' }>): Sliced<void> {
    if (++parent.keys > this.#bounds.keys) throw new JsonFaultError('too many keys');
    const first = this.#peek() ?? (yield* this.#afterSpaces());
    if (first !== QUOTE) throw new JsonFaultError('not JSON');
    parent.key = yield* this.#string();
    if (parent.key === '__proto__' && !this.#bounds.hasProto) throw new JsonFaultError('__proto__');
    const next = this.#peek() ?? (yield* this.#afterSpaces());
    if (next !== COLON) throw new JsonFaultError('not JSON');
    this.#at++;
  }

  *#string(): Sliced<string> {
    const start = this.#at;
    let end = start;
    do {
      end = yield* this.#quoteAfter(end);
      if (this.#meter.spend(1)) yield;
    } while (this.#text.charCodeAt(end - 1) === BACKSLASH && (yield* this.#isEscaped(end)));
    this.#at = end + 1;
    return (yield* this.#scalar(start)) as string;
  }

  /** The place of the next quote. */
  *#quoteAfter(at: number): Sliced<number> {
    for (let from = at + 1; from < this.#text.length; from += LONG_CHARS) {
      const found = this.#text.slice(from, from + LONG_CHARS).indexOf('"');
      if (found >= 0) return from + found;
      yield;
    }
    throw new JsonFaultError('not JSON');
  }

  /** Whether the character at this place follows an odd number of backslashes. */
  *#isEscaped(at: number): Sliced<boolean> {
    let before = at - 1;
    while (this.#text.charCodeAt(before) === BACKSLASH) {
      if (--before % LONG_CHARS === 0) yield;
    }
    return (at - before) % 2 === 0;
  }

  /** A number, true, false or null: reads up to the next character that ends one. */
  *#word(): Sliced<unknown> {
    const start = this.#at;
    const text = this.#text;
    let end = start;
    while (end < text.length && !endsWord(text.charCodeAt(end))) {
      if (++end % LONG_CHARS === 0) yield;
    }
    if (end === start) throw new JsonFaultError('not JSON');
    this.#at = end;
    return yield* this.#scalar(start);
  }

  /**
   * The value of the text from `start` to the current place. JSON.parse checks its form; a slice of the text instead of
   * its copy would keep the whole text in memory.
   */
  *#scalar(start: number): Sliced<unknown> {
    const chars = this.#at - start;
    if (chars > LONG_CHARS || this.#meter.spend(Math.ceil(chars / CHARS_PER_UNIT))) yield;
    try {
      return JSON.parse(this.#text.slice(start, this.#at));
    } catch {
      throw new JsonFaultError('not JSON');
    } finally {
      if (chars > LONG_CHARS) yield;
    }
  }

  /**
   * Skips white space and returns the character behind it, or NaN at the end of the text. Undefined after a slice of
   * white space without an end.
   */
  #peek(): number | undefined {
    const text = this.#text;
    const last = this.#at + LONG_CHARS;
    for (let at = this.#at; at < last; at++) {
      const code = text.charCodeAt(at);
      if (code === SPACE || code === LINE_FEED || code === RETURN || code === TAB) continue;
      this.#at = at;
      return code;
    }
    this.#at = last;
    return undefined;
  }

  *#afterSpaces(): Sliced<number> {
    for (;;) {
      yield;
      const next = this.#peek();
      if (next !== undefined) return next;
    }
  }
}

/** Stands for an array or object of which only the beginning has been read. */
const NOT_WHOLE = Symbol('not whole');

const endsWord = (code: number): boolean =>
  code === COMMA ||
  code === CLOSE_ARRAY ||
  code === CLOSE_OBJECT ||
  code === SPACE ||
  code === LINE_FEED ||
  code === RETURN ||
  code === TAB ||
  code === QUOTE ||
  code === COLON;
