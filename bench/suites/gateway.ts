/**
 * What a gateway costs beside a worker: both in front of the same source, which speaks OpenAI's API, in turns, alone and
 * behind a brain. A gateway writes every request to disk before it calls the provider, which takes the time of one
 * flush: the `flush` row is one small append and its datasync on the same disk, while the same streams run without an
 * executor. Portkey forwards the same streams without remembering them; it sleeps 25 ms before the first token.
 */
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { realEnv } from '../../src/kit/env/real.ts';
import { type BackgroundProcess, startProcess } from '../kit/background-process.ts';
import type { Bench, Options, Row, Values } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { now, quantile, sleep } from '../kit/numbers.ts';
import { measure as firstToken } from '../load/first-token.ts';
import type { ProtocolName } from '../load/protocols.ts';
import { start as hold, measure as load } from '../load/streams.ts';
import { start as startGateway } from '../systems/gateway-executor.ts';
import type { ProxyDaemon } from '../systems/nginx.ts';
import { installPeers } from '../systems/peer.ts';
import { PORTKEY_SLEEP_MS, portkeyHeaders, startPortkey } from '../systems/portkey.ts';
import { start as startOrchd } from '../systems/relay-orchd.ts';
import { start as startSource } from '../systems/source.ts';
import { type ExecutorPorts, start as startWorker } from '../systems/worker-executor.ts';

const urlOf = (path: string): string => new URL(path, import.meta.url).href;
const FIRST_TOKEN = { measure: firstToken, url: urlOf('../load/first-token.ts') };
const LOAD = { measure: load, url: urlOf('../load/streams.ts') };
const HOLD = { start: hold, url: LOAD.url };
const SOURCE = { start: startSource, url: urlOf('../systems/source.ts') };
const ORCHD = { start: startOrchd, url: urlOf('../systems/relay-orchd.ts') };
const EXECUTORS = {
  worker: { start: startWorker, url: urlOf('../systems/worker-executor.ts') },
  gateway: { start: startGateway, url: urlOf('../systems/gateway-executor.ts') },
};

const KINDS = ['worker', 'gateway'] as const;
type Kind = (typeof KINDS)[number];

/** Short windows in many turns, since the speed of a shared machine changes within seconds. */
const TURNS = 3;
const WINDOW = { warmMs: 500, measureMs: 1500 };
const PACE_MS = 25;
/** A small young generation: its size depends on the rate of garbage and would hide the memory that streams hold. */
const TIGHT = ['--expose-gc', '--max-semi-space-size=1'];
const SLOW_MS = 2000;
const FIRST_STREAMS = 20;
const HELD_STREAMS = 200;
const SETTLE_MS = 1000;

/** With many clients a stream lasts a second; a single client runs short streams in quick succession. */
const shapesOf = ({ quick }: Options): readonly [Shape, ...Shape[]] => [
  { clients: 1, streams: quick ? 50 : 100, warmUp: 20, everyMs: 2, tokens: 2 },
  { clients: 50, streams: quick ? 1 : 2, warmUp: 1, everyMs: 50, tokens: 20 },
];

interface Shape {
  readonly clients: number;
  readonly streams: number;
  readonly warmUp: number;
  readonly everyMs: number;
  readonly tokens: number;
}

interface System {
  readonly name: string;
  readonly port: number;
  readonly protocol: ProtocolName;
  /** The process whose CPU time and memory are measured. */
  readonly pid: number;
  readonly headers: readonly string[];
}

export const bench: Bench = {
  name: 'gateway',
  title:
    'through a gateway and through a worker: first token, tokens per CPU-second and memory of the executor',
  rounds: 'every',
  async run(options) {
    const folder = join(options.folder, 'gateway');
    mkdirSync(folder);
    const problem = installPeers('@portkey-ai/gateway');
    const skipped = problem === undefined ? [] : [{ case: 'gateway: portkey', values: { note: problem } }];
    try {
      const rows = await inTurns(options, folder, problem === undefined);
      for (const kind of KINDS) rows.push(...(await memory(kind, folder)));
      return [...rows, ...(problem === undefined ? await portkeyMemory() : skipped)];
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};

interface Executor extends AsyncDisposable {
  readonly process: BackgroundProcess<ExecutorPorts>;
  /** The executor alone, and behind a brain of its own. */
  readonly systems: readonly [System, System];
}

async function startExecutor(
  kind: Kind,
  folder: string,
  upstream: number,
  flags: readonly string[] = [],
): Promise<Executor> {
  const executor = await startProcess(
    `gateway-${kind}`,
    EXECUTORS[kind],
    { folder: join(folder, kind), upstream },
    flags,
  );
  const brain = await startProcess(`gateway-brain-${kind}`, ORCHD, {
    folder: join(folder, `brain-${kind}`),
    upstream: executor.value.forBrain,
    through: kind === 'worker' ? 'pool' : 'gateway',
  });
  const { pid } = executor;
  return {
    process: executor,
    systems: [
      { name: kind, port: executor.value.port, protocol: kind, pid, headers: [] },
      { name: `brain and ${kind}`, port: brain.value, protocol: 'openai', pid, headers: [] },
    ],
    async [Symbol.asyncDispose]() {
      await brain[Symbol.asyncDispose]();
      await executor[Symbol.asyncDispose]();
      rmSync(join(folder, `brain-${kind}`), { recursive: true });
      rmSync(join(folder, kind), { recursive: true, force: true });
    },
  };
}

async function inTurns(options: Options, folder: string, withPortkey: boolean): Promise<Row[]> {
  await using source = await startProcess('gateway-source', SOURCE, undefined);
  await using worker = await startExecutor('worker', folder, source.value);
  await using gateway = await startExecutor('gateway', folder, source.value);
  const portkey = withPortkey ? await startPortkey() : undefined;
  try {
    const systems = [0, 1].flatMap((at) => [worker, gateway].map((each) => each.systems[at] as System));
    if (portkey) systems.push(portkeySystem(portkey, source.value));
    const rows: Row[] = [];
    const [first, ...more] = shapesOf(options);
    // Warm-up: code is compiled and late modules are loaded.
    for (const system of systems) await firstTokenOf(system, first, folder, source.pid);
    for (let turn = 0; turn < (options.quick ? 1 : TURNS); turn++) {
      for (const shape of [first, ...more]) rows.push(...(await firstTokens(shape, systems, folder, source)));
      rows.push(...(await tokens(options, systems, folder, source)));
      // None of them is always the first, or always measured after the same one.
      systems.reverse();
    }
    return rows;
  } finally {
    await portkey?.stop();
  }
}

const portkeySystem = ({ port, pid }: ProxyDaemon, upstream: number): System => ({
  name: 'portkey',
  port,
  protocol: 'openai',
  pid,
  headers: portkeyHeaders(upstream),
});

async function firstTokens(
  shape: Shape,
  systems: readonly System[],
  folder: string,
  source: BackgroundProcess<number>,
): Promise<Row[]> {
  const direct: System = { name: 'direct', port: source.value, protocol: 'openai', pid: 0, headers: [] };
  const rows: Row[] = [];
  const { clients } = shape;
  const base = await firstTokenOf(direct, shape, folder, source.pid);
  rows.push({ case: `gateway: direct @${clients}`, values: base });
  const [flush] = await Promise.all([
    inChild(FLUSH, { folder }),
    firstTokenOf(direct, shape, folder, source.pid),
  ]);
  rows.push({ case: `gateway: flush @${clients}`, values: flush });
  for (const system of systems) {
    const values = await firstTokenOf(system, shape, folder, source.pid);
    const addedP50Ms = Number(values['p50Ms']) - Number(base['p50Ms']);
    const lessSleep = system.name === 'portkey' && { lessSleepP50Ms: addedP50Ms - PORTKEY_SLEEP_MS };
    rows.push({
      case: `gateway: ${system.name} @${clients}`,
      values: { ...values, addedP50Ms, ...lessSleep },
    });
  }
  return rows;
}

const firstTokenOf = (
  { port, protocol, headers, pid }: System,
  shape: Shape,
  folder: string,
  sourcePid: number,
): Promise<Values> =>
  inChild(FIRST_TOKEN, { ...shape, folder, port, protocol, headers, pids: [pid, sourcePid] });

async function tokens(
  { quick }: Options,
  systems: readonly System[],
  folder: string,
  source: BackgroundProcess<number>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const { name, port, protocol, pid, headers } of systems) {
    const values = await inChild(LOAD, {
      ...WINDOW,
      kind: protocol,
      streams: quick ? 50 : 200,
      everyMs: PACE_MS,
      headers: recordOf(headers),
      folder,
      port,
      relayPid: pid,
      upstreamPort: source.value,
      upstreamPid: source.pid,
    });
    rows.push({ case: `gateway: tokens of ${name}`, values });
  }
  return rows;
}

const recordOf = (headers: readonly string[]): Record<string, string> =>
  Object.fromEntries(headers.map((line) => line.split(': ') as [string, string]));

/** Memory of an executor alone and behind a brain; new processes, since a heap that was full before hides its growth. */
async function memory(kind: Kind, folder: string): Promise<Row[]> {
  const rows: Row[] = [];
  for (const at of [0, 1] as const) {
    await using source = await startProcess('gateway-source', SOURCE, undefined);
    await using executor = await startExecutor(kind, folder, source.value, TIGHT);
    const system = executor.systems[at];
    const values = await memoryOf(system, () => executor.process.memory());
    rows.push({ case: `gateway: memory of ${system.name}`, values });
  }
  return rows;
}

/** Portkey's memory without garbage collection, which nobody can ask it for. */
async function portkeyMemory(): Promise<Row[]> {
  await using source = await startProcess('gateway-source', SOURCE, undefined);
  const daemon = await startPortkey(['--max-semi-space-size=1']);
  try {
    const values = await memoryOf(portkeySystem(daemon, source.value), async () => ({
      rss: rssBytes(daemon.pid),
    }));
    return [{ case: 'gateway: memory of portkey', values }];
  } finally {
    await daemon.stop();
  }
}

function rssBytes(pid: number): number {
  const kib = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kib) * 1024;
}

type Memory = Pick<NodeJS.MemoryUsage, 'rss'> & Partial<NodeJS.MemoryUsage>;

async function memoryOf({ port, protocol, headers }: System, usage: () => Promise<Memory>): Promise<Values> {
  const held = { kind: protocol, port, everyMs: SLOW_MS, headers: recordOf(headers) };
  // The first streams load modules and caches that must not count for the measured ones.
  await using _first = await startProcess('gateway-first', HOLD, { ...held, streams: FIRST_STREAMS });
  const before = await usage();
  await using _all = await startProcess('gateway-hold', HOLD, { ...held, streams: HELD_STREAMS });
  await sleep(SETTLE_MS);
  const after = await usage();
  const perStream = (key: 'rss' | 'heapUsed' | 'external'): number | undefined => {
    const [least, most] = [before[key], after[key]];
    return least === undefined || most === undefined ? undefined : (most - least) / HELD_STREAMS / 1024;
  };
  return {
    streams: HELD_STREAMS,
    heapKib: perStream('heapUsed'),
    externalKib: perStream('external'),
    rssKib: perStream('rss'),
  };
}

const FLUSH = { measure, url: import.meta.url };
const FLUSHES = 100;
/** About the rate at which a gateway flushes in both shapes: without pauses a flush is faster, since no thread sleeps. */
const FLUSH_EVERY_MS = 10;
const RECORD = Buffer.alloc(300, 'x');
/** Every flush of a gateway begins on a sector of its own. */
const SECTOR_BYTES = 512;

/** The time of one flush: small records at the end of a growing file, one at a time, as a gateway writes them. */
export async function measure({ folder }: { readonly folder: string }): Promise<Values> {
  const { disk } = realEnv();
  const path = join(folder, 'flush');
  const file = await disk.open(path, 'create');
  const times: number[] = [];
  for (let n = 0; n < FLUSHES; n++) {
    await sleep(FLUSH_EVERY_MS);
    const begin = now();
    await file.write(n * SECTOR_BYTES, RECORD);
    await file.datasync();
    times.push(now() - begin);
  }
  await file.close();
  await disk.remove(path);
  return { p50Ms: quantile(times, 0.5), p99Ms: quantile(times, 0.99) };
}
