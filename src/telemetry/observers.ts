/** Combines several observers into one. */

import type { Observer } from '../runtime/observer.ts';
export function observers(all: readonly Observer[]): Observer {
  return {
    recovered(jobs) {
      // The iterable can be walked only once.
      const list = [...jobs];
      for (const each of all) each.recovered(list);
    },
    changed(changes, now, observed) {
      for (const each of all) each.changed(changes, now, observed);
    },
    submitted(answer, uid, observed) {
      for (const each of all) each.submitted?.(answer, uid, observed);
    },
    committed(tookMs) {
      for (const each of all) each.committed?.(tookMs);
    },
    tokenReceived() {
      for (const each of all) each.tokenReceived?.();
    },
    refused(error, who) {
      for (const each of all) each.refused?.(error, who);
    },
  };
}
