/** What a submit costs over HTTP, beside a route of Fastify that only checks the same body, in turns. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Bench, type Options, type Row, type Values, windowOf } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { type Standing, standing } from '../kit/standing.ts';
import { type HttpLoad, measure as load } from '../load/http.ts';
import { start as startFastify } from '../systems/http-fastify.ts';
import { start as startOrchd } from '../systems/http-orchd.ts';
import { measure as submitInProcess } from './submit.ts';

const urlOf = (path: string): string => new URL(path, import.meta.url).href;
const LOAD = { measure: load, url: urlOf('../load/http.ts') };
const ORCHD = { start: startOrchd, url: urlOf('../systems/http-orchd.ts') };
const FASTIFY = { start: startFastify, url: urlOf('../systems/http-fastify.ts') };
const SUBMIT = { measure: submitInProcess, url: urlOf('./submit.ts') };

const ONE_BY_ONE = { connections: 64, jobsPerCall: 1 };
const BULK = { connections: 4, jobsPerCall: 1000 };

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
      return await inTurns(options, folder);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};

async function inTurns(options: Options, folder: string): Promise<Row[]> {
  await using ours = await standing('http-orchd', ORCHD, { folder: join(folder, 'ours'), level: 'info' });
  await using quiet = await standing('http-quiet', ORCHD, { folder: join(folder, 'quiet'), level: 'warn' });
  await using bare = await standing('http-fastify', FASTIFY, undefined);
  const run = (server: Standing<number>, shape: Pick<HttpLoad, 'connections' | 'jobsPerCall'>) =>
    inChild(LOAD, { ...shape, ...windowOf(options), folder, port: server.value, pid: server.pid });
  return [
    { case: 'http submit', values: await run(ours, ONE_BY_ONE) },
    { case: 'http bare fastify', values: await run(bare, ONE_BY_ONE) },
    { case: 'http submit, no log lines', values: await run(quiet, ONE_BY_ONE) },
    { case: 'submit without HTTP', values: await withoutHttp(options, folder) },
    { case: 'http bulk', values: await run(ours, BULK) },
    { case: 'http bulk bare fastify', values: await run(bare, BULK) },
  ];
}

/** The same jobs handed over in process, 64 at once: the rest of a submit is HTTP, and the log. */
async function withoutHttp(options: Options, folder: string): Promise<Values> {
  const args = { folder: join(folder, 'in-process'), inFlight: 64, ...windowOf(options) };
  const { perSec, cpuUs, flushes, p50Ms, p99Ms, otherCores } = await inChild(SUBMIT, args);
  return { perSec, serverUs: cpuUs, flushes, p50Ms, p99Ms, otherCores };
}
