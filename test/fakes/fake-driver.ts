/** A driver whose calls go on as a test orders. */
import type { Driver, DriverAbilities, DriverCall, EarlierCall } from '../../src/daemons/gateway/driver.ts';
import { OrchdError } from '../../src/model/errors.ts';
import type { SeatOrder } from '../../src/model/gateway-wire.ts';
import type { ExecutionResult } from '../../src/model/worker-wire.ts';

export interface FakeCall {
  readonly seat: string;
  readonly prompt: string;
  readonly call: DriverCall | EarlierCall;
  readonly isResumed: boolean;
  succeed(text?: string): void;
  fail(error: OrchdError): void;
}

export class FakeProvider {
  readonly calls: FakeCall[] = [];
  readonly closed: string[] = [];
  /** Seats of this name find calls again in this way. */
  finds: DriverAbilities['finds'] = 'token';
  /** Calls that are aborted end at once. */
  obeysSignals = true;
  #wake: (() => void) | undefined;

  readonly driverOf = (order: SeatOrder): Driver => ({
    abilities: { finds: this.finds, keepsMs: 0, cancels: 'disconnect', billsWhenCut: true },
    run: (call) => this.#call(order.name, call, false),
    resume: (call) => this.#call(order.name, call, true),
    close: () => void this.closed.push(order.name),
  });

  /** The prompts of the calls that were made, without the resumed ones. */
  get prompts(): string[] {
    return this.calls.filter(({ isResumed }) => !isResumed).map(({ prompt }) => prompt);
  }

  get last(): FakeCall {
    return this.calls.at(-1) as FakeCall;
  }

  /** Settles when so many calls were made. */
  async called(count: number): Promise<void> {
    while (this.calls.length < count) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #call(seat: string, call: DriverCall | EarlierCall, isResumed: boolean): Promise<ExecutionResult> {
    const work = 'request' in call ? call.request.work : undefined;
    const prompt = work?.kind === 'completion' ? work.prompt : '';
    const end = Promise.withResolvers<ExecutionResult>();
    if (this.obeysSignals) {
      const stop = (): void => end.reject(new OrchdError('CANCELLED'));
      if (call.signal.aborted) stop();
      call.signal.addEventListener('abort', stop);
    }
    this.calls.push({
      seat,
      prompt,
      call,
      isResumed,
      succeed: (text = `answer to ${prompt}`) =>
        end.resolve({ text, usage: { prompt_tokens: 1, completion_tokens: 2 } }),
      fail: (error) => end.reject(error),
    });
    this.#wake?.();
    return end.promise;
  }
}

export const seatOrder = (name: string, differences: Partial<SeatOrder> = {}): SeatOrder => ({
  name,
  driver: 'openai-chat',
  url: 'http://127.0.0.1:1',
  slots: 1,
  models: { m: 'provider-m' },
  keep: true,
  preempt: false,
  ...differences,
});
