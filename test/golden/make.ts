/**
 * Makes the golden data folder of a format version: `node test/golden/make.ts`. Run once per version, when it is
 * new; what was committed is never made again, since folders like it are out there.
 *
 * Time, chance and disk are made here too, so that the same code gives the same bytes.
 */
import type { Backend, ExecutionOutcome, FollowEnd, Inspection, KillReply, Offer, OfferReply } from '../../src/core/ports/backend.ts';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { runtimeSettings } from '../../src/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { errorInfo } from '../../src/model/errors.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { InlineBackground } from '../../src/stores/journal/background.ts';
import { MemoryHistory } from '../../src/stores/journal/history/memory.ts';
import { JournalStore } from '../../src/stores/journal/journal.ts';
import { FORMAT } from '../../src/stores/journal/layout.ts';
import { MemoryDisk } from '../fakes/memory-disk.ts';

const START = 1_800_000_000_000;
const FOREVER = new Promise<never>(() => undefined);
const YEAR_MS = 365 * 24 * 3600_000;

/** A world in which nothing happens by itself: time stands still until it is moved. */
class StillWorld {
  now = START;
  readonly disk = new MemoryDisk();
  #timers: { at: number; run: () => void }[] = [];
  #seed = 20260101;

  readonly env: Env = {
    clock: { now: () => this.now, monotonic: () => this.now - START },
    timers: {
      after: (ms, run) => {
        const timer = { at: this.now + ms, run };
        this.#timers.push(timer);
        return () => {
          this.#timers = this.#timers.filter((each) => each !== timer);
        };
      },
      soon: (run) => {
        setImmediate(run);
      },
    },
    random: { next: () => this.#next(), hex: (bytes) => this.#hex(bytes) },
    disk: this.disk,
  };

  /** Lets everything that was begun come to rest. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 40; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  async pass(ms: number): Promise<void> {
    const end = this.now + ms;
    for (;;) {
      await this.settle();
      const next = this.#timers.toSorted((a, b) => a.at - b.at)[0];
      if (!next || next.at > end) break;
      this.now = Math.max(this.now, next.at);
      this.#timers = this.#timers.filter((each) => each !== next);
      next.run();
    }
    this.now = end;
    await this.settle();
  }

  #next(): number {
    this.#seed = (Math.imul(this.#seed, 1664525) + 1013904223) >>> 0;
    return this.#seed / 2 ** 32;
  }

  #hex(bytes: number): string {
    return Array.from({ length: bytes }, () =>
      Math.floor(this.#next() * 256)
        .toString(16)
        .padStart(2, '0'),
    ).join('');
  }
}

const ended = (outcome: ExecutionOutcome): FollowEnd => ({ is: 'ended', outcome });

/** Does to each job what the job's id says. */
class ScriptedBackend implements Backend {
  readonly info = {
    name: 'scripted',
    kind: 'test',
    slots: 8,
    types: ['inference'],
    models: undefined,
    labels: {},
    paid: true,
    keepsResults: true,
    registry: 'golden',
  };

  async offer({ ask }: Offer): Promise<OfferReply> {
    return ask.id === 'claimed' ? FOREVER : { is: 'accepted' };
  }

  async follow(token: string): Promise<FollowEnd> {
    const [id, attempt] = token.split(':') as [string, string];
    if (id === 'running') return FOREVER;
    if (id === 'stale') return { is: 'lost' };
    if (id === 'big') return ended({ ok: true, resultText: JSON.stringify('lorem ipsum '.repeat(500)) });
    if (id === 'poisoned' || (id === 'redriven' && attempt === '1')) {
      return ended({
        ok: false,
        error: { ...errorInfo('EXECUTION_FAILED', 'it is poison'), retriable: false },
      });
    }
    if (id === 'retried' && attempt === '1') {
      return ended({ ok: false, error: { ...errorInfo('EXECUTION_FAILED', 'a hiccup'), retriable: true } });
    }
    return ended({ ok: true, resultText: JSON.stringify({ says: id, try: Number(attempt) }) });
  }

  async inspect(): Promise<Inspection> {
    // It remembers nothing of what was before: the outcome of what it lost is unknown.
    return { registry: 'golden', rememberedSince: Number.MAX_SAFE_INTEGER, known: new Map() };
  }

  async kill(): Promise<KillReply> {
    return FOREVER;
  }

  async ack(): Promise<void> {}
}

async function makeFiles(): Promise<Map<string, Buffer>> {
  const world = new StillWorld();
  const store = new JournalStore(world.env, {
    folder: '/golden',
    checkpointIntervalMs: YEAR_MS,
    historyMs: YEAR_MS,
    auditMs: YEAR_MS,
    auditBytes: 2 ** 30,
    background: (paths) => new InlineBackground(world.disk, paths, new MemoryHistory()),
    limits: {
      minSegmentBytes: 32_768,
      maxSegmentBytes: 65_536,
      maxFrameBytes: 16_384,
      maxPendingBytes: 2 ** 20,
    },
  });
  const settings = runtimeSettings(loadConfig());
  const brain = new Orchestrator({ env: world.env, store, backends: [new ScriptedBackend()], settings });
  const started = brain.start();
  await world.settle();
  await started;
  await liveThrough(brain, world);
  const stopped = brain.stop();
  await world.pass(30_000);
  await stopped;
  return world.disk.files;
}

async function liveThrough(brain: Orchestrator, world: StillWorld): Promise<void> {
  const submit = async (job_id: string, more: object = {}): Promise<void> => {
    const done = brain.submit({ job_id, payload: { ask: job_id }, ...more });
    await world.settle();
    await done;
    await world.pass(10);
  };
  await submit('done', { agent: 'anna', key: 'finished', priority: 'interactive', score: 5 });
  await submit('big', { model: undefined, session_id: 'talk' });
  await submit('retried');
  await submit('poisoned', { key: 'poison' });
  await submit('waiting', { not_before: START + YEAR_MS, labels: undefined });
  await checkpoint(brain, world);
  // The index takes the ended jobs over, and they leave memory.
  await world.pass(2000);
  await submit('redriven');
  await settled(world, brain.redrive('redriven'));
  await submit('running', { session_id: 'work', timeout_ms: 8.64e9 });
  await submit('in-session', { session_id: 'work' });
  await submit('stale', { on_unknown: 'hold' });
  await world.pass(10_000);
  await checkpoint(brain, world);
  await submit('claimed');
  await submit('homeless', { type: 'nobody-runs-this' });
  await submit('given-up', { not_before: START + YEAR_MS });
  await settled(world, brain.cancel('given-up', 'anna'));
  await submit('late');
}

async function checkpoint(brain: Orchestrator, world: StillWorld): Promise<void> {
  await settled(world, brain.checkpoint());
}

async function settled(world: StillWorld, work: Promise<unknown>): Promise<void> {
  await world.settle();
  await work;
}

/** Only what a backup would hold: no lock, no reserve, no zeros behind the last frame. */
function trimmed(path: string, bytes: Buffer): Buffer | undefined {
  if (path.endsWith('/lock') || path.endsWith('/spare')) return undefined;
  if (!path.endsWith('.log')) return bytes;
  const last = bytes.findLastIndex((byte) => byte !== 0);
  return bytes.subarray(0, Math.ceil((last + 1) / 512) * 512);
}

export async function makeGolden(folder: string): Promise<void> {
  for (const [path, bytes] of await makeFiles()) {
    const kept = trimmed(path, bytes);
    if (!kept) continue;
    const target = join(folder, path.slice('/golden/'.length));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, kept);
  }
}

if (import.meta.main) {
  const folder = process.argv[2] ?? join(import.meta.dirname, `v${FORMAT}`);
  if (existsSync(folder)) {
    console.error(`${folder} exists; a golden folder is made once`);
    process.exitCode = 1;
  } else {
    await makeGolden(folder);
  }
}
