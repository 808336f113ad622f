/** The same GET again and again over a few connections, from a process of its own. */
import type { Values } from '../kit/bench.ts';
import { steady } from '../kit/steady.ts';
import { Connection } from './connection.ts';

export interface GetLoad {
  readonly folder: string;
  readonly port: number;
  readonly pid: number;
  readonly path: string;
  readonly connections: number;
  readonly warmMs: number;
  readonly measureMs: number;
}

export async function measure(load: GetLoad): Promise<Values> {
  const { port, pid, path, connections } = load;
  const request = Buffer.from(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`);
  const free = await Promise.all(Array.from({ length: connections }, () => Connection.open(port)));
  const get = async (): Promise<void> => {
    const connection = free.pop() as Connection;
    const answer = await connection.request(request);
    if (!answer.subarray(0, 15).includes(' 200 ')) throw new Error(answer.toString('latin1', 0, 500));
    free.push(connection);
  };
  const values = await steady({ ...load, inFlight: connections, servers: [pid] }, get);
  const { perSec, serverUs, p50Ms, p99Ms, otherCores } = values as Record<string, number>;
  return { perSec, serverUs, p50Ms, p99Ms, otherCores };
}
