/** A real server whose configuration file a test changes while it runs, with gateways in processes of their own. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { BackendView } from '../../src/model/http/meta.ts';
import type { ModuleView } from '../../src/model/http/modules.ts';
import type { ReloadReport } from '../../src/model/http/reload.ts';
import type { ScheduleView } from '../../src/model/http/schedules.ts';
import type { TagProvider } from '../fakes/tag-provider.ts';
import { isDatabase } from './flow-kit.ts';
import { GatewayProcess, seatOf, tagProvider } from './gateway-process.ts';
import { type ServerProcess, serve, testFolder } from './server-process.ts';

const PATIENCE_MS = 60_000;
const RESERVATION_MS = 3_600_000;

/** What is shown over HTTP of everything that a reload can change. */
export interface Shown {
  readonly backends: readonly string[];
  readonly modules: readonly string[];
  readonly schedules: readonly (readonly [name: string, everySec: number | undefined, setAt: number])[];
}

export interface Refused {
  readonly status: number;
  readonly error: { readonly code: string; readonly message: string };
}

/** A gateway with one seat `s`, whose model is named by the test, and its provider. */
export async function gatewayWith(
  t: TestContext,
  model: string,
): Promise<{ readonly gateway: GatewayProcess; readonly provider: TagProvider }> {
  const provider = await tagProvider(t);
  const gateway = await GatewayProcess.start(t);
  await gateway.follow([seatOf(provider, { models: { [model]: model } })], RESERVATION_MS);
  return { gateway, provider };
}

export class ReloadSite {
  readonly folder: string;
  readonly file: string;
  readonly #t: TestContext;
  readonly #store: object;
  server!: ServerProcess;

  /** `place`: a folder or the URL of a database, as onStores gives it. */
  constructor(t: TestContext, place: string) {
    this.#t = t;
    this.folder = testFolder(t);
    this.file = join(this.folder, 'config.yaml');
    this.#store = isDatabase(place) ? { store: 'mariadb', mariadb: { url: place } } : {};
  }

  /** Every configuration of the site: commands `echo`, and a sweep that is often enough for tests. */
  config(more: object = {}): object {
    const { backends = {}, orchestrator = {}, ...rest } = more as Record<string, object>;
    return {
      ...this.#store,
      orchestrator: { recovery: { holder_lost_ms: 2000, sweep_interval_ms: 100 }, ...orchestrator },
      backends: { commands: [{ name: 'echo', slots: 4, types: { echo: { argv: ['cat'] } } }], ...backends },
      ...rest,
    };
  }

  async up(
    more: object = {},
    how: { readonly args?: readonly string[]; readonly env?: Record<string, string> } = {},
  ) {
    const config = this.config(more);
    this.server = await serve(this.#t, {
      data: join(this.folder, 'data'),
      config,
      configFile: this.file,
      ...how,
    });
    await this.until(async () => (await this.get<{ ready: boolean }>('/ready')).ready);
  }

  write(more: object): void {
    writeFileSync(this.file, JSON.stringify(this.config(more), null, 1));
  }

  module(name: string): string {
    const file = join(this.folder, `${name}.mjs`);
    writeFileSync(file, `export const scan = () => [{ key: 'only', type: 'echo', payload: '${name}' }];`);
    return file;
  }

  async get<T>(path: string): Promise<T> {
    return (await fetch(this.server.url + path)).json() as Promise<T>;
  }

  async post(): Promise<ReloadReport> {
    const response = await fetch(`${this.server.url}/control/reload`, { method: 'POST' });
    const body = await response.json();
    assert.equal(response.status, 200, JSON.stringify(body));
    return body as ReloadReport;
  }

  async refused(): Promise<Refused> {
    const response = await fetch(`${this.server.url}/control/reload`, { method: 'POST' });
    return { status: response.status, ...((await response.json()) as Pick<Refused, 'error'>) };
  }

  async reports(): Promise<readonly ReloadReport[]> {
    return (await this.get<{ reports: ReloadReport[] }>('/control/reload')).reports;
  }

  /** Sends the signal, and waits for the report of the reload. */
  async hangUp(): Promise<ReloadReport> {
    const [before] = await this.reports();
    this.server.child.kill('SIGHUP');
    await this.until(async () => (await this.reports())[0]?.at !== before?.at);
    return (await this.reports())[0] as ReloadReport;
  }

  async shown(): Promise<Shown> {
    const { backends } = await this.get<{ backends: BackendView[] }>('/v2/meta/capabilities');
    const { modules } = await this.get<{ modules: ModuleView[] }>('/v2/modules');
    const { schedules } = await this.get<{ schedules: ScheduleView[] }>('/v2/schedules');
    return {
      backends: backends.map(({ name, models }) => `${name} ${(models ?? []).join()}`).sort(),
      modules: modules.map(({ name }) => name),
      schedules: schedules.map(({ schedule, every_sec, set_at }) => [schedule, every_sec, set_at]),
    };
  }

  async submit(job_id: string, more: object): Promise<void> {
    const response = await fetch(`${this.server.url}/v2/tasks`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ job_id, ...more }),
    });
    assert.equal(response.status, 202, await response.text());
  }

  async succeeded(id: string): Promise<{ readonly attempts: readonly unknown[] }> {
    type View = { readonly state: string; readonly attempts: readonly unknown[] };
    await this.until(async () => (await this.get<View>(`/v2/tasks/${id}`)).state === 'succeeded');
    return this.get<View>(`/v2/tasks/${id}`);
  }

  async until(holds: () => boolean | Promise<boolean>): Promise<void> {
    const late = performance.now() + PATIENCE_MS;
    while (!(await Promise.resolve(holds()).catch(() => false))) {
      if (performance.now() > late) assert.fail('it waits for ever');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
