/**
 * Tokens relayed from a model to followers, in turns with a bare Node pipe in front of the same model: the CPU time per
 * token, and the memory of an open stream and of a follower of a waiting job. orchd reaches the model as a worker of a
 * pool manager.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type BackgroundProcess, startProcess } from '../kit/background-process.ts';
import { type Bench, type Options, type Row, type Values, windowOf } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { sleep } from '../kit/numbers.ts';
import { start as hold, measure as load, type RelayLoad, type StreamKind } from '../load/streams.ts';
import { start as startOrchd } from '../systems/relay-orchd.ts';
import { start as startPipe } from '../systems/relay-pipe.ts';
import { start as startUpstream } from '../systems/source.ts';

const urlOf = (path: string): string => new URL(path, import.meta.url).href;
const LOAD = { measure: load, url: urlOf('../load/streams.ts') };
const HOLD = { start: hold, url: LOAD.url };
const ORCHD = { start: startOrchd, url: urlOf('../systems/relay-orchd.ts') };
const PIPE = { start: startPipe, url: urlOf('../systems/relay-pipe.ts') };
const UPSTREAM = { start: startUpstream, url: urlOf('../systems/source.ts') };

const KINDS = ['pipe', 'orchd'] as const;
/** A small young generation: its size depends on the rate of garbage and would hide the memory that streams hold. */
const TIGHT = ['--expose-gc', '--max-semi-space-size=1'];
/** The time between two tokens of an open stream that is almost idle. */
const SLOW_MS = 2000;
const FIRST_STREAMS = 20;
const SETTLE_MS = 1000;
/** Short windows in many turns, since the speed of a shared machine changes within seconds. */
const WINDOW = { warmMs: 500, measureMs: 1500 };
const TURNS = 5;

export const bench: Bench = {
  name: 'relay',
  title:
    'tokens relayed per CPU-second of the relay, and memory of its streams; ours beside a bare Node pipe',
  rounds: 'every',
  async run(options) {
    const folder = join(options.folder, 'relay');
    mkdirSync(folder);
    try {
      return [...(await tokens(options, folder)), ...(await memory(options, folder))];
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};

interface Shape {
  readonly name: string;
  readonly streams: number;
  readonly everyMs: number;
}

/** `paced`: 40 tokens a second, as a fast model sends them. `saturated`: without a pace, as a stored answer is sent. */
const shapesOf = ({ quick }: Options): readonly Shape[] => [
  { name: 'paced', streams: quick ? 50 : 200, everyMs: 25 },
  { name: 'saturated', streams: quick ? 5 : 20, everyMs: 0 },
];

async function tokens(options: Options, folder: string): Promise<Row[]> {
  await using upstream = await startProcess('relay-upstream', UPSTREAM, undefined);
  const rows: Row[] = [];
  for (const { name, ...shape } of shapesOf(options)) {
    await using pipe = await startRelay('pipe', folder, `pipe-${name}`, upstream.value, []);
    await using orchd = await startRelay('orchd', folder, `orchd-${name}`, upstream.value, []);
    const relays = { pipe, orchd };
    // Turn 0 only warms up: code is compiled and late modules are loaded.
    for (let turn = options.quick ? 1 : 0; turn <= (options.quick ? 1 : TURNS); turn++) {
      for (const kind of KINDS) {
        const args: RelayLoad = {
          ...shape,
          ...(turn === 0 ? windowOf(options) : WINDOW),
          kind,
          folder,
          port: relays[kind].value,
          relayPid: relays[kind].pid,
          upstreamPort: upstream.value,
          upstreamPid: upstream.pid,
        };
        const values = await inChild(LOAD, args);
        if (turn > 0) rows.push({ case: `${name} ${kind}`, values });
      }
    }
  }
  return rows;
}

/** Measured in new processes, since a heap that was full before hides its growth. */
async function memory({ quick }: Options, folder: string): Promise<Row[]> {
  const streams = quick ? 200 : 2000;
  return [
    { case: 'open stream pipe', values: await memoryOf('pipe', folder, streams) },
    { case: 'open stream orchd', values: await memoryOf('orchd', folder, streams) },
    { case: 'follower of a waiting job', values: await memoryOf('waiting', folder, streams) },
  ];
}

async function memoryOf(kind: StreamKind, folder: string, streams: number): Promise<Values> {
  await using upstream = await startProcess('relay-upstream', UPSTREAM, undefined);
  await using relay = await startRelay(kind, folder, `${kind}-memory`, upstream.value, TIGHT);
  const held = { kind, port: relay.value, everyMs: SLOW_MS };
  // The first streams load modules and caches that must not count for the measured ones.
  await using _first = await startProcess('relay-first', HOLD, { ...held, streams: FIRST_STREAMS });
  const before = await relay.memory();
  await using _all = await startProcess('relay-hold', HOLD, { ...held, streams });
  await sleep(SETTLE_MS);
  const after = await relay.memory();
  const perStream = (key: keyof NodeJS.MemoryUsage): number => (after[key] - before[key]) / streams / 1024;
  return {
    streams,
    heapKib: perStream('heapUsed'),
    externalKib: perStream('external'),
    rssKib: perStream('rss'),
  };
}

function startRelay(
  kind: StreamKind,
  folder: string,
  name: string,
  upstream: number,
  flags: readonly string[],
): Promise<BackgroundProcess<number>> {
  return kind === 'pipe'
    ? startProcess(`relay-${name}`, PIPE, { upstream }, flags)
    : startProcess(`relay-${name}`, ORCHD, { folder: join(folder, name), upstream }, flags);
}
