/** What an error of a call means: whether the server may have done the work, and what the model is told. */

import { OrchdError } from '../../model/errors.ts';
import type { ToolResult } from '../../model/run-jobs.ts';
import { wasNotSent } from '../../wire/exchange.ts';
import { UnknownOutcome } from '../local/functions.ts';
import type { McpLibrary } from './client-library.ts';
import type { McpConnection } from './connection.ts';

const MAX_MESSAGE_CHARS = 2000;

/** Returns the result of a call that has failed at the server, or throws: nobody then knows, or the server is to blame. */
export async function endOfFailedCall(
  thrown: unknown,
  library: McpLibrary,
  connection: McpConnection,
  timeoutMs: number,
): Promise<ToolResult> {
  if (thrown instanceof UnknownOutcome || isOwn(thrown)) throw thrown;
  const message = messageOf(thrown);
  if (thrown instanceof library.SdkHttpError) return afterHttpStatus(thrown, connection);
  if (thrown instanceof library.SdkError) {
    const { SdkErrorCode: codes } = library;
    if (thrown.code === codes.RequestTimeout)
      return failed(`the tool did not end within ${timeoutMs} ms, and was given up`, 'timeout');
    if (thrown.code === codes.ConnectionClosed)
      throw new UnknownOutcome(`the MCP server was lost during the call: ${await connection.closed}`);
    if (thrown.code === codes.NotConnected) throw new OrchdError('MCP_UNAVAILABLE', message);
    throw new OrchdError('MCP_PROTOCOL', message.split('\n')[0]);
  }
  if (thrown instanceof library.ProtocolError) return failed(message, 'failed');
  return afterTransport(thrown, connection);
}

const isOwn = (thrown: unknown): boolean => thrown instanceof OrchdError && thrown.code.startsWith('MCP_');

/** A status of 4xx means that the server has not taken the request: its session is gone, or the key is wrong. */
async function afterHttpStatus(thrown: Error, connection: McpConnection): Promise<never> {
  const { status = 500 } = ((thrown as { data?: unknown }).data ?? {}) as { status?: number };
  await connection.close();
  if (status < 500) throw new OrchdError('MCP_UNAVAILABLE', `the MCP server answered with status ${status}`);
  throw new UnknownOutcome(`the MCP server answered with status ${status}`);
}

async function afterTransport(thrown: unknown, connection: McpConnection): Promise<never> {
  const message = messageOf(thrown);
  await connection.close();
  if (wasNotSent(thrown)) throw new OrchdError('MCP_UNAVAILABLE', message);
  throw new UnknownOutcome(`the MCP server was lost during the call: ${message}`);
}

const failed = (text: string, why: 'failed' | 'timeout'): ToolResult => ({
  ok: false,
  text,
  why,
  started: true,
});

const messageOf = (thrown: unknown): string =>
  (thrown instanceof Error ? thrown.message : String(thrown)).slice(0, MAX_MESSAGE_CHARS);
