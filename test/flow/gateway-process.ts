/** A gateway in a process of its own, and a caller's side of the line. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { SeatOrder } from '../../src/model/gateway-wire.ts';
import { seatOrder } from '../fakes/fake-driver.ts';
import { TagProvider } from '../fakes/tag-provider.ts';
import { tempFolder } from './flow-kit.ts';
import { Events, Line, type Said } from './worker-kit.ts';

const MAIN = join(import.meta.dirname, '..', 'fakes', 'gateway-process-main.ts');

export interface GatewayProcessOptions {
  readonly folder?: string;
  readonly crashAt?: string | undefined;
  readonly token?: string;
  /** Any by default. */
  readonly port?: string;
}

export class GatewayProcess {
  readonly child: ChildProcess;
  readonly folder: string;
  readonly url: string;
  readonly line: Line;
  readonly gone: Promise<unknown>;

  private constructor(child: ChildProcess, folder: string, url: string) {
    this.child = child;
    this.folder = folder;
    this.url = url;
    this.line = new Line(url);
    this.gone = once(child, 'exit');
  }

  static async start(t: TestContext, options: GatewayProcessOptions = {}): Promise<GatewayProcess> {
    const { folder = tempFolder(t), crashAt, token, port = '0' } = options;
    const child = spawn(process.execPath, [MAIN, folder, port], {
      env: {
        ...process.env,
        ...(crashAt !== undefined && { CRASH_AT: crashAt }),
        ...(token !== undefined && { GATEWAY_TOKEN: token }),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => child.kill('SIGKILL'));
    let said = '';
    for await (const piece of child.stdout) {
      said += piece;
      const url = /listens on (\S+)\n/.exec(said)?.[1];
      if (url !== undefined) return new GatewayProcess(child, folder, url);
    }
    throw new Error('the gateway has ended');
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.gone;
  }

  /** Tells the gateway about its seats. */
  async follow(seats: readonly SeatOrder[], reservationMs = 60_000): Promise<void> {
    const body = { seats, reservation_ms: reservationMs, timeout_ms: 600_000 };
    const { status } = await this.line.ask('PUT', '/seats', body);
    if (status !== 204) throw new Error(`PUT /seats: ${status}`);
  }

  submit(token: string, fields: object = {}, line = this.line): Promise<Said> {
    return line.ask('POST', '/submit_immediate', submission(token, fields));
  }

  async stream(token: string, fields: object = {}): Promise<Events> {
    const accept = { accept: 'text/event-stream' };
    return new Events(await this.line.fetch('POST', '/submit_immediate', submission(token, fields), accept));
  }

  state = (token: string): Promise<Said> => this.line.ask('GET', `/requests/${encodeURIComponent(token)}`);

  /** Settles with the last event of a request. */
  async ended(token: string, from = 0): Promise<{ n: number; event: string; data: Said['body'] }> {
    const path = `/requests/${encodeURIComponent(token)}/events?from=${from}`;
    const events = await new Events(await this.line.fetch('GET', path)).rest();
    return events.at(-1) as Awaited<ReturnType<GatewayProcess['ended']>>;
  }

  /** Looks at the state of the seats again and again, as it changes, until it is as it should be. */
  async untilSeats(isSo: (state: Said['body']) => boolean): Promise<Said['body']> {
    for (let after = ''; ; ) {
      const { body } = await this.line.ask('GET', `/seats?wait_ms=30000${after}`);
      if (isSo(body)) return body;
      after = `&after=${body.version}`;
    }
  }
}

const submission = (token: string, fields: object): object => ({
  backend: 's',
  payload: { prompt: token },
  idempotency_token: token,
  ...fields,
});

export async function tagProvider(t: TestContext): Promise<TagProvider> {
  const provider = await new TagProvider().start();
  t.after(() => provider.stop());
  return provider;
}

export const seatOf = (provider: TagProvider, differences: Partial<SeatOrder> = {}): SeatOrder =>
  seatOrder('s', { url: provider.url, ...differences });
