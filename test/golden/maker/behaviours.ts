/** Behaviour of the executors for each attempt of the script, by token; every other attempt succeeds at once. */
import { errorInfo } from '../../../src/model/errors.ts';
import { answers, type Behaviour, ends, fails, IS_FORGOTTEN, never, RUNS } from './executor.ts';

const refusal = { ...errorInfo('INVALID_PARAMS', 'no such tool'), retriable: false };

export const LONG_TEXT = 'lorem ipsum '.repeat(350);

export const BEHAVIOURS: Readonly<Record<string, Behaviour>> = {
  'big:1': answers(LONG_TEXT),
  'talk-1:1': answers({ says: 'hello' }, { prompt: 12, completion: 30 }),
  'chat-1:1': answers({ says: 'hi' }, { prompt: 20, completion: 80 }),
  'retried:1': ends({
    ok: false,
    error: { ...errorInfo('EXECUTION_FAILED', 'a hiccup'), retriable: true },
    usage: { input: 5, cacheRead: 4, cacheWrite: 3, output: 2, reasoning: 1 },
  }),
  'exhausted:1': fails('first', true),
  'exhausted:2': fails('second', true),
  'backing-off:1': ends({
    ok: false,
    error: { ...errorInfo('EXECUTION_FAILED', 'come back later'), retriable: true },
    retryAfterMs: 3_600_000,
  }),
  'poisoned:1': fails('it is poison', false),
  'redriven:1': fails('not yet', false),
  'redriven-running:1': fails('not yet', false),
  'redriven-running:2': RUNS,
  'busy:1': { offer: async () => ({ is: 'busy', retryAfterMs: 50 }) },
  'refused:1': { offer: async () => ({ is: 'refused', error: refusal }) },
  'spared:1': {
    offer: async () => ({ is: 'busy', retryAfterMs: 50 }),
    kill: async () => ({ is: 'running' }),
    isKnown: true,
  },
  'offer-lost:1': { offer: () => Promise.reject(new Error('no answer')) },
  'overdue:1': RUNS,
  'timed-out:1': RUNS,
  'cancelled-running:1': RUNS,
  'cancelled-open:1': { ...RUNS, kill: never },
  'cancelling:1': { ...RUNS, kill: never },
  'overtime:1': { ...RUNS, kill: never },
  'running:1': RUNS,
  'parent:1': RUNS,
  'session-head:1': RUNS,
  'chat-running:1': RUNS,
  'desk-running:1': RUNS,
  'stale:1': IS_FORGOTTEN,
  'judged-succeeded:1': IS_FORGOTTEN,
  'judged-failed:1': IS_FORGOTTEN,
  'judged-retry:1': IS_FORGOTTEN,
  'unknown-fails:1': IS_FORGOTTEN,
  'unknown-repeats:1': IS_FORGOTTEN,
  'claimed:1': { offer: never },
};
