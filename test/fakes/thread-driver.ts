/** A driver of seats that keep threads, at a ThreadProvider. */
import type { Driver } from '../../src/daemons/gateway/driver.ts';
import { OrchdError } from '../../src/model/errors.ts';
import type { SeatOrder } from '../../src/model/gateway-wire.ts';
import { messagesOf } from '../../src/model/heard.ts';
import type { ExecutionResult } from '../../src/model/worker-wire.ts';
import type { SaidMessage, ThreadAnswer, ThreadRequest } from './thread-provider.ts';

/** The thread of a request is a URL; the brain gives the name of the session where there is none yet. */
const threadIn = (id: string | undefined): string | undefined =>
  id?.startsWith('https://') === true ? id : undefined;

const doubt = (): OrchdError => new OrchdError('UNKNOWN_OUTCOME', 'the call is not found again');

export function threadDriver({ name: seat, url }: SeatOrder): Driver {
  const result = async (reply: Response): Promise<ExecutionResult> => {
    const { text, thread } = (await reply.json()) as ThreadAnswer;
    return { text, thread_id: thread, usage: { prompt_tokens: 1, completion_tokens: 2 } };
  };
  return {
    abilities: { finds: 'token', keepsMs: 0, cancels: 'disconnect', billsWhenCut: true },
    async run({ request, tag, signal }) {
      const thread = threadIn(request.sessionId);
      const messages = messagesOf(request.body) as readonly SaidMessage[];
      const body: ThreadRequest = { tag, seat, messages, ...(thread !== undefined && { thread }) };
      const reply = await fetch(url, { method: 'POST', body: JSON.stringify(body), signal }).catch(() => {
        throw doubt();
      });
      if (!reply.ok)
        throw new OrchdError('EXECUTION_FAILED', 'the thread is not known', {
          retriable: true,
          isUncharged: true,
        });
      return result(reply);
    },
    async resume({ tag, signal }) {
      const reply = await fetch(`${url}?tag=${tag}`, { signal });
      if (reply.status !== 200) throw doubt();
      return result(reply);
    },
    close: () => undefined,
  };
}
