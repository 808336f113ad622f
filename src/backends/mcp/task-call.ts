/**
 * A call that the server runs as a task. Its id is durable before anything relies on it, so that the call is found again
 * after a restart of the brain (the form of tasks in the protocol before 2026-07-28; the official client has no API for
 * tasks, and reads no tasks of the newer protocol).
 */

import type { Timers } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { OrchdError } from '../../model/errors.ts';
import { UnknownOutcome } from '../local/functions.ts';
import type { CallOptions, McpConnection } from './connection.ts';
import type { LiveTool } from './definition.ts';

const MIN_POLL_MS = 50;
const MAX_POLL_MS = 5000;
const USUAL_POLL_MS = 500;
const CANCEL_TIMEOUT_MS = 5000;
/** A server keeps the result for this many times the timeout of the call. */
const KEEP_FACTOR = 10;

interface TaskState {
  readonly taskId?: unknown;
  readonly status?: unknown;
  readonly statusMessage?: unknown;
  readonly pollInterval?: unknown;
}

/** Begins the task; returns its id. */
export async function beginTask(
  connection: McpConnection,
  { definition }: LiveTool,
  args: object,
  options: CallOptions,
): Promise<string> {
  const params = { name: definition.name, arguments: args, task: { ttl: options.timeoutMs * KEEP_FACTOR } };
  const { task } = ((await connection.request('tools/call', params, options)) ?? {}) as { task?: TaskState };
  if (typeof task?.taskId !== 'string' || task.taskId === '' || task.taskId.length > 512)
    throw new OrchdError('MCP_PROTOCOL', 'the server began no task, although it offers tasks');
  return task.taskId;
}

/** Waits for the end of the task; returns the result of the call. Cancels the task where the signal is aborted. */
export async function awaitTask(
  connection: McpConnection,
  taskId: string,
  timers: Timers,
  options: CallOptions,
): Promise<unknown> {
  try {
    return await endOfTask(connection, taskId, timers, options);
  } catch (error) {
    if (options.signal.aborted) await cancelTask(connection, taskId);
    throw error;
  }
}

async function endOfTask(
  connection: McpConnection,
  taskId: string,
  timers: Timers,
  options: CallOptions,
): Promise<unknown> {
  const { signal } = options;
  for (;;) {
    signal.throwIfAborted();
    const state = await taskState(connection, taskId, options);
    switch (state?.status) {
      case 'completed':
        return connection.request('tasks/result', { taskId }, options);
      case 'failed':
      case 'cancelled':
        return failedTask(state);
      case 'input_required':
        await cancelTask(connection, taskId);
        throw new OrchdError('MCP_PROTOCOL', 'the task asks for input, which is refused');
      case 'working':
        await pause(timers, pollMs(state.pollInterval), signal);
        break;
      default:
        throw new UnknownOutcome('the server does not know the task any more');
    }
  }
}

/** A server that answers with an error does not know the task any more. */
async function taskState(
  connection: McpConnection,
  taskId: string,
  options: CallOptions,
): Promise<TaskState | null> {
  try {
    return (await connection.request('tasks/get', { taskId }, options)) as TaskState | null;
  } catch (error) {
    const isAnswer = typeof (error as { code?: unknown } | null)?.code === 'number';
    if (isAnswer) throw new UnknownOutcome('the server does not know the task any more');
    throw error;
  }
}

const failedTask = ({ status, statusMessage }: TaskState) => ({
  isError: true,
  content: [{ type: 'text', text: `the task is ${String(status)}: ${String(statusMessage ?? '')}` }],
});

const pollMs = (asked: unknown): number =>
  typeof asked === 'number' ? Math.min(MAX_POLL_MS, Math.max(MIN_POLL_MS, asked)) : USUAL_POLL_MS;

/** Best effort: a server that does not answer is left alone. */
async function cancelTask(connection: McpConnection, taskId: string): Promise<void> {
  const { signal } = new AbortController();
  await connection
    .request('tasks/cancel', { taskId }, { signal, timeoutMs: CANCEL_TIMEOUT_MS })
    .catch(() => undefined);
}
