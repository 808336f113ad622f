/**
 * Makes the command for an offer, with the prompt and the thread of the job in its arguments. No shell reads them.
 *
 * G1  A text of a job never becomes an option: where an argument would begin with `-` because of it, the job is refused,
 *     unless `--` stands before the argument in the configuration.
 * G2  A job whose arguments the system would not take is refused before anything is started.
 */
import { hasPlaceholder, PLACEHOLDER, type Placeholder } from '../../../config/command-arguments.ts';
import type { Offer } from '../../../core/ports/backend.ts';
import type { Timers } from '../../../kit/env/env.ts';
import { JsonFaultError, parseInSlices } from '../../../kit/json-parser.ts';
import { atOnce, inSlices, ONE_TURN_BYTES } from '../../../kit/slices.ts';
import { type ErrorCode, OrchdError } from '../../../model/errors.ts';
import type { CommandBackendOptions, CommandType, OfferedCommand } from './options.ts';

/** MAX_ARG_STRLEN of Linux, which counts the NUL at the end of an argument. */
const MAX_ARGUMENT_BYTES = 128 * 1024 - 1;
const OPTIONS_END = '--';

/** The field of the payload that fills a placeholder. */
const FIELDS = { prompt: 'prompt', thread: 'thread_id' } as const satisfies Record<Placeholder, string>;

/** The command for an offer, or why it is refused. */
export async function commandFor(
  types: CommandBackendOptions['types'],
  offer: Offer,
  work: string,
  timers: Timers,
): Promise<OfferedCommand | OrchdError> {
  const name = offer.ask.spec.type;
  const type = Object.hasOwn(types, name) ? types[name] : undefined;
  if (!type) return new OrchdError('WORKER_NOT_FOUND', `this backend runs no jobs of type "${name}"`);
  try {
    return typeof type === 'function'
      ? type(offer, work)
      : await filledCommand(type, offer.payloadText, timers);
  } catch (error) {
    if (error instanceof OrchdError) return error;
    throw error;
  }
}

/** The command of a type for one job. Throws an OrchdError where the payload does not fit. */
async function filledCommand(
  type: CommandType,
  payloadText: string,
  timers: Timers,
): Promise<OfferedCommand> {
  const usesPrompt = hasPlaceholder(type.argv, 'prompt');
  if (!usesPrompt && !type.resumeArgv) return type;
  const payload = await parsedPayload(payloadText, timers);
  const thread = textIn(payload, 'thread');
  if (thread !== undefined && !type.resumeArgv)
    throw refusal('UNSUPPORTED', FIELDS.thread, 'cannot be used: this command has no resume_argv');
  const argv = (thread === undefined ? undefined : type.resumeArgv) ?? type.argv;
  const filled = { ...type, argv: filledArgv(argv, payload) };
  // A program that gets its prompt as an argument takes what is on its standard input for a part of it.
  return hasPlaceholder(argv, 'prompt') ? { ...filled, input: '' } : filled;
}

async function parsedPayload(text: string, timers: Timers): Promise<unknown> {
  try {
    const parsing = parseInSlices(text);
    return text.length <= ONE_TURN_BYTES ? atOnce(parsing) : await inSlices(parsing, timers);
  } catch (error) {
    if (error instanceof JsonFaultError)
      throw new OrchdError('INVALID_PARAMS', 'the payload cannot be read as JSON');
    throw error;
  }
}

function textIn(payload: unknown, placeholder: Placeholder): string | undefined {
  const field = FIELDS[placeholder];
  const value: unknown =
    typeof payload === 'object' && payload !== null && Object.hasOwn(payload, field)
      ? (payload as Readonly<Record<string, unknown>>)[field]
      : undefined;
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw invalid(field, 'must be a text');
  if (value === '') throw invalid(field, 'is empty');
  if (value.includes('\0')) throw invalid(field, 'contains a NUL, which no argument can hold');
  return value;
}

function filledArgv(argv: readonly string[], payload: unknown): string[] {
  const optionsEnd = argv.indexOf(OPTIONS_END);
  return argv.map((argument, at) => {
    let first: string | undefined;
    const filled = argument.replace(PLACEHOLDER, (_, name: Placeholder) => {
      const field = FIELDS[name];
      first ??= field;
      const text = textIn(payload, name);
      if (text === undefined) throw invalid(field, 'is missing');
      return text;
    });
    if (first === undefined) return argument;
    const isAfterOptions = optionsEnd >= 0 && optionsEnd < at;
    if (filled.startsWith('-') && !argument.startsWith('-') && !isAfterOptions)
      throw invalid(
        first,
        `begins with "-" and would be read as an option: put "--" before "${argument}" in the configuration`,
      );
    if (Buffer.byteLength(filled) > MAX_ARGUMENT_BYTES)
      throw refusal('TOO_LARGE', first, `is too long: an argument may have ${MAX_ARGUMENT_BYTES} bytes`);
    return filled;
  });
}

const refusal = (code: ErrorCode, field: string, what: string): OrchdError =>
  new OrchdError(code, `"${field}" of the payload ${what}`);

const invalid = (field: string, what: string): OrchdError => refusal('INVALID_PARAMS', field, what);
