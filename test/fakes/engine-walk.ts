/**
 * Random walks of an engine: whatever may happen to it, in any order, late, twice or out of place. Each command
 * is read against the state it meets, so that most of them hit something.
 */

import fc from 'fast-check';
import type { ResolveAs } from '../../src/core/attempts/operator-commands.ts';
import type { Finding, KillAnswer, OfferAnswer } from '../../src/core/attempts/reports.ts';
import type { EngineEvent } from '../../src/core/engine/areas.ts';
import type { Step } from '../../src/core/engine/engine.ts';
import type { Outcome } from '../../src/core/ports/backend.ts';
import type { EndedJob } from '../../src/core/ports/store.ts';
import { type EngineSettings, POOL_DEFAULTS } from '../../src/core/settings.ts';
import type { State } from '../../src/core/state/state.ts';
import type { EngineView } from '../../src/core/turn.ts';
import { errorInfo } from '../../src/model/errors.ts';
import { MOVES } from '../../src/model/governance.ts';
import { isTerminal } from '../../src/model/states.ts';
import {
  backendInfo,
  EngineKit,
  FAILED,
  FAILED_FOR_NOW,
  STOPPED,
  SUCCESS,
  submission,
  TURNED_AWAY,
} from './engine-kit.ts';

/** A small world: full queues, short waits and clashes of names are common. */
export const WALK_SETTINGS: Partial<EngineSettings> = {
  queueCapacity: 6,
  maxWaiting: 3,
  queueBytes: 200,
  batchMaxWaitMs: 50,
  batchShare: 3,
  backoff: { baseDelayMs: 10, maxDelayMs: 40, jitter: 0.5 },
  failureCacheTtlMs: 100,
  failureCacheSize: 2,
  cancelDeadlineMs: 30,
  busyPauseMs: 15,
  pools: POOL_DEFAULTS,
  limits: [],
  prices: [],
};

const KINDS = [
  ...Array<'submit'>(6).fill('submit'),
  ...Array<'offered'>(6).fill('offered'),
  ...Array<'outcome'>(4).fill('outcome'),
  ...Array<'found'>(3).fill('found'),
  ...Array<'killed'>(4).fill('killed'),
  ...Array<'tick'>(3).fill('tick'),
  'lost',
  'cancel',
  'answer',
  'redrive',
  'resolve',
  'backend',
  'reachable',
  'space',
  'indexed',
  'open',
  'purge',
] as const;

/** What only walks have that ask for it. */
type OtherKind = 'mode';

export interface WalkCommand {
  readonly kind: (typeof KINDS)[number] | OtherKind;
  readonly pick: number;
  readonly variant: number;
  readonly ms: number;
}

export const walkCommands = (
  maxLength: number,
  others: readonly OtherKind[] = [],
): fc.Arbitrary<WalkCommand[]> =>
  fc.array(
    fc.record({
      kind: fc.constantFrom<WalkCommand['kind'][]>(...KINDS, ...others),
      pick: fc.nat({ max: 1000 }),
      variant: fc.nat({ max: 1000 }),
      ms: fc.integer({ min: 0, max: 20 }),
    }),
    // Without the size most walks would be a few steps long.
    { minLength: 1, maxLength, size: 'max' },
  );

const OUTCOMES: readonly Outcome[] = [SUCCESS, FAILED, FAILED_FOR_NOW, STOPPED, TURNED_AWAY];
const OFFERS: readonly OfferAnswer[] = [
  { is: 'accepted' },
  { is: 'accepted' },
  { is: 'busy' },
  { is: 'busy', retryAfterMs: 5 },
  { is: 'refused', error: errorInfo('POOL_UNAVAILABLE') },
  { is: 'refused', error: errorInfo('WORKER_NOT_FOUND') },
  { is: 'unknown' },
];
/** Waits for new jobs, for one that may exist, and for an instant. */
function waits(seq: number, variant: number, history: History): Outcome[] {
  const child = (id: string) => submission(id, { hash: 'walk', type: 't', known: history.get(id) });
  const wait = { ok: 'waits', state: `${seq}`, needs: variant % 2 ? 'any' : 'all' } as const;
  return [
    { ...wait, children: [child(`c${seq}`), child(`d${seq}`)] },
    { ...wait, children: [child(`c${variant % 5}`)], forMs: variant % 50 },
    { ...wait, children: [], forMs: variant % 20 },
  ];
}

const RESOLUTIONS: readonly ResolveAs[] = [
  { as: 'retry' },
  { as: 'failed' },
  { as: 'succeeded', result: '1' },
];

const at = <T>(items: readonly T[], pick: number): T => items[pick % items.length] as T;

/** Ended jobs that have left memory: the runtime looks there before it asks the engine. */
type History = Map<string, EndedJob>;

/** Turns a random command into an event for the present state; most picks name jobs or workers that exist. */
function eventOf(kit: EngineKit, history: History, { kind, pick, variant }: WalkCommand): EngineEvent {
  const { state } = kit.engine;
  const outcome = at([...OUTCOMES, ...waits(state.seq, variant, history)], variant);
  const finding: Finding = at(
    [{ is: 'running' }, { is: 'absent' }, { is: 'forgotten' }, { is: 'ended', outcome }],
    pick + variant,
  );
  const answer: KillAnswer = at(
    [{ is: 'tombstoned' }, { is: 'forgotten' }, { is: 'ended', outcome }],
    pick + variant,
  );
  const token = at([...state.open.keys(), 'nobody:1'], pick);
  const uid = at([...state.jobs.keys(), 'nobody'], pick);
  switch (kind) {
    case 'submit':
      return { type: 'submit', submissions: submissions(kit, history, pick, variant) };
    case 'offered':
      return { type: 'offered', token, answer: at(OFFERS, variant) };
    case 'outcome':
      return { type: 'outcome', token, outcome };
    case 'found':
      return { type: 'found', token, finding };
    case 'killed':
      return { type: 'killed', token: killable(state, pick) ?? token, answer };
    case 'lost':
      return { type: 'lost', token };
    case 'cancel':
      return { type: 'cancel', uid, by: 'walk' };
    case 'answer':
      return { type: 'answer', uid, step: state.jobs.get(uid)?.job.wait?.step ?? 1, answer: '1' };
    case 'redrive':
      return redriveOf(state, history, pick, uid);
    case 'resolve':
      return { type: 'resolve', uid: stale(state, pick) ?? uid, by: 'walk', how: at(RESOLUTIONS, variant) };
    default:
      return worldEvent(kit, kind, pick, variant);
  }
}

/** Redrives a dead job, in memory or in the history. */
function redriveOf(state: State, history: History, pick: number, otherwise: string): EngineEvent {
  const gone = [...history].filter(([uid, { job }]) => job.state === 'dead' && !state.jobs.has(uid));
  const uids = [withState(state, 'dead', pick), ...gone.map(([uid]) => uid), otherwise];
  const uid = at(
    uids.filter((each) => each !== undefined),
    pick,
  );
  return { type: 'redrive', uid, by: 'walk', known: history.get(uid) };
}

function worldEvent(kit: EngineKit, kind: string, pick: number, variant: number): EngineEvent {
  const name = at(['b1', 'b2', 'b3'], pick);
  switch (kind) {
    case 'backend':
      return {
        type: 'backend',
        info: backendInfo(name, {
          slots: 1 + (variant % 2),
          types: at([undefined, ['t'], ['t', 'u']], variant),
          paid: variant % 3 === 0,
        }),
      };
    case 'reachable':
      return { type: 'reachable', name, up: variant % 3 !== 0 };
    case 'space':
      return { type: 'space', full: variant % 4 === 0 };
    case 'indexed': {
      const uids = [...kit.engine.state.ended].slice(0, 2).map(({ uid, seq }) => ({ uid, seq }));
      return { type: 'indexed', uids };
    }
    case 'open':
      return { type: 'open', owner: 'walk' };
    case 'mode': {
      const { mode } = kit.engine.state.governance;
      return {
        type: 'mode',
        order: { mode: at(MOVES[mode], variant), by: 'walk', why: 'a walk', isPerson: true },
      };
    }
    case 'purge':
      return { type: 'purge', attemptFloor: variant % 5, endedBefore: 0 };
    default:
      return { type: 'tick' };
  }
}

function submissions(kit: EngineKit, history: History, pick: number, variant: number) {
  const { state } = kit.engine;
  const optional = <T>(value: T, bit: number): T | undefined => ((variant >> bit) & 1 ? value : undefined);
  const chosen = optional(`chosen${pick % 4}`, 0);
  const fields = {
    key: optional(`k${pick % 3}`, 1),
    hash: chosen && `h${pick % 2}`,
    known: chosen ? history.get(chosen) : undefined,
    priority: at(['batch', 'interactive'] as const, variant),
    agent: `p${pick % 3}`,
    type: at(['t', 't', 'u'], pick),
    session_id: optional(`s${pick % 2}`, 2),
    parallel: variant % 7 === 0 ? (true as const) : undefined,
    not_before: optional(kit.now + 12, 3),
    deadline_ms: optional(40, 4),
    timeout_ms: optional(15, 5),
    parent_id: optional(at([...state.jobs.values()].map(({ ask }) => ask.id).concat('nobody'), pick), 6),
    on_unknown: at([undefined, 'hold', 'retry', 'fail'] as const, variant),
    payloadBytes: at([2, 40, 90], pick),
    max_tries: 1 + (variant % 3),
    forceRetry: variant % 5 === 0,
  };
  return [submission(chosen ?? `j${kit.log.length}-${pick}`, fields)];
}

const killable = (state: State, pick: number): string | undefined => {
  const tokens = [...state.open].filter(([, { open }]) => open?.kill).map(([token]) => token);
  return tokens.length > 0 ? at(tokens, pick) : undefined;
};

const withState = (state: State, wanted: string, pick: number): string | undefined => {
  const uids = [...state.jobs.values()].filter(({ job }) => job.state === wanted).map(({ uid }) => uid);
  return uids.length > 0 ? at(uids, pick) : undefined;
};
const stale = (state: State, pick: number): string | undefined => withState(state, 'stale', pick);

type Check = (kit: EngineKit, step: Step, before: string) => void;

/** Walks, and shows every step to `check`, with what `look` saw before it. */
export function walk(
  commands: readonly WalkCommand[],
  check: Check = () => undefined,
  look: (view: EngineView) => string = () => '',
  more: Partial<EngineSettings> = {},
): EngineKit {
  let chance = 0;
  const next = (): number => {
    chance = (chance + 0.37) % 1;
    return chance;
  };
  const kit = new EngineKit({ ...WALK_SETTINGS, ...more }, next);
  const history: History = new Map();
  kit.backend('b1', { slots: 2 });
  kit.backend('b2', { paid: true });
  for (const command of commands) {
    kit.now += command.ms;
    // Time passes by itself: what a step is blamed for must be its own.
    kit.step({ type: 'tick' });
    const event = eventOf(kit, history, command);
    if (event.type === 'indexed') {
      for (const { uid } of event.uids) history.set(uid, { ask: kit.job(uid).ask, job: kit.job(uid).job });
    }
    const before = look(kit.engine);
    check(kit, kit.step(event), before);
  }
  return kit;
}

/** Everything that follows from the records, and where the queue has each job: equal states give equal texts. */
export function stateText({ state, queue }: EngineView): string {
  const jobs = [...state.jobs.values()].sort((a, b) => (a.uid < b.uid ? -1 : 1));
  return JSON.stringify({
    seq: state.seq,
    brain: state.brain,
    failures: [...state.failures],
    counts: state.counts,
    bytes: state.queuedBytes,
    waiting: queue.waiting,
    ended: [...state.ended].map(({ uid }) => uid).sort(),
    open: [...state.open.keys()].sort(),
    newest: [...state.admitted.newestFirst()].map(({ uid }) => uid),
    jobs: jobs.map(({ uid, ask, job, seq, open, past, parked, lane, isWaiting, wakeAt }) => {
      const wake = isTerminal(job.state) ? undefined : wakeAt;
      return { uid, ask, job, seq, open, past, parked, lane: lane?.key, inLane: isWaiting, wake };
    }),
  });
}
