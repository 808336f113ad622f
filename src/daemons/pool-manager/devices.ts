/** The devices of this machine: asked for again and again, since others use them too, and they break. */
import { totalmem } from 'node:os';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import { Service } from '../../kit/service.ts';
import { POOL_DEFAULTS } from './config.ts';
import { type FoundDevice, NVIDIA_ARGV, parseNvidia } from './nvidia.ts';
import { runProgram } from './program.ts';

const TIMEOUT_MS = 10_000;

export interface DevicesOptions {
  readonly env: Env;
  /** Bytes, or a share where it is at most 1; by default only where there is nothing else. */
  readonly cpuMemory?: number | undefined;
  readonly pollMs: number;
  readonly onChange: () => void;
}

export class Devices extends Service {
  readonly #options: DevicesOptions;
  #found: readonly FoundDevice[] = [];
  /** When what is known now was asked for. */
  #askedAt = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | undefined;
  #cpu: readonly FoundDevice[] | undefined;
  #problem: string | undefined;
  #stopPolling: Cancel | undefined;

  constructor(options: DevicesOptions) {
    super();
    this.#options = options;
  }

  get all(): readonly FoundDevice[] {
    return this.#found;
  }

  /** Why they could not be asked, the last time. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** By the clock that only grows: what was used by then is not free in what is known. */
  get askedAt(): number {
    return this.#askedAt;
  }

  protected async onStart(): Promise<void> {
    await this.refresh();
    const { env, pollMs } = this.#options;
    this.#stopPolling = every(env.timers, pollMs, () => void this.refresh());
  }

  protected async onStop(): Promise<void> {
    this.#stopPolling?.();
  }

  /** Those who ask while it is being asked get the same answer. */
  refresh(): Promise<void> {
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  async #ask(): Promise<void> {
    const askedAt = this.#options.env.clock.monotonic();
    const said = await runProgram(NVIDIA_ARGV, TIMEOUT_MS);
    const known = this.#found.filter(({ kind }) => kind === 'nvidia');
    const nvidia =
      said.is === 'said'
        ? withLost(parseNvidia(said.text), known)
        : known.map((device) => faulty(device, said.is === 'failed' ? said.why : 'is not there any more'));
    // Once decided it stays: workers are told apart by the number of their device.
    if (said.is !== 'failed' || nvidia.length > 0 || this.#options.cpuMemory !== undefined) {
      this.#cpu ??= this.#cpuBeside(nvidia);
    }
    const cpu = this.#cpu ?? [];
    const found = [...nvidia.filter(({ id }) => id !== cpu[0]?.id), ...cpu];
    const isNew = JSON.stringify(found) !== JSON.stringify(this.#found);
    this.#found = found;
    this.#askedAt = askedAt;
    this.#problem = said.is === 'failed' ? `nvidia-smi ${said.why}` : undefined;
    if (isNew) this.#options.onChange();
  }

  #cpuBeside(others: readonly FoundDevice[]): FoundDevice[] {
    const given = this.#options.cpuMemory ?? (others.length > 0 ? 0 : POOL_DEFAULTS.cpu_share);
    const totalBytes = Math.floor(given <= 1 ? given * totalmem() : Math.min(given, totalmem()));
    if (totalBytes === 0) return [];
    const id = others.length === 0 ? 0 : Math.max(...others.map((device) => device.id)) + 1;
    return [{ id, kind: 'cpu', name: 'cpu', totalBytes, freeBytes: undefined }];
  }
}

/** One that was there and is named no more has fallen off the bus: its workers are still on it. */
function withLost(now: readonly FoundDevice[], before: readonly FoundDevice[]): FoundDevice[] {
  const gone = before.filter(({ id }) => !now.some((device) => device.id === id));
  return [...now, ...gone.map((device) => faulty(device, 'does not name it any more'))].sort(
    (a, b) => a.id - b.id,
  );
}

const faulty = (device: FoundDevice, why: string): FoundDevice => ({
  ...device,
  freeBytes: 0,
  fault: `nvidia-smi ${why}`,
});
