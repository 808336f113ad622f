/** The message and the exit code for an error that ends a command. */
import { ClientError } from '../client/client.ts';
import { type ErrorCode, OrchdError } from '../model/errors.ts';
import { EXIT } from './command.ts';
import { oneLine } from './text/screen.ts';

/** HTTP statuses with exit code 2: the request is invalid, or the caller is not permitted to send it. */
const UNUSABLE: readonly number[] = [400, 401, 403];

/** With this error further requests to the same server are pointless. */
export const isUnreachable = (error: unknown): boolean =>
  error instanceof ClientError && error.code === 'UNREACHABLE';

/** The advice in the catalogue of errors is for programs; for these codes a command line has better advice. */
const NEXT: Readonly<Record<string, string>> = {
  UNAUTHORIZED: 'Set a token with ORCHD_TOKEN or --token; `orchd token create` creates one.',
  UNREACHABLE: 'Start the server with `orchd up`, or give its address with --url or ORCHD_URL.',
  NOT_FOUND: 'Check the id and --url; `orchd jobs` lists the jobs.',
};

/** What was asked for cannot be done, and the command knows better than the catalogue what to do next. */
export class AdvisedError extends Error {
  readonly code: ErrorCode;
  readonly next: string;

  constructor(code: ErrorCode, message: string, next: string) {
    super(message);
    this.code = code;
    this.next = next;
  }
}

/** There is nothing of this id. Unlike NOT_FOUND of the server, it knows which list has the ids that were meant. */
export class UnknownId extends AdvisedError {
  constructor(message: string, list: string) {
    super('NOT_FOUND', message, `Check the id and --url; ${list}`);
  }
}

/** The answer of the server; where it knows nothing of this id, an error that names the list of those that it knows. */
export async function listedBy<T>(list: string, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof ClientError) || error.code !== 'NOT_FOUND') throw error;
    throw new UnknownId(error.message, list);
  }
}

/** For errors of this process, with which it ends, where the advice in the catalogue is about a server that goes on. */
const NEXT_HERE: Partial<Record<ErrorCode, string>> = {
  STORE_FULL: 'Free disk space, then run the command again.',
  STORE_LOCKED: 'Stop that process, or give another folder with --data.',
};

export interface Refusal {
  readonly text: string;
  /** The exit code. */
  readonly code: number;
}

export function refusalOf(thrown: unknown): Refusal {
  if (thrown instanceof ClientError) return serverRefusal(thrown);
  if (thrown instanceof AdvisedError) {
    const text = `${oneLine(thrown.message)} (${thrown.code})\n${oneLine(thrown.next)}`;
    return { text, code: EXIT.problems };
  }
  if (thrown instanceof OrchdError) {
    const next = NEXT_HERE[thrown.code] ?? thrown.next;
    return { text: `${thrown.message} (${thrown.code})\n${next}`, code: EXIT.unusable };
  }
  return { text: (thrown as Error).message ?? String(thrown), code: EXIT.unusable };
}

function serverRefusal(error: ClientError): Refusal {
  const wait = error.retryAfterMs === undefined ? '' : ` Try again in ${error.retryAfterMs} ms.`;
  const advice = NEXT[error.code] ?? error.next;
  const next = advice === undefined ? '' : `\n${oneLine(advice)}`;
  return {
    text: `${oneLine(error.message)} (${oneLine(error.code)})${wait}${next}`,
    code: isUnreachable(error) || UNUSABLE.includes(error.status) ? EXIT.unusable : EXIT.problems,
  };
}
