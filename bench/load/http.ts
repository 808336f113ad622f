/** Submits over HTTP from a process of its own. Request bytes and sockets are reused, so that the client costs little. */
import { BODY, type Values } from '../kit/bench.ts';
import { steady } from '../kit/steady.ts';
import { Connection } from './connection.ts';

/** An answer with the form and size of orchd's answer to one job. */
export const ANSWER = {
  job_id: '01a1ddeea51db881134d534e599284f8',
  status: 'queued',
  queue_position: 100_000,
  events_url: '/v2/tasks/01a1ddeea51db881134d534e599284f8/events',
};

/** A job that nobody runs: only its submit is measured. */
const JOB = { type: 'waiting', payload: { body: BODY }, wait_for_backend: true };

export interface HttpLoad {
  readonly folder: string;
  readonly port: number;
  readonly pid: number;
  readonly connections: number;
  /** 1 sends the job itself; a larger number sends an array. */
  readonly jobsPerCall: number;
  readonly warmMs: number;
  readonly measureMs: number;
}

/** All numbers are per job, except the latencies, which are per call. */
export async function measure(load: HttpLoad): Promise<Values> {
  const { port, pid, jobsPerCall, connections } = load;
  const request = requestOf(port, jobsPerCall);
  const opening = Array.from({ length: connections }, () => Connection.open(port));
  const free = await Promise.all(opening);
  const submit = async (): Promise<void> => {
    const connection = free.pop() as Connection;
    const answer = await connection.request(request);
    if (countIds(answer) !== jobsPerCall) throw new Error(`refused: ${answer.toString('latin1', 0, 500)}`);
    free.push(connection);
  };
  const values = await steady({ ...load, inFlight: connections, servers: [pid] }, submit);
  const { perSec = 0, serverUs = 0, flushes, p50Ms, p99Ms, otherCores } = values as Record<string, number>;
  return {
    perSec: perSec * jobsPerCall,
    serverUs: serverUs / jobsPerCall,
    flushes: flushes === undefined ? undefined : flushes / jobsPerCall,
    p50Ms,
    p99Ms,
    otherCores,
  };
}

function requestOf(port: number, jobs: number): Buffer {
  const body = JSON.stringify(jobs === 1 ? JOB : Array.from({ length: jobs }, () => JOB));
  const head = [
    'POST /v2/tasks HTTP/1.1',
    `host: 127.0.0.1:${port}`,
    'content-type: application/json',
    `content-length: ${body.length}`,
  ];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
}

const ID = Buffer.from('"job_id":');

/** Counts the admitted jobs in an answer: only these have a job_id. */
function countIds(answer: Buffer): number {
  let count = 0;
  for (let at = answer.indexOf(ID); at >= 0; at = answer.indexOf(ID, at + ID.length)) count++;
  return count;
}
