/** A backend whose executions report their tokens, as executors of models do. */
import { FunctionBackend, type FunctionBackendOptions } from '../../src/backends/local/functions.ts';
import type { ExecutionOutcome, FollowEnd } from '../../src/core/ports/backend.ts';
import { realEnv } from '../../src/kit/env/real.ts';

export const COUNTED = { input: 10, cacheRead: 0, cacheWrite: 0, output: 5, reasoning: 0 } as const;

const counted = (outcome: ExecutionOutcome): ExecutionOutcome =>
  outcome.ok === true ? { ...outcome, usage: { ...COUNTED, decodeMs: 1 } } : outcome;

export class CountingBackend extends FunctionBackend {
  constructor(options: FunctionBackendOptions) {
    super(realEnv(), options);
  }

  override async follow(...args: Parameters<FunctionBackend['follow']>): Promise<FollowEnd> {
    const end = await super.follow(...args);
    return end.is === 'ended' ? { ...end, outcome: counted(end.outcome) } : end;
  }
}
