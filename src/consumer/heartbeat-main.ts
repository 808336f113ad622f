/** The main program of the heartbeat thread: a handler that blocks the loop of its program does not stop the heartbeats. */
import { parentPort, workerData } from 'node:worker_threads';
import { realEnv } from '../kit/env/real.ts';
import { pause } from '../kit/pause.ts';
import type { HeldAnswer } from '../model/http/consumers.ts';
import { ConsumerApi, isGone } from './api.ts';
import type { Beaten, FromThread, ThreadData, ToThread } from './heartbeat-wire.ts';
import { Pauses } from './pauses.ts';

const MIN_TIMEOUT_MS = 1000;

const { timers, random } = realEnv();
const api = new ConsumerApi(workerData as ThreadData, timers);
const pauses = new Pauses(random);

let state: Beaten | undefined;
let mayTell = true;
let wake = new AbortController();

const tell = (message: FromThread): void => parentPort?.postMessage(message);

parentPort?.on('message', (message: ToThread) => {
  if (message.is === 'state') {
    const isNew = state?.consumerId !== message.state.consumerId;
    state = message.state;
    if (isNew) wake.abort();
  } else if (message.is === 'heard') mayTell = true;
  else wake.abort();
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
      if (state?.consumerId === consumerId) state = undefined;
      return heartbeatMs;
    }
    tell({ is: 'failed', message: error instanceof Error ? error.message : String(error) });
    return Math.min(heartbeatMs, pauses.next());
  }
}

async function run(): Promise<never> {
  let waitMs = 0;
  for (;;) {
    await pause(timers, state ? waitMs : 2 ** 30, wake.signal);
    wake = new AbortController();
    if (state) waitMs = await beat(state);
  }
}

void run();
