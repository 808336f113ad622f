/** Translates `exit.json` and `stdout` into an outcome. The same files always give the same outcome. */
import { constants } from 'node:os';
import type { ExecutionEnd, ExecutionOutcome } from '../../../core/ports/backend.ts';
import type { Disk, Env } from '../../../kit/env/env.ts';
import { JsonFaultError, parseInSlices } from '../../../kit/json-parser.ts';
import { atOnce, inSlices, ONE_TURN_BYTES } from '../../../kit/slices.ts';
import { type ErrorCode, type ErrorInfo, errorInfo } from '../../../model/errors.ts';
import { type JsonOutput, jsonOutcome, undeclared } from './json-output.ts';
import { type ExitRecord, MAX_RESULT_BYTES } from './layout.ts';
import type { CommandOutcome } from './options.ts';
import { characterEnd } from './splitter.ts';
import { isTransientStart } from './start-errors.ts';

const MAX_MESSAGE_CHARS = 2000;

/** The exit codes of sysexits.h. A retry does not help with them, except with EX_TEMPFAIL. */
const FIRST_SYSEXIT = 64;
const LAST_SYSEXIT = 78;
const EX_TEMPFAIL = 75;

/** Signals by which somebody else ends a process: a person, an init system, the kernel when memory is short. */
const FOREIGN_SIGNALS = ['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const;
/** A shell whose program was ended by a signal exits with this code and the number of the signal; so do many programs. */
const SIGNAL_EXIT = 128;

export interface EndRules {
  readonly changed?: CommandOutcome | undefined;
  /** What the configuration of the command declares about its output. */
  readonly output?: JsonOutput | undefined;
}

/**
 * The outcome is unknown where the command was cut off by somebody else, or nobody saw its end: it may
 * have done all of its work before that.
 */
export async function endOf(
  env: Pick<Env, 'disk' | 'timers'>,
  stdout: string,
  exit: ExitRecord,
  { changed = (outcome) => outcome, output }: EndRules = {},
): Promise<ExecutionEnd> {
  const why = unknownBy(exit);
  if (why !== undefined) return { is: 'forgotten', why };
  return { is: 'ended', outcome: changed(await outcomeOf(env, stdout, exit, output), exit.why) };
}

function unknownBy({ why, code, signal }: ExitRecord): string | undefined {
  if (why === 'lost') return 'what kept it is gone';
  // The command had begun: what it could not write may have been the last of its work.
  if (why === 'disk') return 'its output could not be written';
  if (why === 'terminated') return 'its keeper was told to stop, and not by orchd';
  if (why !== 'exit') return undefined;
  const by = FOREIGN_SIGNALS.find(
    (name) => name === signal || code === SIGNAL_EXIT + constants.signals[name],
  );
  return by && `ended by ${by}, and not by orchd`;
}

async function outcomeOf(
  env: Pick<Env, 'disk' | 'timers'>,
  stdout: string,
  exit: ExitRecord,
  output: JsonOutput | undefined,
): Promise<ExecutionOutcome> {
  switch (exit.why) {
    case 'killed':
      return { ok: 'cancelled' };
    case 'exit':
      if (exit.code !== 0) return exited(exit);
      return output
        ? declaredOutcome(env, stdout, exit, output)
        : { ok: true, resultText: await resultOf(env.disk, stdout, exit) };
    case 'timeout':
      return failed('WORKER_TIMEOUT', exit.message ?? 'it ran longer than its timeout', true);
    case 'output':
      return failed('EXECUTION_FAILED', exit.message ?? 'it wrote too much', false);
    case 'start':
      return startFailed(exit);
    case 'disk':
    case 'terminated':
    case 'lost':
      throw new Error(`an execution that ended by ${exit.why} has no outcome`);
  }
}

/** The pause after a start that failed for lack of space or memory: the usual pauses would use up all tries in seconds. */
const LACK_PAUSE_MS = 30_000;

function startFailed({ message = 'the command does not start', errno }: ExitRecord): ExecutionOutcome {
  const isTransient = isTransientStart(errno);
  const outcome = failed('WORKER_START_FAILED', message, isTransient);
  return isTransient ? { ...outcome, retryAfterMs: LACK_PAUSE_MS } : outcome;
}

function exited({ code, signal, stderr_tail }: ExitRecord): ExecutionOutcome {
  const how = code === null ? `ended by ${signal ?? 'a signal'}` : `exit code ${code}${crashOf(code)}`;
  const stderr = stderr_tail.trim();
  const tail = stderr.slice(-(MAX_MESSAGE_CHARS - how.length - 2)).toWellFormed();
  const wrongInput = code !== null && code >= FIRST_SYSEXIT && code <= LAST_SYSEXIT && code !== EX_TEMPFAIL;
  return failed('EXECUTION_FAILED', stderr === '' ? how : `${how}: ${tail}`, !wrongInput);
}

/** The signal that an exit code stands for in a shell, in brackets; nothing for other codes. */
function crashOf(code: number): string {
  const name = Object.entries(constants.signals).find(([, n]) => code === SIGNAL_EXIT + n)?.[0];
  return name === undefined ? '' : ` (${name})`;
}

function failed(
  code: ErrorCode,
  message: string,
  retriable: boolean,
): Extract<ExecutionOutcome, { readonly ok: false }> {
  const error: ErrorInfo = { ...errorInfo(code, message.slice(0, MAX_MESSAGE_CHARS)), retriable };
  return { ok: false, error };
}

/** What a command has printed, where its configuration declares the form. Its keeper has checked that it is JSON. */
async function declaredOutcome(
  { disk, timers }: Pick<Env, 'disk' | 'timers'>,
  stdout: string,
  exit: ExitRecord,
  output: JsonOutput,
): Promise<ExecutionOutcome> {
  const bytes = exit.output_bytes ?? 0;
  if (bytes > MAX_RESULT_BYTES) return undeclared(`it is longer than ${MAX_RESULT_BYTES} bytes`);
  if (!exit.is_json) return undeclared('it is no object or list in JSON');
  const file = await disk.open(stdout, 'read');
  try {
    const json = (await file.read(0, bytes)).toString().trim();
    const parsing = parseInSlices(json);
    const value = bytes <= ONE_TURN_BYTES ? atOnce(parsing) : await inSlices(parsing, timers);
    return jsonOutcome(output, json, value);
  } catch (error) {
    // A process that the command has left behind may have written over its output.
    if (error instanceof JsonFaultError) return undeclared('it is no object or list in JSON');
    throw error;
  } finally {
    await file.close();
  }
}

/** The text of the result. JSON is embedded as it was written: its keeper has parsed it, so nobody has to here. */
async function resultOf(disk: Disk, stdout: string, exit: ExitRecord): Promise<string> {
  const file = await disk.open(stdout, 'plain');
  try {
    const size = exit.output_bytes ?? (await file.size());
    const bytes = await file.read(0, Math.min(size, MAX_RESULT_BYTES));
    if (size <= MAX_RESULT_BYTES) {
      const text = bytes.toString();
      const json = exit.is_json ? `,"json":${text.trim()}` : '';
      return `{"text":${JSON.stringify(text)},"exit_code":0${json}}`;
    }
    const text = bytes.subarray(0, characterEnd(bytes, bytes.length)).toString();
    return JSON.stringify({ text, exit_code: 0, truncated: true });
  } finally {
    await file.close();
  }
}
