/** Charges are recovered as they were, wherever they are in a folder: in its checkpoint, its log or its index. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { change, FolderMaker, JobScript, NOW } from '../../../../test/fakes/folder-maker.ts';
import type { JobBundle } from '../../../core/ports/store.ts';
import type { Charge } from '../../../model/charge.ts';
import { type AskRecord, type Change, PAST_ATTEMPTS, tokenOf } from '../../../model/records.ts';
import { isTerminal } from '../../../model/states.ts';
import { chargeIn } from '../../charges.ts';
import { Records } from '../../records.ts';
import { recover } from '../recover.ts';
import { readCharge } from './charge-rows.ts';
import { rebuildHistory } from './rebuild.ts';
import { RecoveredCharges } from './recovered-charges.ts';

const USAGE = { input: 3, cacheRead: 0, cacheWrite: 0, output: 4, reasoning: 0 };

/** A folder that a brain has written, and every charge that belongs to it. */
class Ledger {
  readonly maker: FolderMaker;
  readonly charges = new Map<string, { readonly seq: number; readonly charge: Charge }>();
  readonly #scripts = new Map<string, JobScript>();
  readonly #records = new Records();
  readonly asks = new Map<string, AskRecord>();
  /** The jobs that have left memory, as the history tells them. */
  readonly #evicted = new Map<string, JobBundle>();
  /** The tokens of the attempts that the checkpoint lists. */
  #listed: ReadonlySet<string> = new Set();
  indexedUpTo = 0;

  constructor(maker: FolderMaker) {
    this.maker = maker;
  }

  static async make(): Promise<Ledger> {
    return new Ledger(await FolderMaker.make());
  }

  script(id: string): JobScript {
    const script = this.#scripts.get(id) ?? new JobScript(id);
    this.#scripts.set(id, script);
    return script;
  }

  /** Adds changes, of which every closed attempt has used something. */
  async add(changes: readonly Change[]): Promise<void> {
    const used = changes.map((change) =>
      change.kind === 'attempt' && change.after?.endedAt !== undefined && !change.after.usage
        ? ({ ...change, after: { ...change.after, usage: USAGE } } as Change)
        : change,
    );
    for (const [at, change] of used.entries()) {
      const seq = this.maker.next + at;
      this.#records.change(change, seq);
      if (change.kind === 'ask' && change.after) this.asks.set(change.id, change.after);
      const charge = chargeIn(change, (uid) => this.asks.get(uid));
      if (charge && !this.charges.has(charge.token)) this.charges.set(charge.token, { seq, charge });
    }
    await this.maker.add(...used);
  }

  /** The index has everything so far, so that ended jobs leave memory. */
  index(): void {
    this.indexedUpTo = this.maker.next - 1;
    for (const bundle of this.#records.jobs.values())
      if (isTerminal(bundle.job.state)) {
        this.#evicted.set(bundle.uid, bundle);
        this.#records.jobs.delete(bundle.uid);
      }
  }

  async checkpoint(): Promise<void> {
    const listed = [...this.#records.jobs.values()].flatMap(({ uid, attempts }) =>
      attempts.map(({ n }) => tokenOf(uid, n)),
    );
    this.#listed = new Set(listed);
    await this.maker.checkpoint(this.indexedUpTo);
  }

  /** The redrive of a dead job, which may have left memory. */
  async redrive(id: string): Promise<void> {
    const script = this.script(id);
    const evicted = this.#evicted.get(id);
    this.#evicted.delete(id);
    await this.add([...(evicted ? restored(evicted) : []), ...script.redrive()]);
  }

  /** A new job, perhaps with the id of one that was purged: its attempts have higher numbers. */
  async submit(id: string, agent: string): Promise<void> {
    const script = this.script(id);
    const floor = script.job.attempt;
    this.#evicted.delete(id);
    await this.add(script.ask(this.maker.next, { agent }));
    script.job = { ...script.job, attempt: floor };
  }

  isEvicted(id: string): boolean {
    return this.#evicted.has(id);
  }

  /** The charges of changes that the index does not have. */
  get behindIndex(): Charge[] {
    return this.#chargesWhere((seq) => seq > this.indexedUpTo);
  }

  /** The charges of attempts that the checkpoint lists, or that were closed since. */
  get listedOrSince(): Charge[] {
    return this.#chargesWhere((seq, token) => seq > this.maker.manifest.seq || this.#listed.has(token));
  }

  #chargesWhere(has: (seq: number, token: string) => boolean): Charge[] {
    return [...this.charges.values()]
      .filter(({ seq, charge }) => has(seq, charge.token))
      .map(({ charge }) => charge);
  }
}

const restored = ({ uid, ask, attempts }: JobBundle): Change[] => [
  change('ask', uid, ask, 'redrive'),
  ...attempts.map((attempt) => change('attempt', tokenOf(uid, attempt.n), attempt, 'redrive')),
];

/** No job keeps an attempt that ends by waiting, but what it has used is charged. */
const waits = (script: JobScript): Change[] => [...script.claim(), ...script.start(), ...script.waits(USAGE)];

const tried = (script: JobScript, then: 'retry' | 'die'): Change[] => [
  ...script.claim(),
  ...script.start(),
  ...script.fail(then),
];

type Step = (ledger: Ledger, id: string) => Promise<unknown>;

/** Each of them is legal for a job that is queued; a job that is not is brought back first. */
const ON_QUEUED: Readonly<Record<string, Step>> = {
  once: (ledger, id) => ledger.add(tried(ledger.script(id), 'retry')),
  often: async (ledger, id) => {
    for (let n = 0; n <= PAST_ATTEMPTS; n++) await ledger.add(tried(ledger.script(id), 'retry'));
  },
  waits: (ledger, id) => ledger.add(waits(ledger.script(id))),
  dies: (ledger, id) => ledger.add(tried(ledger.script(id), 'die')),
};

const STEPS: Readonly<Record<string, Step>> = {
  ...Object.fromEntries(
    Object.entries(ON_QUEUED).map(([name, step]) => [
      name,
      async (ledger: Ledger, id: string) => {
        const { job } = ledger.script(id);
        if (!ledger.asks.has(id)) await ledger.submit(id, 'anna');
        else if (job.state === 'dead') await ledger.redrive(id);
        await step(ledger, id);
      },
    ]),
  ),
  reused: async (ledger, id) => {
    if (ledger.isEvicted(id)) await ledger.submit(id, `agent${ledger.maker.next}`);
  },
  indexed: async (ledger) => ledger.index(),
  checkpoint: (ledger) => ledger.checkpoint(),
};

async function recovered({ maker, indexedUpTo }: Ledger, from = indexedUpTo): Promise<Charge[]> {
  const charges = new RecoveredCharges();
  const { manifest } = await recover(maker.disk, maker.paths, charges.watching(new Records()));
  return charges.after(from, manifest.seq, maker.disk, maker.paths);
}

async function rebuilt({ maker }: Ledger): Promise<Charge[]> {
  const rows: string[] = [];
  await rebuildHistory(maker.disk, maker.paths, {
    put: async (_rows, _watermark, _log, charges = '') => {
      rows.push(...charges.split('\n').filter((row) => row !== ''));
    },
    archive: { archive: async () => undefined, dropSessions: async () => undefined },
    keptSince: NOW,
    watermark: undefined,
    logEnd: undefined,
  });
  return rows.map(readCharge);
}

const byToken = (charges: readonly Charge[]): Map<string, Charge> =>
  new Map(charges.map((charge) => [charge.token, charge]));

/** Every expected charge is there, and none that is there differs from what it was. */
function assertCharges(found: readonly Charge[], expected: readonly Charge[], ledger: Ledger): void {
  const known = byToken(found);
  assert.deepEqual(
    expected.map(({ token }) => token).filter((token) => !known.has(token)),
    [],
    'missing',
  );
  for (const charge of found) assert.deepEqual(charge, ledger.charges.get(charge.token)?.charge);
}

const anyStep = fc.tuple(fc.constantFrom(...Object.keys(STEPS)), fc.constantFrom('one', 'two'));

/** A job of the checkpoint has ended since, and was redriven, or its id was used again, after it had left memory. */
const ENDED_SINCE: [string, string][][] = ['once', 'reused'].map((then) =>
  ['once', 'waits', 'checkpoint', 'waits', 'dies', 'indexed', then].map((step) => [step, 'one']),
);

async function played(steps: readonly (readonly [string, string])[]): Promise<Ledger> {
  const ledger = await Ledger.make();
  for (const [name, id] of steps) await (STEPS[name] as Step)(ledger, id);
  return ledger;
}

test('every charge behind the index is recovered as it was, also of jobs that were redriven, or whose id was used again', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 12, size: 'max' }), async (steps) => {
      const ledger = await played(steps);
      assertCharges(await recovered(ledger), ledger.behindIndex, ledger);
    }),
    { numRuns: 300 },
  );
});

test('an index that is made again has every charge that the log tells, as it was', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 12, size: 'max' }), async (steps) => {
      const ledger = await played(steps);
      const all = [...ledger.charges.values()].map(({ charge }) => charge);
      assertCharges(await rebuilt(ledger), all, ledger);
    }),
    { numRuns: 300 },
  );
});

test('an index that an earlier version has written gets the charges that the checkpoint lists, and all since', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 12, size: 'max' }), async (steps) => {
      const ledger = await played(steps);
      assertCharges(await recovered(ledger, -1), ledger.listedOrSince, ledger);
    }),
    { numRuns: 300, examples: ENDED_SINCE.map((steps) => [steps]) },
  );
});
