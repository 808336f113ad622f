/**
 * A logger that writes one JSON object per line.
 *
 * 1. Fields are an allow-list: a field that is not in it is dropped, so that a prompt or a secret cannot get into a
 *    line as part of some object.
 * 2. Values are strings, finite numbers and booleans; objects are dropped, except an `event` with its three members.
 * 3. Strings are cut to MAX_TEXT_CHARS, so the length of a line is bounded.
 * Messages are constant texts; whatever varies is a field.
 */

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'critical'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

const FIELD_NAMES = [
  'actor',
  'job_id',
  'correlation_id',
  'caller',
  'tenant',
  'session_id',
  'model_ref',
  'queue_position',
  'worker_id',
  'pool_id',
  'gpu_id',
  'scheduling_latency_ms',
  'execution_latency_ms',
  'seq',
  'epoch',
  'backend',
  'token_id',
  'error_code',
  'error_reason',
  'reason',
  'count',
  'bytes',
  'duration_ms',
  'trace_id',
  'span_id',
  'parent_span_id',
  'model_role',
  'tokens_used',
  'agent',
  'run_id',
  'tool',
  'from',
  'to',
  'outcome',
  'position',
  'route',
  'address',
  'scope',
  'cost',
] as const;

const EVENT_NAMES = ['type', 'from', 'to'] as const;

const FIELDS: ReadonlySet<string> = new Set(FIELD_NAMES);
const EVENT_FIELDS: ReadonlySet<string> = new Set(EVENT_NAMES);

type Scalar = string | number | boolean;

/** A state change: the type of the thing that changed, and its states before and after. */
export type LogEvent = { readonly [K in (typeof EVENT_NAMES)[number]]?: Scalar | undefined };

export type LogFields = {
  readonly [K in (typeof FIELD_NAMES)[number]]?: Scalar | undefined;
} & {
  /** A state change or, in the lines about the steps of runs, the kind of step. */
  readonly event?: LogEvent | string | undefined;
};

type Log = (message: string, fields?: LogFields) => void;

export interface Logger extends Readonly<Record<LogLevel, Log>> {
  /** Whether lines of this level are written, for callers whose fields are costly to compute. */
  writes(level: LogLevel): boolean;
  /** A logger that adds these fields to every line. */
  child(fields: LogFields): Logger;
}

export interface LoggerOptions {
  /** Receives one whole line, newline included; must not throw. */
  readonly write: (line: string) => void;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly level?: LogLevel;
}

const MAX_TEXT_CHARS = 500;

export function createLogger({ write, now, level = 'info' }: LoggerOptions): Logger {
  const lowest = LOG_LEVELS.indexOf(level);
  let stamped = Number.NaN;
  let timestamp = '';
  // Many lines are written in one millisecond, so its text is cached.
  const stamp = (at: number): string => {
    if (at !== stamped) timestamp = new Date(at).toISOString();
    stamped = at;
    return timestamp;
  };
  const withFields = (own: LogFields): Logger => {
    const ownText = textOf(own);
    const logAt =
      (lineLevel: LogLevel): Log =>
      (message, fields = {}) => {
        if (LOG_LEVELS.indexOf(lineLevel) < lowest) return;
        const head = `{"timestamp":"${stamp(now())}","level":"${lineLevel}","message":${quoted(message)},"app":"orchd"`;
        const rest = overlaps(own, fields) ? textOf({ ...own, ...fields }) : ownText + textOf(fields);
        write(`${head}${rest}}\n`);
      };
    return {
      debug: logAt('debug'),
      info: logAt('info'),
      warn: logAt('warn'),
      error: logAt('error'),
      critical: logAt('critical'),
      writes: (lineLevel) => LOG_LEVELS.indexOf(lineLevel) >= lowest,
      child: (fields) => withFields({ ...own, ...fields }),
    };
  };
  return withFields({});
}

const overlaps = (own: LogFields, fields: LogFields): boolean => {
  for (const name in own) if (name in fields) return true;
  return false;
};

/**
 * The fields as members of a JSON object, each after a comma. Built by hand: copying objects for each line would cost
 * as much as admitting a job.
 */
function textOf(fields: LogFields): string {
  const { event } = fields;
  if (event === undefined) return members(FIELDS, fields);
  if (typeof event === 'string') return `${members(FIELDS, fields)},"event":${quoted(event)}`;
  const change = members(EVENT_FIELDS, event).slice(1);
  return members(FIELDS, fields) + (change === '' ? '' : `,"event":{${change}}`);
}

/** The members of `values` that are in `names` and have a printable value, in their order in `values`. */
function members(names: ReadonlySet<string>, values: object): string {
  let text = '';
  for (const name in values) {
    if (!names.has(name)) continue;
    const value = (values as Record<string, unknown>)[name];
    if (typeof value === 'string') text += `,"${name}":${quoted(value)}`;
    else if (typeof value === 'boolean' || Number.isFinite(value)) text += `,"${name}":${value}`;
  }
  return text;
}

const quoted = (text: string): string => JSON.stringify(capped(text));

const capped = (text: string): string =>
  text.length > MAX_TEXT_CHARS ? `${text.slice(0, MAX_TEXT_CHARS - 1)}…` : text;
