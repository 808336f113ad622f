/** The heartbeats of a consumer, sent by a thread of their own. */
import { Worker } from 'node:worker_threads';
import type { HeldAnswer } from '../model/http/consumers.ts';
import type { ApiAddress } from './api.ts';
import type { Beaten, FromThread, ThreadData, ToThread } from './heartbeat-wire.ts';
import { SharedValue } from './shared-value.ts';

export interface HeartbeatEvents {
  readonly onAnswer: (answer: HeldAnswer) => void;
  readonly onGone: (consumerId: string) => void;
  readonly onProblem: (message: string) => void;
}

export class Heartbeats {
  readonly #address: ApiAddress;
  readonly #shared = new SharedValue<Beaten>();
  readonly #events: HeartbeatEvents;
  #worker: Worker | undefined;
  #state: Beaten | undefined;

  constructor(address: ApiAddress, events: HeartbeatEvents) {
    this.#address = address;
    this.#events = events;
  }

  /** What the heartbeats say from now on; the first call begins them. */
  tell(state: Beaten): void {
    const { consumerId } = state;
    const isNew = !this.#worker || this.#state?.consumerId !== consumerId;
    this.#state = state;
    this.#shared.set(state);
    this.#worker ??= this.#start();
    if (isNew) this.#send({ is: 'begin', consumerId });
  }

  /** Sends one now. */
  now(): void {
    this.#send({ is: 'now' });
  }

  async stop(): Promise<void> {
    const worker = this.#worker;
    this.#state = undefined;
    this.#worker = undefined;
    await worker?.terminate();
  }

  #start(): Worker {
    // The published build has .js files in the same places as the .ts files of the source.
    const script = new URL(
      import.meta.url.endsWith('.ts') ? './heartbeat-main.ts' : './heartbeat-main.js',
      import.meta.url,
    );
    const workerData: ThreadData = { address: this.#address, memory: this.#shared.memory };
    // Flags of the main program need not be valid for this thread.
    const worker = new Worker(script, { workerData, name: 'orchd-heartbeat', execArgv: [] });
    worker.unref();
    worker.on('message', (message: FromThread) => this.#hear(message));
    worker.on('error', (error: Error) => this.#events.onProblem(error.message));
    worker.on('exit', () => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      if (this.#state) this.tell(this.#state);
    });
    return worker;
  }

  #hear(message: FromThread): void {
    if (message.is === 'failed') return this.#events.onProblem(`a heartbeat failed: ${message.message}`);
    if (message.is === 'gone') return this.#events.onGone(message.consumerId);
    this.#send({ is: 'heard' });
    if (message.consumerId === this.#state?.consumerId) this.#events.onAnswer(message.answer);
  }

  #send(message: ToThread): void {
    this.#worker?.postMessage(message);
  }
}
