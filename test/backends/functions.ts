/** Functions of this process, for the conformance suite. The process of the brain is the executor. */
import type { BackendHarness, Harnesses } from '../../src/backends/conformance/harness.ts';
import { FunctionBackend, type FunctionContext } from '../../src/backends/local/functions.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { jobOfToken } from '../../src/model/records.ts';
import { harnessId, SteeredWorks, within } from '../fakes/steered-work.ts';

export async function steeredFunctions(): Promise<BackendHarness> {
  const env = realEnv();
  const works = new SteeredWorks();
  const work = async (
    payload: never,
    { jobId, emit, signal }: FunctionContext,
  ): Promise<{ text: string }> => {
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(new Error('it was told to stop')));
    });
    const ordered = await Promise.race([works.of(jobId).run(payload, emit), aborted]);
    if (ordered.ok) return { text: ordered.text };
    throw Object.assign(new Error('it was ordered to fail'), { retriable: ordered.retriable });
  };
  const make = (): FunctionBackend =>
    new FunctionBackend(env, { name: 'functions', slots: 2, types: { work } });
  let backend = make();
  const restart = async (): Promise<void> => {
    backend = make();
  };
  return {
    id: harnessId(),
    get backend() {
      return backend;
    },
    workType: 'work',
    unrunnable: ['other', 'constructor', 'toString', '__proto__'].map((type) => ({
      type,
      payloadText: '{}',
    })),
    now: () => env.clock.now(),
    execution: (token) => works.of(jobOfToken(token)),
    begun: (token) => works.of(jobOfToken(token)).runs,
    restartBrain: restart,
    loseMemory: restart,
    within,
    remove: () => works.end(),
  };
}

export const harnesses: Harnesses = { FunctionBackend: { harness: steeredFunctions } };
