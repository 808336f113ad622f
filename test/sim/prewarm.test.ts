/** Workers that are there before they are asked for, over days of a synthetic trace. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DAY_MS, dayTrace, MONDAY, type Model } from './day-trace.ts';
import { EnginePool, type PoolReport } from './engine-pool.ts';

const DAYS = 7;
const LEARNING_DAYS = 2;

const MODELS: readonly Model[] = [
  {
    name: 'chat',
    vramGb: 24,
    slots: 4,
    medianMs: 14_000,
    perHour: [
      [0, 3],
      [6, 3],
      [9, 900],
      [12, 1500],
      [13, 900],
      [15, 1800],
      [18, 700],
      [21, 20],
    ],
    weekend: 0.2,
  },
  {
    name: 'code',
    vramGb: 16,
    slots: 2,
    medianMs: 15_000,
    perHour: [
      [0, 0.1],
      [7.5, 0.1],
      [8.5, 7],
      [17, 8],
      [18.5, 0.3],
    ],
    weekend: 0.3,
  },
  {
    name: 'vision',
    vramGb: 24,
    slots: 2,
    medianMs: 4000,
    perHour: [
      [0, 0.2],
      [11, 0.4],
      [12, 9],
      [13.5, 8],
      [14, 0.4],
      [18.5, 0.4],
      [19.5, 10],
      [22, 8],
      [22.5, 0.2],
    ],
    weekend: 1,
  },
  {
    name: 'nightly',
    vramGb: 40,
    slots: 2,
    medianMs: 40_000,
    perHour: [
      [0, 0],
      [1, 0],
      [1.25, 14],
      [3.75, 12],
      [4, 0.1],
      [20, 0.1],
    ],
    weekend: 1,
  },
];

function simulate(prewarm: boolean, seed: number): PoolReport {
  const pool = new EnginePool(MODELS, {
    prewarm,
    vramGb: 144,
    startMs: 20_000,
    idleMs: 600_000,
    countFrom: MONDAY + LEARNING_DAYS * DAY_MS,
  });
  return pool.run(dayTrace(MODELS, DAYS, seed));
}

const sizes = ({ most, fewest }: PoolReport): string =>
  [...most].map(([name, count]) => `${name} ${fewest.get(name)}-${count}`).join(' ');

test('[ORCH-16.2] workers are started ahead of the pattern of the day, as many as it needs: half the cold starts', (t) => {
  for (const seed of [1]) {
    const off = simulate(false, seed);
    const on = simulate(true, seed);
    for (const [name, report] of Object.entries({ off, on })) {
      const { requests, coldMet, queued, early, idleGbSeconds } = report;
      t.diagnostic(
        `seed ${seed}, pre-warming ${name}: ${requests} requests, ${coldMet} met a cold start, ${queued} busy workers, ${early} early starts, ` +
          `${(idleGbSeconds / 1e6).toFixed(2)} million GB·s idle, workers ${sizes(report)}`,
      );
    }
    assert.equal(on.requests, off.requests);
    assert.ok(on.coldMet <= off.coldMet / 2, `${on.coldMet} with, ${off.coldMet} without`);
    assert.ok(
      on.queued < 0.9 * off.queued,
      'a pool that grows ahead of its hours makes fewer wait for a slot',
    );
    assert.ok(off.early === 0 && on.early > 0);
    assert.ok(on.most.get('chat')! >= 2, 'a busy model gets more than one worker');
    for (const { name } of MODELS) assert.equal(on.fewest.get(name), 0, `${name} gives its memory back`);
  }
});
