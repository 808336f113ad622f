/** One module: scans it at its interval, after failures later and later, and has the ends of its jobs handled. */
import { backoffMs } from '../../kit/backoff.ts';
import { pause } from '../../kit/pause.ts';
import { Service } from '../../kit/service.ts';
import { type OrchdError, toOrchdError } from '../../model/errors.ts';
import type { ModuleView } from '../../model/http/modules.ts';
import { Handling } from './handling.ts';
import { type ModuleParts, RETRY } from './parts.ts';
import { Scan, type ScanResult } from './scan.ts';
import { OUTCOMES, ScanCounts } from './scan-counts.ts';
import type { ModuleSettings } from './settings.ts';

interface ScanRecord {
  readonly startedAt: number;
  readonly counts: ScanCounts;
  endedAt: number | undefined;
  isCut: boolean;
}

export class ModuleRunner extends Service {
  readonly #parts: ModuleParts;
  readonly #settings: ModuleSettings;
  readonly #handling: Handling;
  readonly #total = new ScanCounts();
  #running: Promise<unknown> | undefined;
  #state: ModuleView['state'] = 'idle';
  #scans = 0;
  #failures = 0;
  #last: ScanRecord | undefined;
  #error: OrchdError | undefined;
  #nextAt: number | undefined;
  #scanNow = new AbortController();

  constructor(parts: ModuleParts, settings: ModuleSettings) {
    super();
    this.#parts = parts;
    this.#settings = settings;
    this.#handling = new Handling(parts, settings, this.stopSignal);
  }

  get settings(): ModuleSettings {
    return this.#settings;
  }

  get name(): string {
    return this.#settings.name;
  }

  /** Starts the next scan at once; one that runs already goes on. */
  scanNow(): void {
    this.#scanNow.abort();
  }

  get view(): ModuleView {
    const { name, kind } = this.#settings;
    const { handled, pending, problem } = this.#handling;
    const last = this.#last;
    return {
      name,
      kind,
      state: this.#state,
      scans: this.#scans,
      failures: this.#failures,
      proposals: { ...this.#total },
      ...(last && {
        last_scan: {
          started_at: last.startedAt,
          ...(last.endedAt !== undefined && { ended_at: last.endedAt }),
          ...last.counts,
          is_cut: last.isCut,
        },
      }),
      ...(this.#nextAt !== undefined && { next_scan_at: this.#nextAt }),
      ...(this.#error && { last_error: this.#error.message, last_error_code: this.#error.code }),
      handled,
      pending,
      ...(problem && { handle_error: problem.message, handle_error_code: problem.code }),
    };
  }

  protected async onStart(): Promise<void> {
    this.#running = Promise.all([this.#scanAlways(), this.#handling.run()]);
  }

  protected async onStop(): Promise<void> {
    await this.#running;
  }

  async #scanAlways(): Promise<void> {
    const { env } = this.#parts;
    while (!this.stopSignal.aborted) {
      await this.#scan();
      const { intervalMs } = this.#settings;
      const waitMs = this.#failures > 0 ? backoffMs(RETRY, this.#failures, env.random.next()) : intervalMs;
      this.#nextAt = env.clock.now() + waitMs;
      this.#scanNow = new AbortController();
      await pause(env.timers, waitMs, AbortSignal.any([this.stopSignal, this.#scanNow.signal]));
    }
  }

  async #scan(): Promise<void> {
    const { clock } = this.#parts.env;
    const scan = new Scan(this.#parts, this.#settings);
    this.#state = 'scanning';
    this.#nextAt = undefined;
    const record: ScanRecord = {
      startedAt: clock.now(),
      counts: scan.counts,
      endedAt: undefined,
      isCut: false,
    };
    this.#last = record;
    const result = await scan
      .run(this.stopSignal)
      .catch((error): ScanResult => ({ ...NOTHING, failure: toOrchdError(error) }));
    if (this.stopSignal.aborted) return;
    record.endedAt = clock.now();
    record.isCut = result.cut !== undefined;
    for (const outcome of OUTCOMES) this.#total[outcome] += scan.counts[outcome];
    this.#scans++;
    this.#note(result, scan.counts);
  }

  #note({ failure, problem, cut }: ScanResult, counts: ScanCounts): void {
    const { logger, observer } = this.#parts;
    const isWaiting = cut === 'the brain is full';
    this.#error = failure ?? problem;
    if (failure === undefined) {
      this.#failures = 0;
      this.#state = isWaiting ? 'waiting' : 'idle';
    } else {
      this.#failures++;
      this.#state = 'failing';
      // Reported once in a row; what the module said itself is shown to callers only, not logged.
      if (this.#failures === 1) logger.warn('a scan of a module failed', { actor: this.name });
    }
    // One line for a scan: what is refused is proposed, and refused, again and again.
    if (counts.refused > 0)
      logger.info('proposals of a module were refused', {
        actor: this.name,
        count: counts.refused,
        error_code: problem?.code,
      });
    observer.scanned(this.name, failure === undefined ? (isWaiting ? 'waiting' : 'ok') : 'failed', counts);
  }
}

const NOTHING: ScanResult = {
  counts: new ScanCounts(),
  failure: undefined,
  problem: undefined,
  cut: undefined,
};
