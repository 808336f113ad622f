/**
 * The conformance suite: every promise of the Backend port, checked on each backend. A new backend needs a harness in
 * test/backends/.
 */
import { describe, test } from 'node:test';
import { FENCE_PROMISES } from './fence-promises.ts';
import { FOLLOW_PROMISES } from './follow-promises.ts';
import type { BackendHarness } from './harness.ts';
import { INSPECT_PROMISES } from './inspect-promises.ts';
import { KILL_PROMISES } from './kill-promises.ts';
import { MEMORY_PROMISES } from './memory-promises.ts';
import { OFFER_PROMISES } from './offer-promises.ts';
import type { BackendPromise } from './promises.ts';
import { RESULT_PROMISES } from './result-promises.ts';

export const PROMISES: readonly BackendPromise[] = [
  ...OFFER_PROMISES,
  ...INSPECT_PROMISES,
  ...FOLLOW_PROMISES,
  ...KILL_PROMISES,
  ...RESULT_PROMISES,
  ...FENCE_PROMISES,
  ...MEMORY_PROMISES,
];

/** Checks one promise on a fresh backend: returns why it does not apply, if so, and throws where it is broken. */
export async function checkPromise(
  promise: BackendPromise,
  make: () => Promise<BackendHarness>,
): Promise<string | undefined> {
  const harness = await make();
  try {
    const reason = promise.skipReason?.(harness);
    if (reason === undefined) await promise.check(harness);
    return reason;
  } finally {
    await harness.remove();
  }
}

export function backendConformance(name: string, make: () => Promise<BackendHarness>): void {
  describe(`the ${name} backend`, () => {
    for (const promise of PROMISES) {
      test(promise.title, async (t) => {
        const reason = await checkPromise(promise, make);
        if (reason !== undefined) t.skip(reason);
      });
    }
  });
}
