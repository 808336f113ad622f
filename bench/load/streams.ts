/** Clients of a relay, in a process of their own: they read streams to their end, or hold them open. */
import { type IncomingMessage, request } from 'node:http';
import type { Values } from '../kit/bench.ts';
import { Meter } from '../kit/meter.ts';
import { inFlight, sleep } from '../kit/numbers.ts';
import { MODEL } from '../systems/pool-stub.ts';
import { newToken, PROTOCOLS, type ProtocolName, type StreamProtocol } from './protocols.ts';
import { TokenCount } from './token-count.ts';

/** The number of streams that are opened concurrently. */
const OPENING = 16;

/**
 * `pipe`: a stream of the bare pipe. `orchd`: the events of an inference. `waiting`: the events of a job that never
 * starts. Otherwise a stream by that protocol.
 */
export type StreamKind = 'pipe' | 'orchd' | 'waiting' | ProtocolName;

export interface StreamsLoad {
  readonly port: number;
  readonly kind: StreamKind;
  readonly streams: number;
  /** The time between two tokens of a stream; 0 is as fast as possible. */
  readonly everyMs: number;
  /** Headers of every request of a protocol. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface RelayLoad extends StreamsLoad {
  readonly folder: string;
  readonly relayPid: number;
  readonly upstreamPort: number;
  readonly upstreamPid: number;
  readonly warmMs: number;
  readonly measureMs: number;
}

/** Counts the tokens through the relay, and the relay's CPU time, in a window in which all streams run. */
export async function measure(load: RelayLoad): Promise<Values> {
  const counts: TokenCount[] = [];
  const ends: Promise<void>[] = [];
  await inFlight(load.streams, OPENING, async () => {
    const count = new TokenCount(protocolOf(load)?.mark);
    counts.push(count);
    ends.push(readToEnd(await open(load), count));
  });
  if (load.everyMs === 0) await control(load.upstreamPort, '/begin');
  const sum = (key: 'seen' | 'next' | 'missing'): number =>
    counts.reduce((total, count) => total + count[key], 0);
  await sleep(load.warmMs);
  const meter = new Meter(load.folder, [load.relayPid], [load.upstreamPid]);
  const [seenBefore, sentBefore] = [sum('seen'), sum('next')];
  await sleep(load.measureMs);
  const reading = meter.read();
  const tokens = sum('seen') - seenBefore;
  const sent = sum('next') - sentBefore;
  await control(load.upstreamPort, '/end');
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

/** Opens streams and holds them open; returns once each has sent something. */
export async function start(load: StreamsLoad): Promise<void> {
  await inFlight(load.streams, OPENING, async () => {
    const stream = await open(load);
    await new Promise((resolve) => stream.once('data', resolve));
    stream.resume();
  });
}

const protocolOf = ({ kind }: StreamsLoad): StreamProtocol | undefined =>
  kind in PROTOCOLS ? PROTOCOLS[kind as ProtocolName] : undefined;

async function open(load: StreamsLoad): Promise<IncomingMessage> {
  const { kind, port, everyMs } = load;
  const path = `/?everyMs=${everyMs}`;
  const protocol = protocolOf(load);
  if (protocol) {
    const token = newToken();
    const body = JSON.stringify(protocol.body(path, token));
    return send(port, protocol.path, body, { ...protocol.headers(token), ...load.headers });
  }
  if (kind === 'pipe') return send(port, path);
  const job =
    kind === 'orchd'
      ? { type: 'inference', model: MODEL, prompt: path }
      : { type: 'waiting', payload: {}, wait_for_backend: true };
  return send(port, `/v2/tasks/${await submit(port, job)}/events`);
}

async function submit(port: number, job: object): Promise<string> {
  const answer = await send(port, '/v2/tasks', JSON.stringify(job));
  let text = '';
  for await (const piece of answer) text += piece;
  return (JSON.parse(text) as { job_id: string }).job_id;
}

/** Sends a request on a new connection, since the other side may close a reused one at that moment. */
function send(
  port: number,
  path: string,
  body?: string,
  headers: Readonly<Record<string, string>> = body === undefined
    ? {}
    : { 'content-type': 'application/json' },
): Promise<IncomingMessage> {
  const method = body === undefined ? 'GET' : 'POST';
  return new Promise((resolve, reject) => {
    const outgoing = request({ agent: false, host: '127.0.0.1', port, path, method, headers }, (answer) => {
      const { statusCode = 0 } = answer;
      if (statusCode < 300) resolve(answer);
      else reject(new Error(`${method} ${path}: ${statusCode}`));
    });
    outgoing.once('error', reject);
    outgoing.end(body);
  });
}

async function control(port: number, path: string): Promise<void> {
  (await send(port, path)).resume();
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
