/**
 * Runs one call of a tool. It always ends, with a text for the model: at the latest at its timeout, also if the tool
 * ignores its signal.
 */
import { cutText } from '../../kit/cut-text.ts';
import type { Timers } from '../../kit/env/env.ts';
import type { Secret } from '../../kit/secret.ts';
import type { ToolFailure, ToolResult } from '../../model/run-jobs.ts';
import type { ToolArguments } from './arguments.ts';
import { errorText } from './error-text.ts';
import { textOf } from './output.ts';
import type { Tool, ToolContext } from './tool.ts';

export const DEFAULT_TIMEOUT_MS = 60_000;
export const DEFAULT_OUTPUT_BYTES = 64 * 1024;

export interface CallLimits {
  readonly timers: Timers;
  /** The longest that any tool may take; a tool can have a shorter timeout of its own. */
  readonly timeoutMs?: number;
  /** The most that any tool may return; a tool can have a lower bound of its own. */
  readonly maxOutputBytes?: number;
  /** Values that must not appear in the text of an error. */
  readonly secrets?: readonly Secret[];
}

/** `args` were checked against the schema of the tool. */
export async function callTool(
  tool: Tool,
  args: ToolArguments,
  context: ToolContext,
  limits: CallLimits,
): Promise<ToolResult> {
  if (context.signal.aborted) return failure('cancelled', 'the call was cancelled before it began', false);
  const timeoutMs = lower(tool.timeoutMs, limits.timeoutMs, DEFAULT_TIMEOUT_MS);
  const maxBytes = lower(tool.maxOutputBytes, limits.maxOutputBytes, DEFAULT_OUTPUT_BYTES);
  const stop = new AbortController();
  const givenUp = Promise.withResolvers<ToolResult>();
  const giveUp = (result: ToolResult): void => {
    // The result comes first: a tool that ends because of its signal must not hide why it was stopped.
    givenUp.resolve(result);
    stop.abort();
  };
  const onCancel = (): void => giveUp(failure('cancelled', 'the call was cancelled'));
  const cancelTimer = limits.timers.after(timeoutMs, () =>
    giveUp(failure('timeout', `the tool did not end within ${timeoutMs} ms, and was given up`)),
  );
  context.signal.addEventListener('abort', onCancel);
  try {
    const ended = run(tool, args, { ...context, signal: stop.signal }, maxBytes, limits.secrets);
    return await Promise.race([givenUp.promise, ended]);
  } finally {
    cancelTimer();
    context.signal.removeEventListener('abort', onCancel);
  }
}

/** Never rejects: nobody may be listening any more when the tool ends. */
async function run(
  tool: Tool,
  args: ToolArguments,
  context: ToolContext,
  maxBytes: number,
  secrets: readonly Secret[] = [],
): Promise<ToolResult> {
  try {
    const result = await tool.run(args as never, context);
    // After its timeout nobody reads the result, however large it is.
    if (context.signal.aborted) return failure('failed', 'the call had been given up');
    return { ok: true, text: cutText(textOf(result), maxBytes) };
  } catch (error) {
    return failure('failed', errorText(error, secrets));
  }
}

const failure = (why: ToolFailure, text: string, started = true): ToolResult => ({
  ok: false,
  text,
  why,
  started,
});

/** The tool's own bound or the default, but not more than the caller allows. */
const lower = (own: number | undefined, most: number | undefined, usual: number): number =>
  Math.min(own ?? most ?? usual, most ?? Number.POSITIVE_INFINITY);
