/** Tests the suite itself: each bug planted into a correct backend is caught by the promise about it. */

import assert, { AssertionError } from 'node:assert/strict';
import { describe, test } from 'node:test';
import { steeredFunctions } from '../../../test/backends/functions.ts';
import { steeredExecutor } from '../../../test/fakes/steered-executor.ts';
import { within } from '../../../test/fakes/steered-work.ts';
import type { Backend, ExecutionStatus } from '../../core/ports/backend.ts';
import type { Commander } from '../../model/worker-wire.ts';
import type { BackendHarness } from './harness.ts';
import { checkPromise, PROMISES } from './suite.ts';

type Overrides = Partial<Backend>;

/** Called once for each harness; the function it returns gives the changed methods for each backend of that harness. */
type Bug = () => (backend: Backend) => Overrides;

const NO_BUG: Bug = () => () => ({});

function wrapped(backend: Backend, overrides: Overrides): Backend {
  const whole: Backend = {
    info: backend.info,
    offer: (offer) => backend.offer(offer),
    inspect: (tokens, who) => backend.inspect(tokens, who),
    follow: (token, from, on, who, signal) => backend.follow(token, from, on, who, signal),
    kill: (token, who, how) => backend.kill(token, who, how),
    ack: (token, who) => backend.ack(token, who),
    ...(backend.erase && { erase: (token, who) => backend.erase?.(token, who) ?? Promise.resolve() }),
  };
  return { ...whole, ...overrides };
}

async function withBug(make: () => Promise<BackendHarness>, bug: Bug): Promise<BackendHarness> {
  const harness = await make();
  const overridesOf = bug();
  const own = {
    get backend() {
      return wrapped(harness.backend, overridesOf(harness.backend));
    },
    // The fake executor runs on fake time: a promise that takes longer than this never settles.
    within: <T>(promise: Promise<T>) => within(promise, bug === NO_BUG ? undefined : 1000),
  };
  return Object.defineProperties({ ...harness }, Object.getOwnPropertyDescriptors(own)) as BackendHarness;
}

/** A second token of the same job, whose work counts as a second start of the first. */
const secondOf = (token: string): string => `${token}x`;

const runsCopies: Bug = () => {
  const seen = new Set<string>();
  return (backend) => ({
    async offer(offer) {
      if (seen.has(offer.token)) await backend.offer({ ...offer, token: secondOf(offer.token) });
      seen.add(offer.token);
      return backend.offer(offer);
    },
  });
};

const runsAgainAfterAck: Bug = () => {
  const acked = new Set<string>();
  return (backend) => ({
    async ack(token, who) {
      acked.add(token);
      await backend.ack(token, who);
    },
    offer: (offer) =>
      backend.offer(acked.has(offer.token) ? { ...offer, token: secondOf(offer.token) } : offer),
  });
};

const tombstonesOnBusy: Bug = () => (backend) => ({
  async offer(offer) {
    const reply = await backend.offer(offer);
    if (reply.is === 'busy') await backend.kill(offer.token, offer, 'bury');
    return reply;
  },
});

const ignoresRegistryOfOffers: Bug = () => (backend) => ({
  offer: (offer) => backend.offer({ ...offer, registry: undefined }),
});

const forgetsTombstones: Bug = () => (backend) => ({
  async kill(token, who, how) {
    const { known, registry, rememberedSince } = await backend.inspect([token], who);
    return known.has(token) ? backend.kill(token, who, how) : { is: 'tombstoned', registry, rememberedSince };
  },
});

const ignoresBury: Bug = () => (backend) => ({ kill: (token, who) => backend.kill(token, who, 'end') });

const ignoresTheFence: Bug = () => (backend) => {
  const anyone = ({ owner }: Commander): Commander => ({ owner, epoch: 1 });
  return {
    offer: (offer) => backend.offer({ ...offer, ...anyone(offer) }),
    inspect: (tokens, who) => backend.inspect(tokens, anyone(who)),
    kill: (token, who, how) => backend.kill(token, anyone(who), how),
    ack: (token, who) => backend.ack(token, anyone(who)),
  };
};

const obeysAnOldKill: Bug = () => (backend) => ({
  kill: (token, who, how) => backend.kill(token, { ...who, epoch: Number.MAX_SAFE_INTEGER }, how),
});

const answersOldInspections: Bug = () => (backend) => ({
  inspect: (tokens, who) =>
    backend.inspect(tokens, who).catch(() => ({ registry: 'r', rememberedSince: 0, known: new Map() })),
});

const dropsWhatWasRead: Bug = () => (backend) => ({
  async follow(token, from, on, who, signal) {
    const end = await backend.follow(token, from, on, who, signal);
    if (end.is === 'ended') await backend.ack(token, who);
    return end;
  },
});

const skipsAnEvent: Bug = () => (backend) => ({
  follow: (token, from, on, who, signal) =>
    backend.follow(token, from, (event) => event.n !== 2 && on(event), who, signal),
});

const repeatsAnEvent: Bug = () => (backend) => ({
  follow: (token, from, on, who, signal) => backend.follow(token, Math.max(0, from - 1), on, who, signal),
});

const readsToTheEnd: Bug = () => (backend) => ({
  follow: (token, from, on, who) => backend.follow(token, from, on, who),
});

const losesResultsInInspections: Bug = () => (backend) => ({
  async inspect(tokens, who) {
    const inspection = await backend.inspect(tokens, who);
    const cut = (status: ExecutionStatus): ExecutionStatus =>
      status.is === 'ended' && status.outcome.ok === true
        ? { is: 'ended', outcome: { ok: true, resultText: '{}' } }
        : status;
    return {
      ...inspection,
      known: new Map([...inspection.known].map(([token, status]) => [token, cut(status)])),
    };
  },
});

const keepsItsRegistry: Bug = () => {
  let first: { registry: string; rememberedSince: number } | undefined;
  return (backend) => ({
    async inspect(tokens, who) {
      const { registry, rememberedSince, known } = await backend.inspect(tokens, who);
      first ??= { registry, rememberedSince };
      return { ...first, known };
    },
    async kill(token, who, how) {
      const reply = await backend.kill(token, who, how);
      return reply.is === 'tombstoned' ? { ...reply, ...first } : reply;
    },
    offer: (offer) => backend.offer({ ...offer, registry: undefined }),
  });
};

const keepsWhatIsErased: Bug = () => () => ({ erase: async () => undefined });

/** The name of a bug, the bug, and the title of the promise that must catch it. */
const CAUGHT: readonly (readonly [string, Bug, string])[] = [
  [
    'a token is run twice',
    runsCopies,
    'concurrent copies of an offer are all accepted and begin the work once',
  ],
  [
    'a token is run again after its acknowledgement',
    runsAgainAfterAck,
    'a copy of an offer after the acknowledgement is accepted or refused, and begins nothing',
  ],
  [
    'an offer that is answered with busy leaves a tombstone',
    tombstonesOnBusy,
    'an offer past the slots is answered with busy and leaves nothing behind',
  ],
  [
    'the registry of an offer is ignored',
    ignoresRegistryOfOffers,
    'an offer that names another registry is answered with busy and begins nothing',
  ],
  [
    'a tombstone is forgotten',
    forgetsTombstones,
    'a kill of an unknown token leaves a tombstone: a later offer is refused and never runs',
  ],
  [
    'a kill with `bury` ends a running execution',
    ignoresBury,
    'a kill with `bury` leaves a running execution alone and says that it runs; of an ended one it returns the outcome',
  ],
  ['the fence is ignored', ignoresTheFence, 'an offer of an older epoch is fenced and begins nothing'],
  [
    'the fence is ignored by kills',
    obeysAnOldKill,
    'a kill of an older epoch is fenced: it ends nothing and leaves no tombstone',
  ],
  [
    'the fence is ignored by inspections',
    answersOldInspections,
    'an inspection is refused where an offer would be: a brain on an older copy learns it before it has offered',
  ],
  [
    'a result is dropped before its acknowledgement',
    dropsWhatWasRead,
    'a result is kept until it is acknowledged, however often it was read',
  ],
  [
    'an order to erase is ignored',
    keepsWhatIsErased,
    'nobody reads what was said in an erased execution, and its token is still known',
  ],
  ['an event is skipped', skipsAnEvent, 'a reader gets every event once, numbered from 1 without gaps'],
  [
    'an event is sent again to a reader that resumes',
    repeatsAnEvent,
    'after the end a reader gets the events after any number, and the end',
  ],
  [
    'a reader does not stop',
    readsToTheEnd,
    'a reader that is stopped gets `lost` and no more events; the work goes on',
  ],
  [
    'an inspection reports another result',
    losesResultsInInspections,
    'readers, inspections and kills report the same outcome',
  ],
  [
    'the registry stays the same after the memory is lost',
    keepsItsRegistry,
    'after the memory is lost, no answer about a token proves that it did not run',
  ],
];

describe('a planted bug is caught by the promise about it', () => {
  for (const [name, bug, title] of CAUGHT) {
    test(`${name}: ${title}`, async () => {
      const promise = PROMISES.find((each) => each.title === title);
      assert.ok(promise, 'there is such a promise');
      await assert.rejects(
        checkPromise(promise, () => withBug(steeredExecutor, bug)),
        AssertionError,
      );
    });
  }
});

describe('the same wrapper without a bug keeps every promise', () => {
  for (const [name, make] of Object.entries({ fake: steeredExecutor, functions: steeredFunctions })) {
    for (const promise of PROMISES) {
      test(`${name}: ${promise.title}`, async (t) => {
        const reason = await checkPromise(promise, () => withBug(make, NO_BUG));
        if (reason !== undefined) t.skip(reason);
      });
    }
  }
});
