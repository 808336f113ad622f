/** What to say of an error that ends a command, and the exit code. */
import { ClientError } from '../client/client.ts';
import { OrchdError } from '../model/errors.ts';
import { EXIT } from './command.ts';

/** A request that was wrong by itself, or came from somebody who may not ask. */
const UNUSABLE: readonly number[] = [400, 401, 403];

/** A server that is gone is gone for the next request too. */
export const isUnreachable = (error: ClientError): boolean => error.code === 'UNREACHABLE';

/** What the catalogue advises is meant for programs; these can be said better at a command line. */
const NEXT: Readonly<Record<string, string>> = {
  UNAUTHORIZED: 'Give one with ORCHD_TOKEN or --token; `orchd token create` makes one.',
  UNREACHABLE: 'Start it with `orchd up`, or say with --url or ORCHD_URL where it is.',
  NOT_FOUND: 'Check the id, and --url; `orchd jobs` lists what is there.',
};

export interface Refusal {
  readonly text: string;
  /** The exit code. */
  readonly code: number;
}

export function refusalOf(thrown: unknown): Refusal {
  if (thrown instanceof ClientError) return serverRefusal(thrown);
  if (thrown instanceof OrchdError)
    return { text: `${thrown.message} (${thrown.code})\n${thrown.next}`, code: EXIT.unusable };
  return { text: (thrown as Error).message ?? String(thrown), code: EXIT.unusable };
}

function serverRefusal(error: ClientError): Refusal {
  const wait = error.retryAfterMs === undefined ? '' : ` Try again in ${error.retryAfterMs} ms.`;
  const advice = NEXT[error.code] ?? error.next;
  const next = advice === undefined ? '' : `\n${advice}`;
  return {
    text: `${error.message} (${error.code})${wait}${next}`,
    code: isUnreachable(error) || UNUSABLE.includes(error.status) ? EXIT.unusable : EXIT.problems,
  };
}
