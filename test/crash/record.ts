/** Plays the workload in this process, on the steady disk, and writes down what the rules of order speak of. */
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { buildBrain } from './brain.ts';
import type { Folders } from './folders.ts';
import { keepSegment } from './folders.ts';
import { type Client, openAcks, play, SCRIPTS } from './script.ts';
import { FIRST_INSTANT, SteadyEnv } from './steady-env.ts';
import { ackEvent, doneEvent, ledgerEvent, operationEvent, type TraceEvent } from './trace.ts';

const LIMIT_MS = 20_000_000;

/** `callMs`: how long each disk call takes, against the time that everything else takes. */
export async function recordWorkload(folders: Folders, callMs = 0): Promise<TraceEvent[]> {
  const events: TraceEvent[] = [];
  const note = (event: TraceEvent | undefined): undefined => {
    if (event) events.push(event);
  };
  const env = new SteadyEnv({
    folder: folders.data,
    startAt: FIRST_INSTANT,
    seed: 1,
    callMs,
    before: (operation) => {
      if (operation.kind === 'remove') keepSegment(folders, operation.path);
      return note(operationEvent(operation));
    },
    after: (operation) => note(doneEvent(operation)),
  });
  const begin = async (): Promise<Orchestrator> => {
    const { orchestrator } = buildBrain(env, folders, {
      pace: 'steady',
      background: 'inline',
      ledger: { onLine: (line) => note(ledgerEvent(line)) },
    });
    await orchestrator.start();
    return orchestrator;
  };
  const client: Client = {
    acks: openAcks(folders.acks),
    now: () => env.clock.now(),
    sleep: (ms) => env.sleep(ms),
    onAck: (ack) => note(ackEvent(ack)),
    earlier: [],
    begin,
  };
  const script = SCRIPTS.steady;
  try {
    await env.run(() => play(client, script, { from: 0, to: script.length }), LIMIT_MS);
  } finally {
    env.halt();
    client.acks.close();
  }
  return events;
}
