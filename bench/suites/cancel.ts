/**
 * The time from a cancel to the worker's last token: by POST /v2/tasks/{id}/cancel, and by closing a stream of /v1. The
 * demo engine sends a token every 5 ms; one answer runs at a time.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { startProcess } from '../kit/background-process.ts';
import type { Bench, Row } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { measure } from '../load/cancels.ts';
import { start as startWorker } from '../systems/demo-worker.ts';
import { start as startBrain } from '../systems/relay-orchd.ts';

const urlOf = (path: string): string => new URL(path, import.meta.url).href;
const LOAD = { measure, url: urlOf('../load/cancels.ts') };
const WORKER = { start: startWorker, url: urlOf('../systems/demo-worker.ts') };
const BRAIN = { start: startBrain, url: urlOf('../systems/relay-orchd.ts') };
const TOKEN_MS = 5;

export const bench: Bench = {
  name: 'cancel',
  title: 'from a cancel to the last token of the worker, which says one every 5 ms',
  rounds: 'every',
  async run({ folder, quick }) {
    const own = join(folder, 'cancel');
    mkdirSync(own);
    try {
      await using worker = await startProcess('cancel-worker', WORKER, { delayMs: TOKEN_MS });
      await using brain = await startProcess('cancel-brain', BRAIN, { folder: own, upstream: worker.value });
      const shared = {
        folder: own,
        port: brain.value,
        poolPort: worker.value,
        pids: [worker.pid, brain.pid],
        cancels: quick ? 40 : 250,
      };
      const rows: Row[] = [];
      for (const [name, how] of [
        ['cancel by order', 'order'],
        ['cancel by leaving', 'leave'],
      ] as const) {
        rows.push({ case: name, values: await inChild(LOAD, { ...shared, how }) });
      }
      return rows;
    } finally {
      rmSync(own, { recursive: true });
    }
  },
};
