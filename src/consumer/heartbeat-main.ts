/** The main program of the heartbeat thread: a handler that blocks the loop of its program does not stop the heartbeats. */
import { parentPort, workerData } from 'node:worker_threads';
import { realEnv } from '../kit/env/real.ts';
import { pause } from '../kit/pause.ts';
import type { HeldAnswer } from '../model/http/consumers.ts';
import { ConsumerApi, isGone } from './api.ts';
import type { Beaten, FromThread, ThreadData, ToThread } from './heartbeat-wire.ts';
import { Pauses } from './pauses.ts';
import { SharedValue } from './shared-value.ts';

const MIN_TIMEOUT_MS = 1000;

const { timers, random } = realEnv();
const { address, memory } = workerData as ThreadData;
const api = new ConsumerApi(address, timers);
const pauses = new Pauses(random);
const shared = new SharedValue<Beaten>(memory);

/** The consumer that the brain knows; undefined until it is registered again. */
let known: string | undefined;
let mayTell = true;
let wake = new AbortController();

const tell = (message: FromThread): void => parentPort?.postMessage(message);

parentPort?.on('message', (message: ToThread) => {
  if (message.is === 'heard') {
    mayTell = true;
    return;
  }
  if (message.is === 'begin') known = message.consumerId;
  wake.abort();
});

/** Sends a heartbeat; returns the time until the next one. */
async function beat({ consumerId, held, claimed, heartbeatMs, leaseTtlMs }: Beaten): Promise<number> {
  try {
    const answer = await api.call<HeldAnswer>('POST', `/v2/consumers/${consumerId}/heartbeat`, {
      body: { held, claimed },
      timeoutMs: Math.max(MIN_TIMEOUT_MS, leaseTtlMs / 2),
    });
    pauses.reset();
    // An answer that is left out comes again: it tells what is, not what has changed.
    if (mayTell) tell({ is: 'answer', consumerId, answer });
    mayTell = false;
    return heartbeatMs;
  } catch (error) {
    if (isGone(error)) {
      tell({ is: 'gone', consumerId });
      if (known === consumerId) known = undefined;
      return heartbeatMs;
    }
    tell({ is: 'failed', message: error instanceof Error ? error.message : String(error) });
    return Math.min(heartbeatMs, pauses.next());
  }
}

async function run(): Promise<never> {
  let waitMs = 0;
  for (;;) {
    await pause(timers, known === undefined ? 2 ** 30 : waitMs, wake.signal);
    wake = new AbortController();
    const state = known === undefined ? undefined : shared.get();
    if (state) waitMs = await beat(state);
  }
}

void run();
