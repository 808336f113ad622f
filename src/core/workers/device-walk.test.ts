/** Workers, leases and consumers compete for the devices of a pool in a random walk with kills. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { GB, PoolKit } from '../../../test/fakes/pool-engine.ts';
import { dueWorkers } from '../engine/due.ts';
import { isDeviceLease } from '../state/leases.ts';

const MIB = 2 ** 20;
const TTL = 30_000;
const STEPS = 2000;
const OTHERS_GB = 2;
const SIZES = [24, 12];

/** A program that holds a lease, and what it uses of the device. */
interface Holder {
  readonly token: string;
  readonly device: number;
  readonly bytes: number;
  used: number;
  alive: boolean;
}

/** Numbers from 0 to below 1 that follow from the seed alone. */
function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const newKit = (): PoolKit => new PoolKit({ idleUnloadMs: 60_000, minResidentMs: 0, drainAfterMs: 0 });

class Walk {
  kit = newKit();
  readonly #holders: Holder[] = [];
  readonly #random: () => number;
  #made = 0;
  #claims = 0;

  constructor(seed: number) {
    this.#random = numbersFrom(seed);
    this.kit.pool('p', SIZES, { usedGb: OTHERS_GB });
    for (const [id, gb] of Object.entries({ small: 4, large: 15 }))
      this.kit.model(id, { vramBytes: gb * GB });
    this.#register();
  }

  #register(): void {
    const declared = {
      pool: 'c',
      name: 'one',
      token: 'secret',
      slots: 3,
      types: ['pulled'],
      models: undefined,
    };
    const gpu = { gpuMemoryMb: Math.floor((3 * GB) / MIB), gpuPool: 'p' };
    const rest = { labels: {}, paid: false, listens: undefined, ttlMs: TTL, ...gpu };
    this.kit.step({ type: 'consumer', declared: { ...declared, ...rest } });
  }

  #below(n: number): number {
    return Math.floor(this.#random() * n);
  }

  #any<T>(all: readonly T[]): T | undefined {
    return all[this.#below(all.length)];
  }

  readonly #acts: readonly (() => void)[] = [
    () => this.#ask('small'),
    () => this.#ask('large'),
    () => this.kit.trySubmit(`j${this.#made++}`, { type: 'pulled' }),
    () => this.#grant(),
    () => this.#grant(),
    () => this.#use(),
    () => this.#use(),
    () => this.#release(),
    () => this.#killHolder(),
    () => this.#obey(),
    () => this.#obey(),
    () => this.kit.report('p'),
    () => this.#claim(),
    () => this.#goOn(),
    () => this.#goOn(),
    () => this.#goOn(),
    () => this.kit.pass(this.#below(20_000)),
    () => this.#killWorker(),
    () => (this.#below(10) === 0 ? this.#killBrain() : undefined),
  ];

  take(): void {
    this.#any(this.#acts)?.();
    this.#beat();
    this.#check();
  }

  #ask(model: string): void {
    this.kit.trySubmit(`j${this.#made++}`, { type: 'inference', model });
  }

  #grant(): void {
    const token = `lease${this.#made++}`;
    const minMemoryMb = Math.floor(((1 + this.#below(9)) * GB) / MIB);
    const request = { token, tenant: 'default', agent: 'a', minMemoryMb, ttlMs: TTL };
    this.kit.step({ type: 'lease', request });
    const device = this.kit.engine.state.leases.get(token)?.record.gpuIndex;
    if (device === undefined) return;
    this.#holders.push({ token, device, bytes: minMemoryMb * MIB, used: 0, alive: true });
  }

  get #living(): Holder[] {
    return this.#holders.filter(({ alive }) => alive);
  }

  #use(): void {
    const holder = this.#any(this.#living);
    if (holder) this.#uses(holder, this.#below(holder.bytes + 1));
  }

  #uses(holder: Holder, bytes: number): void {
    const held = this.kit.pools.get('p')?.heldBytes;
    held?.set(holder.device, (held.get(holder.device) ?? 0) + bytes - holder.used);
    holder.used = bytes;
  }

  #ends(holder: Holder): void {
    this.#uses(holder, 0);
    holder.alive = false;
  }

  #release(): void {
    const holder = this.#any(this.#living);
    if (!holder) return;
    this.#ends(holder);
    this.kit.step({ type: 'release', lease: holder.token, tenant: 'default' });
  }

  #killHolder(): void {
    const holder = this.#any(this.#living);
    if (holder) this.#ends(holder);
  }

  /** Living holders send heartbeats; one whose lease has ended in spite of that stops. */
  #beat(): void {
    for (const holder of this.#living) {
      const { reply } = this.kit.step({ type: 'heartbeat', lease: holder.token, tenant: 'default' });
      if (reply instanceof Error) this.#ends(holder);
    }
    this.kit.step({ type: 'held', consumer: 'secret', held: this.#heldTokens(), claimed: this.#claims });
  }

  #heldTokens(): string[] {
    const open = [...this.kit.engine.state.open.values()];
    return open.filter((entry) => entry.open?.holder).map(({ token }) => token);
  }

  #obey(): void {
    for (const { kind, id, record } of dueWorkers(this.kit.engine.state)) {
      this.kit.carryOut(kind, id, record);
      if (this.#below(2) === 0) this.kit.report('p');
    }
  }

  #claim(): void {
    this.kit.step({ type: 'claim', consumer: 'secret', claim: ++this.#claims, atMost: 3 });
  }

  #goOn(): void {
    const entry = this.#any([...this.kit.engine.state.open.values()]);
    if (!entry?.open) return;
    if (entry.open.holder)
      this.kit.step({
        type: 'results',
        consumer: 'secret',
        results: [{ token: entry.token, outcome: SUCCESS }],
      });
    else if (entry.open.isPulled) return;
    else if (entry.open.state === 'intended') this.kit.accept(entry.uid);
    else this.kit.end(entry.uid, SUCCESS);
  }

  #killWorker(): void {
    const worker = this.#any([...(this.kit.pools.get('p')?.workers.keys() ?? [])]);
    if (worker !== undefined) this.kit.dies('p', worker);
  }

  /** The next brain knows what was recorded, and what the pool then reports. */
  #killBrain(): void {
    const former = this.kit;
    this.kit = newKit();
    former.reborn(this.kit);
    this.kit.log.unshift(...former.log);
    this.kit.report('p');
  }

  /** Never more is promised than there is. */
  #check(): void {
    const { leases, workers } = this.kit.engine.state;
    for (const [device, gb] of SIZES.entries()) {
      const ordered = workers.on('p', device).reduce((sum, [, { vramBytes }]) => sum + vramBytes, 0);
      const leased = leases.on('p', device).reduce((sum, { minMemoryMb }) => sum + minMemoryMb * MIB, 0);
      const promised = (ordered + leased) / GB + OTHERS_GB;
      assert.ok(promised <= gb + 1e-6, `device ${device}: ${promised} of ${gb} GB`);
    }
  }

  /** Everybody stops: then nothing is held. */
  end(): void {
    for (const holder of this.#living) this.#ends(holder);
    for (const { uid } of [...this.kit.engine.state.jobs.values()])
      this.kit.step({ type: 'cancel', uid, by: 'x' });
    for (let round = 0; round < 20; round++) {
      for (const { token, open } of [...this.kit.engine.state.open.values()])
        if (!open?.isPulled) this.kit.step({ type: 'outcome', token, outcome: { ok: 'cancelled' } });
      this.kit.pass(TTL);
      this.#obey();
      this.kit.report('p');
    }
    const { leases, open, workers } = this.kit.engine.state;
    const kept = [...leases.all()].filter(({ record }) => isDeviceLease(record));
    assert.deepEqual(
      [kept, [...open.keys()], [...workers.entries()]],
      [[], [], []],
      'something is left behind',
    );
    const whole = this.kit.engine.state.pools.get('p');
    for (const [device, gb] of SIZES.entries())
      assert.equal(whole?.devices.get(device)?.availableBytes, (gb - OTHERS_GB) * GB);
  }
}

test('workers, leases and consumers are never promised more of a device than there is, and leave nothing behind', () => {
  for (const seed of [1, 2, 3]) {
    const walk = new Walk(seed);
    let [leased, started] = [0, 0];
    for (let step = 0; step < STEPS; step++) {
      walk.take();
      leased = Math.max(leased, walk.kit.engine.state.leases.size);
      started = Math.max(started, walk.kit.engine.state.workers.size);
    }
    assert.ok(leased > 2 && started > 2, `${leased} leases, ${started} workers at most`);
    walk.end();
  }
});
