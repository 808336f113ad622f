/** Clients of a relay, in a process of their own: they read every stream to its end, or hold it open. */
import { type IncomingMessage, request } from 'node:http';
import type { Values } from '../kit/bench.ts';
import { Meter } from '../kit/meter.ts';
import { inFlight, sleep } from '../kit/numbers.ts';
import { MODEL } from '../systems/pool-stub.ts';
import { TokenCount } from './token-count.ts';

/** Streams that are being opened at once. */
const OPENING = 16;

/** The pipe has the stream at once; ours is asked for an inference, or for a job that waits for ever, and followed. */
export type StreamKind = 'pipe' | 'orchd' | 'waiting';

export interface StreamsLoad {
  readonly port: number;
  readonly kind: StreamKind;
  readonly streams: number;
  /** Between the tokens of a stream; 0 is as fast as can be. */
  readonly everyMs: number;
}

export interface RelayLoad extends StreamsLoad {
  readonly folder: string;
  readonly relayPid: number;
  readonly upstreamPort: number;
  readonly upstreamPid: number;
  readonly warmMs: number;
  readonly measureMs: number;
}

/** Tokens through the relay in a window in which all streams run, and what they cost it. */
export async function measure(load: RelayLoad): Promise<Values> {
  const counts: TokenCount[] = [];
  const ends: Promise<void>[] = [];
  await inFlight(load.streams, OPENING, async () => {
    const count = new TokenCount();
    counts.push(count);
    ends.push(readToEnd(await open(load), count));
  });
  if (load.everyMs === 0) await tell(load.upstreamPort, '/begin');
  const sum = (key: 'seen' | 'next' | 'missing'): number =>
    counts.reduce((total, count) => total + count[key], 0);
  await sleep(load.warmMs);
  const meter = new Meter(load.folder, [load.relayPid], [load.upstreamPid]);
  const [seenBefore, sentBefore] = [sum('seen'), sum('next')];
  await sleep(load.measureMs);
  const reading = meter.read();
  const tokens = sum('seen') - seenBefore;
  const sent = sum('next') - sentBefore;
  await tell(load.upstreamPort, '/end');
  await Promise.all(ends);
  return {
    perSec: tokens / reading.seconds,
    perCpuSec: tokens / (reading.serversUs / 1e6),
    relayUs: tokens === 0 ? undefined : reading.serversUs / tokens,
    relayCores: reading.serversUs / 1e6 / reading.seconds,
    sentPerSec: sent / reading.seconds,
    missing: sum('missing'),
    otherCores: reading.otherCores,
  };
}

/** Opens streams and holds them; returns when each of them has said something. */
export async function start(load: StreamsLoad): Promise<void> {
  await inFlight(load.streams, OPENING, async () => {
    const stream = await open(load);
    await new Promise((resolve) => stream.once('data', resolve));
    stream.resume();
  });
}

async function open({ kind, port, everyMs }: StreamsLoad): Promise<IncomingMessage> {
  const path = `/?everyMs=${everyMs}`;
  if (kind === 'pipe') return ask(port, path);
  const job =
    kind === 'orchd' ? { type: 'inference', model: MODEL, prompt: path } : { type: 'waiting', payload: {} };
  return ask(port, `/v2/tasks/${await submit(port, job)}/events`);
}

async function submit(port: number, job: object): Promise<string> {
  const answer = await ask(port, '/v2/tasks', JSON.stringify(job));
  let text = '';
  for await (const piece of answer) text += piece;
  return (JSON.parse(text) as { job_id: string }).job_id;
}

/** On a new connection each time: a kept one may be closed by the other side just then. */
function ask(port: number, path: string, body?: string): Promise<IncomingMessage> {
  const method = body === undefined ? 'GET' : 'POST';
  const headers = body === undefined ? {} : { 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const asked = request({ agent: false, host: '127.0.0.1', port, path, method, headers }, (answer) => {
      const { statusCode = 0 } = answer;
      if (statusCode < 300) resolve(answer);
      else reject(new Error(`${method} ${path}: ${statusCode}`));
    });
    asked.once('error', reject);
    asked.end(body);
  });
}

async function tell(port: number, path: string): Promise<void> {
  (await ask(port, path)).resume();
}

function readToEnd(stream: IncomingMessage, count: TokenCount): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.on('error', reject);
    stream.on('data', (piece: Buffer) => count.push(piece));
    stream.on('end', () => {
      try {
        resolve(count.end());
      } catch (error) {
        reject(error);
      }
    });
  });
}
