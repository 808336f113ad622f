/** Leases as callers see them. */
import type { Engine, Reply } from '../core/engine.ts';
import type { HeldLease } from '../core/state/leases.ts';
import type { Random } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';
import type { BrainClock } from './brain-clock.ts';
import type { Loop } from './loop.ts';

export interface LeaseView {
  readonly token: string;
  readonly agent: string;
  readonly mode: 'gpu' | 'cpu';
  readonly gpu_index: number | null;
  readonly min_memory_mb: number;
  readonly fence: number;
  readonly granted_at: number;
  readonly expires_at: number;
}

export interface LeaseAsk {
  readonly agent: string;
  readonly minMemoryMb: number;
  readonly ttlMs: number;
  /** Made up where it is not given. */
  readonly token?: string;
}

const TOKEN_BYTES = 32;

export class LeaseDesk {
  readonly #loop: Loop;
  readonly #engine: Engine;
  readonly #random: Random;
  readonly #clock: BrainClock;
  readonly #mayAct: () => boolean;

  constructor(loop: Loop, engine: Engine, clock: BrainClock, random: Random, mayAct: () => boolean) {
    this.#mayAct = mayAct;
    this.#clock = clock;
    this.#loop = loop;
    this.#engine = engine;
    this.#random = random;
  }

  async list(tenant: string): Promise<LeaseView[]> {
    const { leases, seq } = this.#engine.state;
    const held = [...leases.all()].filter(
      ({ record }) => record.tenant === tenant && record.ttlMs !== undefined,
    );
    const views = held.map(viewOf);
    await this.#loop.durable(seq);
    return views;
  }

  async grant(ask: LeaseAsk, tenant: string): Promise<LeaseView> {
    const token = ask.token ?? this.#random.hex(TOKEN_BYTES);
    return viewOf(leaseOf(await this.#loop.ask({ type: 'lease', request: { ...ask, token, tenant } })));
  }

  async heartbeat(lease: string, tenant: string): Promise<LeaseView> {
    // It may stay in memory, where no fence would stop it.
    if (!this.#mayAct()) throw new OrchdError('FENCED');
    const spared = !this.#clock.mayExpire();
    return viewOf(leaseOf(await this.#loop.ask({ type: 'heartbeat', lease, tenant, spared })));
  }

  async release(lease: string, tenant: string): Promise<void> {
    leaseOf(await this.#loop.ask({ type: 'release', lease, tenant, spared: !this.#clock.mayExpire() }));
  }
}

function leaseOf(reply: Reply): HeldLease {
  if (reply instanceof OrchdError) throw reply;
  return reply as HeldLease;
}

const viewOf = ({ id, record, until }: HeldLease): LeaseView => ({
  token: id,
  agent: record.agent,
  mode: record.gpuIndex === undefined ? 'cpu' : 'gpu',
  gpu_index: record.gpuIndex ?? null,
  min_memory_mb: record.minMemoryMb,
  fence: record.fence,
  granted_at: record.grantedAt,
  expires_at: until,
});
