/** Plays the workload in this process, on the steady disk, and writes down what the rules of order speak of. */
import { buildBrain } from './brain.ts';
import type { Folders } from './folders.ts';
import { keepSegment } from './folders.ts';
import { openAcks, play, SCRIPTS } from './script.ts';
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
  const build = () =>
    buildBrain(env, folders, {
      pace: 'steady',
      background: 'inline',
      ledger: { onLine: (line) => note(ledgerEvent(line)) },
    }).orchestrator;
  let orchestrator = build();
  const client = {
    acks: openAcks(folders.acks),
    now: () => env.clock.now(),
    sleep: (ms: number) => env.sleep(ms),
    onAck: (ack: Parameters<typeof ackEvent>[0]) => note(ackEvent(ack)),
    restart: async () => {
      await orchestrator.stop();
      orchestrator = build();
      await orchestrator.start();
      return orchestrator;
    },
  };
  try {
    await env.run(async () => {
      await orchestrator.start();
      await play(orchestrator, client, SCRIPTS.steady);
      await orchestrator.stop();
    }, LIMIT_MS);
  } finally {
    env.halt();
    client.acks.close();
  }
  return events;
}
