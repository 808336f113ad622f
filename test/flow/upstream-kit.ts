/** Real servers with upstreams: started as a user would, killed, and called over HTTP. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { ModelServer } from '../fakes/model-server.ts';
import { type ServerOptions, type ServerProcess, serve } from './server-process.ts';

/** Short intervals: how long they are is no matter of these tests. */
export const POLL_SEC = 0.05;

export async function modelServer(t: TestContext, models: ModelServer['models']): Promise<ModelServer> {
  const server = await new ModelServer(models).start();
  t.after(() => server.kill());
  return server;
}

/** The servers that a test has started on a folder. */
const serversOf = new Map<string, ServerProcess[]>();

/** A folder for servers with upstreams. At the end of the test these are killed first, then what they have started. */
export function upstreamFolder(t: Pick<TestContext, 'after'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-upstream-'));
  const data = join(folder, 'data');
  serversOf.set(data, []);
  t.after(async () => {
    for (const server of serversOf.get(data) ?? []) await server.kill();
    for (const pid of executorsOf(data)) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has ended by itself.
      }
    }
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  });
  return data;
}

/** Pids of the executors that have run for a data folder. */
export function executorsOf(data: string): number[] {
  const folder = join(data, 'upstreams', 'executors');
  if (!existsSync(folder)) return [];
  return readdirSync(folder).flatMap((name) => {
    const file = join(folder, name, 'address.json');
    return existsSync(file) ? [JSON.parse(readFileSync(file, 'utf8')).process.pid as number] : [];
  });
}

export interface Upstreamed extends ServerProcess {
  readonly data: string;
  readonly api: Api;
}

/** A server on a folder of `upstreamFolder`. */
export async function serveAt(t: TestContext, options: ServerOptions): Promise<Upstreamed> {
  const server = await serve(t, options);
  serversOf.get(options.data)?.push(server);
  return { ...server, data: options.data, api: new Api(server.url) };
}

export type UpstreamEntry = { readonly url: string } & Record<string, unknown>;

/** A server with these upstreams in its configuration. */
export async function serveUpstreams(
  t: TestContext,
  upstreams: readonly UpstreamEntry[],
  options: Partial<ServerOptions> & { readonly settings?: object } = {},
): Promise<Upstreamed> {
  const { data = upstreamFolder(t), settings = {}, ...rest } = options;
  const config = {
    orchestrator: {
      recovery: { sweep_interval_ms: 100, holder_lost_ms: 1000 },
      retry: { base_delay_ms: 50 },
    },
    ...settings,
    backends: { upstreams: upstreams.map((each) => ({ poll_sec: POLL_SEC, ...each })) },
  };
  return serveAt(t, { data, config, ...rest });
}

export interface StreamRead {
  /** Texts of the token events, and the events themselves by name. */
  readonly text: string;
  readonly events: readonly string[];
  readonly lastId: string;
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into what came
type Json = any;

export class Api {
  readonly url: string;

  constructor(url: string) {
    this.url = url;
  }

  async get(path: string): Promise<Json> {
    return (await fetch(this.url + path)).json();
  }

  async post(path: string, body: object): Promise<{ status: number; body: Json }> {
    const reply = await fetch(this.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { status: reply.status, body: await reply.json() };
  }

  async submit(job: object): Promise<string> {
    const { body } = await this.post('/v2/tasks', job);
    if (body.job_id === undefined) throw new Error(JSON.stringify(body));
    return body.job_id;
  }

  job(id: string): Promise<Json> {
    return this.get(`/v2/tasks/${id}`);
  }

  async until(id: string, holds: (job: Json) => boolean): Promise<Json> {
    for (;;) {
      const job = await this.job(id);
      if (holds(job)) return job;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  ended(id: string): Promise<Json> {
    return this.until(id, ({ state }) => ['succeeded', 'dead', 'cancelled'].includes(state));
  }

  async models(): Promise<string[]> {
    const { data } = await this.get('/v1/models');
    return data.map(({ id }: { id: string }) => id);
  }

  async untilModels(...wanted: string[]): Promise<void> {
    for (;;) {
      if (JSON.stringify((await this.models()).sort()) === JSON.stringify(wanted.sort())) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** The backend of an upstream, as the capabilities show it. */
  async backend(name?: string): Promise<Json> {
    const { backends } = await this.get('/v2/meta/capabilities');
    const ofUpstreams = backends.filter(({ kind }: Json) => kind === 'upstream');
    return name === undefined ? ofUpstreams[0] : ofUpstreams.find((each: Json) => each.name === name);
  }

  async untilBackend(holds: (backend: Json) => boolean): Promise<Json> {
    for (;;) {
      const backend = await this.backend();
      if (backend && holds(backend)) return backend;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Reads the events of a job from `after`, until `enough` says so or the stream ends or breaks. */
  async read(id: string, after = '', enough: (text: string) => boolean = () => false): Promise<StreamRead> {
    const headers = after === '' ? {} : { 'last-event-id': after };
    const reply = await fetch(`${this.url}/v2/tasks/${id}/events`, { headers });
    const events: string[] = [];
    let [text, lastId, buffer] = ['', after, ''];
    try {
      for await (const bytes of reply.body ?? []) {
        buffer += Buffer.from(bytes).toString();
        for (let end = buffer.indexOf('\n\n'); end >= 0; end = buffer.indexOf('\n\n')) {
          const block = buffer.slice(0, end);
          buffer = buffer.slice(end + 2);
          const name = /^event: (.*)$/m.exec(block)?.[1];
          if (name === undefined) continue;
          events.push(name);
          lastId = /^id: (.*)$/m.exec(block)?.[1] ?? lastId;
          if (name === 'token') text += JSON.parse(/^data: (.*)$/m.exec(block)?.[1] ?? '{}').t;
          if (enough(text)) return { text, events, lastId };
        }
      }
    } catch {
      // The server was killed.
    }
    return { text, events, lastId };
  }
}
