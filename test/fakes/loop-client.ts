/** Sends requests from a thread of its own, so that the turns of the server's loop hold no work of the client. */
import { request } from 'node:http';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { bodyText, type HostileBody } from './hostile-json.ts';

export interface LoopRequest {
  readonly port: number;
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: HostileBody | string;
  readonly giveUpMs?: number;
  /** It is sent so many times at once; the answer is the first that is not a success, if there is one. */
  readonly copies?: number;
}

/** By default an answer that has not come after this time is not waited for: the job behind it runs for ever. */
const GIVE_UP_MS = 1500;

export class LoopClient {
  readonly #worker = new Worker(new URL(import.meta.url), { execArgv: [] });

  /** The status of the answer, and the first 300 characters of its body; 0 where none came. */
  send(asked: LoopRequest): Promise<{ readonly status: number; readonly text: string }> {
    return new Promise((resolve, reject) => {
      this.#worker.once('error', reject);
      this.#worker.once('message', (answer) => {
        this.#worker.off('error', reject);
        resolve(answer);
      });
      this.#worker.postMessage(asked);
    });
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }
}

async function exchangeAll(asked: LoopRequest): Promise<object> {
  const sending = Array.from({ length: asked.copies ?? 1 }, () => exchange(asked));
  const answers = await Promise.all(sending);
  return answers.find(({ status }) => status < 200 || status >= 300) ?? (answers[0] as object);
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

function exchange({ port, method, path, headers = {}, body, giveUpMs }: LoopRequest): Promise<Answer> {
  const text = typeof body === 'object' ? bodyText(body) : body;
  return new Promise((resolve) => {
    const options = { host: '127.0.0.1', port, path, method, agent: false };
    const length = Buffer.byteLength(text ?? '');
    const given =
      text === undefined
        ? headers
        : { 'content-type': 'application/json', 'content-length': String(length), ...headers };
    const sent = request({ ...options, headers: given }, (response) => {
      let start = '';
      response.on('data', (piece: Buffer) => {
        if (start.length < 300) start += piece.toString('latin1', 0, 300);
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text: start.slice(0, 300) }));
    });
    sent.on('error', () => resolve({ status: 0, text: '' }));
    sent.on('finish', () => sent.setTimeout(giveUpMs ?? GIVE_UP_MS, () => sent.destroy()));
    sent.end(text);
  });
}

if (!isMainThread) {
  parentPort?.on('message', (asked: LoopRequest) => {
    void exchangeAll(asked).then((answer) => parentPort?.postMessage(answer));
  });
}
