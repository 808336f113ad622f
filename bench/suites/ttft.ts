/**
 * The time that a relay adds to the first token: orchd, which makes every stream a durable job, in turns with a bare
 * Node pipe, nginx and the Portkey gateway, all in front of the same source, which sends its first token at once. The
 * `flush` rows are the part that orchd cannot avoid: the time from a submit to the start of its job in a brain on the
 * same disk, at the same rate. Portkey sleeps 25 ms before the first token of every stream, so its numbers are reported
 * with and without that sleep.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { startProcess } from '../kit/background-process.ts';
import type { Bench, Options, Row, Values } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { type FirstTokenLoad, measure as load } from '../load/first-token.ts';
import { type ProxyDaemon, startNginx } from '../systems/nginx.ts';
import { openOrchd } from '../systems/orchd.ts';
import { installPeers } from '../systems/peer.ts';
import { PORTKEY_SLEEP_MS, portkeyHeaders, startPortkey } from '../systems/portkey.ts';
import { start as startOrchd } from '../systems/relay-orchd.ts';
import { start as startPipe } from '../systems/relay-pipe.ts';
import { paced } from '../systems/shapes.ts';
import { start as startSource } from '../systems/source.ts';

const urlOf = (path: string): string => new URL(path, import.meta.url).href;
const LOAD = { measure: load, url: urlOf('../load/first-token.ts') };
const ORCHD = { start: startOrchd, url: urlOf('../systems/relay-orchd.ts') };
const PIPE = { start: startPipe, url: urlOf('../systems/relay-pipe.ts') };
const SOURCE = { start: startSource, url: urlOf('../systems/source.ts') };

/** Short windows in many turns, since the speed of a shared machine changes within seconds. */
const TURNS = 3;

interface Shape {
  readonly clients: number;
  readonly streams: number;
  readonly warmUp: number;
  readonly everyMs: number;
  readonly tokens: number;
  /** About how many streams start per second. */
  readonly perSec: number;
}

/** With many clients a stream lasts a second; a single client runs short streams in quick succession. */
const shapesOf = ({ quick }: Options): readonly Shape[] => [
  { clients: 1, streams: quick ? 50 : 100, warmUp: 20, everyMs: 2, tokens: 2, perSec: 100 },
  ...[50, 200].map((clients) => ({
    clients,
    streams: quick ? 1 : 3,
    warmUp: 1,
    everyMs: 50,
    tokens: 20,
    perSec: clients,
  })),
];

interface System {
  readonly name: string;
  readonly port: number;
  readonly pids: readonly number[];
  readonly headers?: readonly string[];
}

export const bench: Bench = {
  name: 'ttft',
  title: 'time to the first token of 1, 50 and 200 streams at once, and what each adds to that of the source',
  rounds: 'every',
  async run(options) {
    const folder = join(options.folder, 'ttft');
    mkdirSync(folder);
    try {
      return await inTurns(options, folder);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};

async function inTurns(options: Options, folder: string): Promise<Row[]> {
  await using source = await startProcess('ttft-source', SOURCE, undefined);
  const upstream = source.value;
  await using pipe = await startProcess('ttft-pipe', PIPE, { upstream });
  await using orchd = await startProcess('ttft-orchd', ORCHD, { folder: join(folder, 'orchd'), upstream });
  const direct: System = { name: 'direct', port: upstream, pids: [] };
  const own: System[] = [
    { name: 'pipe', port: pipe.value, pids: [pipe.pid] },
    { name: 'orchd', port: orchd.value, pids: [orchd.pid] },
  ];
  const peers = await startPeers(folder, upstream);
  try {
    const systems = [direct, ...own, ...peers.systems];
    const rows = peers.skipped;
    const shapes = shapesOf(options);
    // Warm-up: code is compiled and late modules are loaded.
    for (const system of systems) await inChild(LOAD, loadOf(shapes[0] as Shape, system, folder, source.pid));
    for (let turn = 0; turn < (options.quick ? 1 : TURNS); turn++) {
      for (const shape of shapes) {
        rows.push(...(await besideDirect(systems, shape, folder, source.pid)));
        rows.push({ case: `flush @${shape.clients}`, values: await flush(folder, shape, options) });
      }
    }
    return rows;
  } finally {
    for (const { stop } of peers.daemons) await stop();
  }
}

async function besideDirect(
  systems: readonly System[],
  shape: Shape,
  folder: string,
  sourcePid: number,
): Promise<Row[]> {
  const rows: Row[] = [];
  let base: Values = {};
  for (const system of systems) {
    const values = await inChild(LOAD, loadOf(shape, system, folder, sourcePid));
    if (system.name === 'direct') base = values;
    const added = (key: string): number => Number(values[key]) - Number(base[key]);
    const [p50, p99] = [added('p50Ms'), added('p99Ms')];
    const isPortkey = system.name === 'portkey';
    rows.push({
      case: `${system.name} @${shape.clients}`,
      values: {
        ...values,
        ...(system !== systems[0] && { addedP50Ms: p50, addedP99Ms: p99 }),
        ...(isPortkey && { lessSleepP50Ms: p50 - PORTKEY_SLEEP_MS, lessSleepP99Ms: p99 - PORTKEY_SLEEP_MS }),
      },
    });
  }
  return rows;
}

const loadOf = (
  { clients, streams, warmUp, everyMs, tokens }: Shape,
  { port, pids, headers = [] }: System,
  folder: string,
  sourcePid: number,
): FirstTokenLoad => ({
  folder,
  port,
  pids: [...pids, sourcePid],
  headers,
  clients,
  streams,
  warmUp,
  everyMs,
  tokens,
});

interface Peers {
  readonly systems: System[];
  readonly daemons: ProxyDaemon[];
  readonly skipped: Row[];
}

/** Starts the peers. One that cannot be started is reported as skipped. */
async function startPeers(folder: string, upstream: number): Promise<Peers> {
  const peers: Peers = { systems: [], daemons: [], skipped: [] };
  const add = async (name: string, start: () => Promise<ProxyDaemon>, headers: string[]): Promise<void> => {
    try {
      const daemon = await start();
      peers.daemons.push(daemon);
      peers.systems.push({ name, port: daemon.port, pids: [daemon.pid], headers });
    } catch (error) {
      peers.skipped.push({ case: name, values: { note: `peer skipped: ${(error as Error).message}` } });
    }
  };
  await add('nginx', () => startNginx(join(folder, 'nginx'), upstream), []);
  const install = async (): Promise<ProxyDaemon> => {
    const problem = installPeers('@portkey-ai/gateway');
    if (problem) throw new Error(problem);
    return startPortkey();
  };
  await add('portkey', install, portkeyHeaders(upstream));
  return peers;
}

interface FlushArgs {
  readonly folder: string;
  readonly perSec: number;
  readonly seconds: number;
}

async function flush(folder: string, { perSec }: Shape, { quick }: Options): Promise<Values> {
  const own = join(folder, 'flush');
  const args: FlushArgs = { folder: own, perSec, seconds: quick ? 2 : 3 };
  const values = await inChild({ measure, url: import.meta.url }, args);
  rmSync(own, { recursive: true });
  const { startP50Ms, startP99Ms, otherCores } = values;
  return { p50Ms: startP50Ms, p99Ms: startP99Ms, streams: perSec * args.seconds, otherCores };
}

export async function measure({ folder, perSec, seconds }: FlushArgs): Promise<Values> {
  const system = await openOrchd(folder, perSec);
  const values = await paced(system, folder, { perSec, seconds });
  await system.close();
  return values;
}
