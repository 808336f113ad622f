/**
 * The devices of this machine, probed repeatedly with nvidia-smi, because other programs use them too and because they
 * can fail. The CPU counts as a device where it is configured, or where there is no other.
 */
import { totalmem } from 'node:os';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import { Service } from '../../kit/service.ts';
import { POOL_DEFAULTS } from './config.ts';
import {
  type DetectedDevice,
  type DeviceProcess,
  NVIDIA_ARGV,
  NVIDIA_PROCESSES_ARGV,
  parseNvidia,
  parseNvidiaProcesses,
} from './nvidia.ts';
import { runProgram } from './program.ts';

const PROBE_TIMEOUT_MS = 10_000;

export interface DevicesOptions {
  readonly env: Env;
  /** The memory of the CPU device: bytes, or a share of the machine's memory if at most 1. */
  readonly cpuMemory?: number | undefined;
  readonly pollMs: number;
  /** Called after every probe, before `onChange`. */
  readonly onProbed: () => void;
  readonly onChange: () => void;
}

export class Devices extends Service {
  readonly #options: DevicesOptions;
  #devices: readonly DetectedDevice[] = [];
  #processes: readonly DeviceProcess[] = [];
  #probedAt = Number.NEGATIVE_INFINITY;
  #probing: Promise<void> | undefined;
  #cpu: readonly DetectedDevice[] | undefined;
  #problem: string | undefined;
  #stopPolling: Cancel | undefined;

  constructor(options: DevicesOptions) {
    super();
    this.#options = options;
  }

  get all(): readonly DetectedDevice[] {
    return this.#devices;
  }

  /** The processes that use the devices, as the driver names them; none where it does not tell. */
  get processes(): readonly DeviceProcess[] {
    return this.#processes;
  }

  /** Why the last probe failed; undefined where it did not. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** When the last probe began, by the monotonic clock. Memory in use by then is not in `freeBytes`. */
  get probedAt(): number {
    return this.#probedAt;
  }

  protected async onStart(): Promise<void> {
    await this.refresh();
    const { env, pollMs } = this.#options;
    this.#stopPolling = every(env.timers, pollMs, () => void this.refresh());
  }

  protected async onStop(): Promise<void> {
    this.#stopPolling?.();
  }

  /** Probes the devices; concurrent calls share one probe. */
  refresh(): Promise<void> {
    this.#probing ??= this.#probe().finally(() => {
      this.#probing = undefined;
    });
    return this.#probing;
  }

  async #probe(): Promise<void> {
    const probedAt = this.#options.env.clock.monotonic();
    const [result, processes] = await Promise.all([
      runProgram(NVIDIA_ARGV, PROBE_TIMEOUT_MS),
      runProgram(NVIDIA_PROCESSES_ARGV, PROBE_TIMEOUT_MS),
    ]);
    const known = this.#devices.filter(({ kind }) => kind === 'nvidia');
    const nvidia =
      result.is === 'succeeded'
        ? withLost(parseNvidia(result.output), known)
        : known.map((device) =>
            faulty(device, result.is === 'failed' ? result.why : 'is not there any more'),
          );
    // The CPU device is decided once and keeps its id, because the records of workers refer to devices by id.
    if (result.is !== 'failed' || nvidia.length > 0 || this.#options.cpuMemory !== undefined) {
      this.#cpu ??= this.#cpuBeside(nvidia);
    }
    const cpu = this.#cpu ?? [];
    const devices = [...nvidia.filter(({ id }) => id !== cpu[0]?.id), ...cpu];
    const isChanged = JSON.stringify(devices) !== JSON.stringify(this.#devices);
    this.#devices = devices;
    this.#processes = processes.is === 'succeeded' ? parseNvidiaProcesses(processes.output) : [];
    this.#probedAt = probedAt;
    this.#problem = result.is === 'failed' ? `nvidia-smi ${result.why}` : undefined;
    this.#options.onProbed();
    if (isChanged) this.#options.onChange();
  }

  /** The CPU as a device. By default half of the machine's memory where there are no other devices, else none. */
  #cpuBeside(others: readonly DetectedDevice[]): DetectedDevice[] {
    const configured = this.#options.cpuMemory ?? (others.length > 0 ? 0 : POOL_DEFAULTS.cpu_share);
    const totalBytes = Math.floor(
      configured <= 1 ? configured * totalmem() : Math.min(configured, totalmem()),
    );
    if (totalBytes === 0) return [];
    const id = others.length === 0 ? 0 : Math.max(...others.map((device) => device.id)) + 1;
    return [{ id, kind: 'cpu', name: 'cpu', totalBytes, freeBytes: undefined }];
  }
}

/** Adds the devices that nvidia-smi no longer lists, as faulty: they have fallen off the bus with their workers. */
function withLost(now: readonly DetectedDevice[], before: readonly DetectedDevice[]): DetectedDevice[] {
  const gone = before.filter(({ id }) => !now.some((device) => device.id === id));
  return [...now, ...gone.map((device) => faulty(device, 'does not name it any more'))].sort(
    (a, b) => a.id - b.id,
  );
}

const faulty = (device: DetectedDevice, why: string): DetectedDevice => ({
  ...device,
  freeBytes: 0,
  fault: `nvidia-smi ${why}`,
});
