/** The cost of a submit over HTTP, in turns with a Fastify route that only validates the same body. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type BackgroundProcess, startProcess } from '../kit/background-process.ts';
import { type Bench, type Options, type Row, type Values, windowOf } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { type HttpLoad, measure as load } from '../load/http.ts';
import { start as startFastify } from '../systems/http-fastify.ts';
import { start as startOrchd } from '../systems/http-orchd.ts';
import { measure as submitInProcess } from './submit.ts';

const urlOf = (path: string): string => new URL(path, import.meta.url).href;
const LOAD = { measure: load, url: urlOf('../load/http.ts') };
const ORCHD = { start: startOrchd, url: urlOf('../systems/http-orchd.ts') };
const FASTIFY = { start: startFastify, url: urlOf('../systems/http-fastify.ts') };
const SUBMIT = { measure: submitInProcess, url: urlOf('./submit.ts') };

type Shape = Pick<HttpLoad, 'connections' | 'jobsPerCall'> & { readonly turns: number };

const ONE_BY_ONE: Shape = { connections: 64, jobsPerCall: 1, turns: 4 };
/** Fewer turns, since the waiting jobs fill the memory. */
const BULK: Shape = { connections: 4, jobsPerCall: 1000, turns: 2 };
/** Short windows in many turns, since the speed of a shared machine changes within seconds. */
const WINDOW = { warmMs: 250, measureMs: 1000 };

export const bench: Bench = {
  name: 'http',
  title:
    'submit over HTTP, 64 connections, bulk 4 with 1,000 jobs a call: ours with the durable commit inside, ' +
    'bare Fastify with the check of the same body alone',
  rounds: 'every',
  async run(options) {
    const folder = join(options.folder, 'http');
    mkdirSync(folder);
    try {
      return await besideFastify(options, folder);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};

async function besideFastify(options: Options, folder: string): Promise<Row[]> {
  await using ours = await startProcess('http-orchd', ORCHD, { folder: join(folder, 'ours'), level: 'info' });
  await using quiet = await startProcess('http-quiet', ORCHD, {
    folder: join(folder, 'quiet'),
    level: 'warn',
  });
  await using bare = await startProcess('http-fastify', FASTIFY, undefined);
  const rows: Row[] = [];
  const inTurn = async (shape: Shape, servers: Record<string, BackgroundProcess<number>>): Promise<void> => {
    const turns = options.quick ? 1 : shape.turns;
    // Turn 0 only warms up: code is compiled and late modules are loaded.
    for (let turn = options.quick ? 1 : 0; turn <= turns; turn++) {
      for (const [name, { value: port, pid }] of Object.entries(servers)) {
        const window = turn === 0 ? windowOf(options) : WINDOW;
        const values = await inChild(LOAD, { ...shape, ...window, folder, port, pid });
        if (turn > 0) rows.push({ case: name, values });
      }
    }
  };
  await inTurn(ONE_BY_ONE, {
    'http submit': ours,
    'http bare fastify': bare,
    'http submit, no log lines': quiet,
  });
  rows.push({ case: 'submit without HTTP', values: await withoutHttp(options, folder) });
  await inTurn(BULK, { 'http bulk': ours, 'http bulk bare fastify': bare });
  return rows;
}

/** The same jobs submitted in process, 64 at once: the difference is the cost of HTTP and the log lines. */
async function withoutHttp(options: Options, folder: string): Promise<Values> {
  const args = { folder: join(folder, 'in-process'), inFlight: 64, ...windowOf(options) };
  const { perSec, cpuUs, flushes, p50Ms, p99Ms, otherCores } = await inChild(SUBMIT, args);
  return { perSec, serverUs: cpuUs, flushes, p50Ms, p99Ms, otherCores };
}
