/** Modules with real processes on a brain in this process, in memory unless a test brings another one. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { Modules } from '../../src/adapters/modules/modules.ts';
import { moduleSettings } from '../../src/adapters/modules/settings.ts';
import { FunctionBackend } from '../../src/backends/local/functions.ts';
import type { ModuleConfig } from '../../src/config/modules.ts';
import type { Backend } from '../../src/core/ports/backend.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import type { ModuleView } from '../../src/model/http/modules.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { Medium } from '../../src/stores/memory/memory.ts';
import { ModuleTally } from '../../src/telemetry/module-metrics.ts';
import { memoryBrain } from './memory-brain.ts';

const PATIENCE_MS = 60_000;
const POLL_MS = 20;

/** Asks until the answer is there; nothing announces what processes do. */
export async function until<T>(
  look: () => T | undefined | false | Promise<T | undefined | false>,
  moreMs = 0,
): Promise<T> {
  const late = Date.now() + PATIENCE_MS + moreMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > late) throw new Error('it does not come');
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

export class ModuleSite {
  readonly folder: string;
  readonly medium = new Medium();
  readonly tally = new ModuleTally();
  readonly #t: TestContext;
  /** The configuration of the brain, as YAML text. */
  config = '';
  /** Starts the brain. */
  brain = async (backends: readonly Backend[]): Promise<Orchestrator> => {
    const { orchestrator } = await memoryBrain(this.#t, { backends, config: this.config }, this.medium);
    return orchestrator;
  };
  /** That of the modules. */
  env = realEnv();
  orchestrator!: Orchestrator;
  modules!: Modules;

  constructor(t: TestContext) {
    this.#t = t;
    this.folder = mkdtempSync(join(tmpdir(), 'orchd-modules-'));
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  /** Writes the source of a file module and returns its entry in the configuration. */
  file(name: string, source: string, config: Partial<ModuleConfig> = {}): ModuleConfig {
    const path = this.path(`${name}.mjs`);
    writeFileSync(path, source);
    return { name, file: path, interval_sec: 3600, timeout_sec: 60, ...config };
  }

  /** A command module that runs this shell script. */
  shell(name: string, script: string, config: Partial<ModuleConfig> = {}): ModuleConfig {
    return { name, argv: ['sh', '-c', script], interval_sec: 3600, timeout_sec: 60, ...config };
  }

  /** A brain whose jobs of type `work` answer with their payload, and its modules. */
  async start(...configs: readonly ModuleConfig[]): Promise<void> {
    const { env } = this;
    const types = { work: async (payload: unknown) => ({ of: payload }) };
    const backends = [new FunctionBackend(env, { name: 'local', slots: 100, types })];
    this.orchestrator = await this.brain(backends);
    this.modules = new Modules(
      {
        env,
        logger: createLogger({ write: () => undefined, now: () => 0 }),
        orchestrator: this.orchestrator,
        observer: this.tally,
        folder: this.folder,
      },
      moduleSettings(configs),
    );
    await this.modules.start();
  }

  async stop(): Promise<void> {
    await this.modules?.stop();
    await this.orchestrator?.stop();
  }

  view(name: string): ModuleView {
    const found = this.modules.views().find((view) => view.name === name);
    if (!found) throw new Error(`no module ${name}`);
    return found;
  }

  /** The module once it has ended so many scans. */
  scanned(name: string, scans = 1, moreMs = 0): Promise<ModuleView> {
    return until(() => {
      const view = this.view(name);
      return view.scans >= scans && view.state !== 'scanning' && view;
    }, moreMs);
  }

  /** The ids of all jobs. */
  async jobs(): Promise<readonly string[]> {
    const { jobs } = await this.orchestrator.list({ limit: 1000 });
    return jobs.map(({ job_id }) => job_id);
  }
}

export function moduleSite(t: TestContext): ModuleSite {
  const site = new ModuleSite(t);
  t.after(async () => {
    await site.stop();
    rmSync(site.folder, { recursive: true, force: true, maxRetries: 10 });
  });
  return site;
}
