/** A gateway with one seat that is a chat page in a real Chromium. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { logIn } from '../../src/daemons/gateway/drivers/browser/login.ts';
import { Profile } from '../../src/daemons/gateway/drivers/browser/profile.ts';
import { driverOf } from '../../src/daemons/gateway/drivers/registry.ts';
import { Gateway } from '../../src/daemons/gateway/gateway.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import type { PageOrder } from '../../src/model/gateway-wire.ts';
import { ChatPage, SELECTORS } from '../fakes/chat-page.ts';
import { needDebian } from '../fakes/debian.ts';
import { seatOrder } from '../fakes/fake-driver.ts';
import { until } from './cli-process.ts';
import { tempFolder } from './flow-kit.ts';
import { Events, Line, type Said, type WorkerEvent } from './worker-kit.ts';

const env = realEnv();

export class BrowserSeat {
  readonly chat: ChatPage;
  readonly folder: string;
  /** Everything that the gateway has logged. */
  log = '';
  readonly #page: PageOrder;
  #gateway: Gateway | undefined;
  #count = 0;

  private constructor(chat: ChatPage, folder: string, page: PageOrder) {
    this.chat = chat;
    this.folder = folder;
    this.#page = page;
  }

  static async open(t: TestContext, differences: Partial<PageOrder> = {}): Promise<BrowserSeat> {
    const chat = await new ChatPage().listen();
    t.after(() => chat.close());
    const seat = new BrowserSeat(chat, tempFolder(t), {
      selectors: SELECTORS,
      executable: await needDebian('chromium'),
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
      headless: true,
      stream: true,
      load_timeout_ms: 10_000,
      answer_timeout_ms: 60_000,
      settle_ms: 200,
      ...differences,
    });
    t.after(() => seat.stop());
    await seat.start();
    return seat;
  }

  get profile(): string {
    return join(this.folder, 'profiles', 's');
  }

  get line(): Line {
    return new Line(this.#gateway?.url ?? '');
  }

  async start(): Promise<void> {
    const { folder } = this;
    const write = (line: string): void => {
      this.log += line;
    };
    this.#gateway = new Gateway({
      env,
      logger: createLogger({ write, now: () => Date.now(), level: 'debug' }),
      folder,
      host: '127.0.0.1',
      port: 0,
      drivers: (order) => driverOf(order, { env, folder }),
    });
    await this.#gateway.start();
    this.follow();
  }

  /** Tells the gateway about its seat, as a brain does at its start and at each reload. */
  follow(differences: Partial<PageOrder> = {}): void {
    const page = { ...this.#page, ...differences };
    const seats = [seatOrder('s', { driver: 'browser', url: this.chat.url, page })];
    this.#gateway?.follow({ seats, reservation_ms: 1000, timeout_ms: 600_000 });
  }

  async stop(): Promise<void> {
    await this.#gateway?.stop();
    await until(() => chromiumPids(this.profile).length === 0);
  }

  /** Begins a request. */
  async ask(payload: object | string, fields: object = {}): Promise<Events> {
    const body = { backend: 's', payload, idempotency_token: `r-${this.#count++}`, ...fields };
    const accept = { accept: 'text/event-stream' };
    return new Events(await this.line.fetch('POST', '/submit_immediate', body, accept));
  }

  /** Begins a request, and lets the page answer it at once. */
  async askAndAnswer(payload: object | string, answer: string, fields: object = {}): Promise<WorkerEvent[]> {
    const sent = this.chat.prompts.length + 1;
    const events = await this.ask(payload, fields);
    await this.chat.sent(sent);
    this.chat.step({ add: answer });
    this.chat.step({ end: true });
    return events.rest();
  }

  busy = async (): Promise<Said['body']> => (await this.line.ask('GET', '/backend/s/busy')).body;

  /** What `orchd gateway login` does, without a window: the page notices by itself that the person has logged in. */
  logIn(signal = new AbortController().signal, onOpen = (): void => undefined): ReturnType<typeof logIn> {
    const { PATH: path = '' } = process.env;
    const profile = new Profile(env, this.profile);
    return logIn({ env, profile, url: this.chat.url, page: this.#page, path, signal, onOpen });
  }

  /** Kills Chromium with all its processes. */
  async killChromium(): Promise<void> {
    const pids = chromiumPids(this.profile);
    for (const pid of pids) process.kill(pid, 'SIGKILL');
  }
}

/** The main processes of the Chromiums that use a profile. */
export const chromiumPids = (profile: string): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const words = commandLine(pid);
      return (
        words.includes(`--user-data-dir=${profile}`) && !words.some((word) => word.startsWith('--type='))
      );
    });

function commandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}
