/** Drivers of the gateway in front of fake providers, and what a call of theirs has done. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { readInferenceRequest } from '../../src/daemons/execution/inference-request.ts';
import type { Driver } from '../../src/daemons/gateway/driver.ts';
import type { ProviderTimes } from '../../src/daemons/gateway/drivers/provider-api.ts';
import { driverOf } from '../../src/daemons/gateway/drivers/registry.ts';
import type { Cancel, Env, Timers } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { OrchdError } from '../../src/model/errors.ts';
import { DRIVERS, type DriverName } from '../../src/model/gateway-wire.ts';
import type { AnswerPiece } from '../../src/model/inference.ts';
import type { ExecutionResult, Usage } from '../../src/model/worker-wire.ts';
import { FakeAnthropic } from '../fakes/providers/anthropic.ts';
import { FakeGemini } from '../fakes/providers/gemini.ts';
import { FakeOpenAi } from '../fakes/providers/openai.ts';
import type { FakeProvider } from '../fakes/providers/provider.ts';

export const KEY = 'sk-very-secret';

export function ledgerFile(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-provider-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'bills.jsonl');
}

/** Timers of which those with a certain delay run only when the test says so. */
export class SteeredTimers implements Timers {
  readonly #real = realEnv().timers;
  readonly #held = new Map<() => void, number>();
  readonly #delays: ReadonlySet<number>;

  constructor(delays: readonly number[]) {
    this.#delays = new Set(delays);
  }

  after(ms: number, run: () => void): Cancel {
    if (!this.#delays.has(ms)) return this.#real.after(ms, run);
    this.#held.set(run, ms);
    return () => void this.#held.delete(run);
  }

  soon(run: () => void): void {
    this.#real.soon(run);
  }

  /** Runs the timers with this delay now. */
  fire(ms: number): void {
    for (const [run, delay] of [...this.#held]) {
      if (delay !== ms || !this.#held.delete(run)) continue;
      run();
    }
  }
}

/** No pauses, so that nothing waits for a clock; what is looked for in vain is given up at the second look. */
export const FAST: Partial<ProviderTimes> = {
  polls: { baseDelayMs: 1, maxDelayMs: 1, jitter: 0 },
  findMs: 0,
};

/** The drivers that call an API; a page in a browser is in browser-seat.test.ts. */
export const API_DRIVERS = DRIVERS.filter((name) => name !== 'browser');

/** Those of them whose answers come as a stream. */
export const STREAMING = API_DRIVERS.filter(
  (name) => name !== 'anthropic-batches' && name !== 'gemini-generate',
);

const fakeOf = (name: DriverName, ledger: string): FakeProvider => {
  if (name.startsWith('openai')) return new FakeOpenAi(ledger);
  return name.startsWith('gemini') ? new FakeGemini(ledger) : new FakeAnthropic(ledger);
};

export interface Seat {
  readonly provider: FakeProvider;
  driver: Driver;
  /** A driver for the same seat that knows nothing of the first: the gateway has started again. */
  restart(): Driver;
}

export interface SeatOptions {
  readonly keep?: boolean;
  readonly times?: Partial<ProviderTimes>;
  readonly timers?: Timers;
}

export async function seat(t: TestContext, name: DriverName, options: SeatOptions = {}): Promise<Seat> {
  const { keep = true, times = {}, timers } = options;
  const provider = fakeOf(name, ledgerFile(t));
  provider.key = KEY;
  await provider.start();
  const env: Env = { ...realEnv(), ...(timers && { timers }) };
  const make = (): Driver => {
    const order = {
      name: 'seat',
      driver: name,
      url: provider.url,
      key: KEY,
      slots: 4,
      models: { m: 'the-model' },
      keep,
      preempt: false,
    };
    const driver = driverOf(order, { env, folder: '', times: { ...FAST, ...times } });
    t.after(() => driver.close());
    return driver;
  };
  t.after(() => provider.stop());
  const made: Seat = {
    provider,
    driver: make(),
    restart() {
      made.driver.close();
      made.driver = make();
      return made.driver;
    },
  };
  return made;
}

export const TAG = 'job-1_2';

/** A call, with everything that it reports. */
export class Call {
  readonly tag: string;
  readonly model = 'the-model';
  readonly timeoutMs = 600_000;
  readonly request;
  readonly pieces: AnswerPiece[] = [];
  readonly usages: Usage[] = [];
  readonly ids: string[] = [];
  readonly begunAt = Date.now();
  readonly #abort = new AbortController();

  constructor(body: object = {}, tag = TAG) {
    this.tag = tag;
    const messages = 'messages' in body || 'prompt' in body || 'input' in body ? {} : { messages: HELLO };
    this.request = readInferenceRequest({ job_id: 'job-1', ...messages, ...body }, 'any');
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  emit = (piece: AnswerPiece): void => void this.pieces.push(piece);
  noteUsage = (usage: Usage): void => void this.usages.push(usage);
  keepId = async (id: string): Promise<void> => void this.ids.push(id);

  cancel(): void {
    this.#abort.abort();
  }

  /** The call as a gateway that has started again knows it. */
  earlier(id: string | undefined) {
    const { tag, model, signal, emit, noteUsage, keepId, begunAt } = this;
    return { tag, model, signal, emit, noteUsage, keepId, begunAt, id };
  }

  /** The text of the pieces. */
  get text(): string {
    return this.pieces.map((piece) => ('text' in piece ? piece.text : '')).join('');
  }
}

export const HELLO = [{ role: 'user', content: 'Hello there' }];
export const ANSWER = 'You said: Hello there';

/** The error that a call ended with. */
export async function failureOf(run: Promise<ExecutionResult>): Promise<OrchdError> {
  const thrown = await run.then(
    (result) => new Error(`succeeded with ${JSON.stringify(result)}`),
    (error: unknown) => error,
  );
  if (thrown instanceof OrchdError) return thrown;
  throw thrown;
}
