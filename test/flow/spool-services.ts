/** A spool with agents, watchdogs and managers in the process of the test, on a real disk. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import type { TestContext } from 'node:test';
import { SpoolAgent } from '../../src/daemons/spool/agent.ts';
import type { JobHandler } from '../../src/daemons/spool/handler.ts';
import { SpoolManager } from '../../src/daemons/spool/manager.ts';
import { SpoolWatchdog } from '../../src/daemons/spool/watchdog.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { poll } from '../../src/kit/poll.ts';
import type { Service } from '../../src/kit/service.ts';
import { Actor } from '../../src/spool/actor.ts';
import type { SpoolOptions } from '../../src/spool/spool.ts';
import { submitJob } from '../../src/spool/submit.ts';
import { makeSpoolKit, type SpoolKit } from '../fakes/spool-kit.ts';

const REAL = realEnv();
export const SETTINGS = { settings: { settleMs: 20, foreignLockTtlMs: 2000, maxRetries: 2 } };
const NO_BACKOFF = { baseDelayMs: 1, maxDelayMs: 1, jitter: 0 };

export class SpoolServices {
  readonly kit: SpoolKit;
  readonly #t: TestContext;

  constructor(t: TestContext, kit: SpoolKit) {
    this.#t = t;
    this.kit = kit;
  }

  static async make(t: TestContext, options: Partial<SpoolOptions> = {}): Promise<SpoolServices> {
    return new SpoolServices(t, await makeSpoolKit(t, { ...SETTINGS, ...options }));
  }

  /** The environment of the spool, which may have a clock of its own. */
  get #env(): Env {
    return { ...REAL, ...this.kit.spool.env };
  }

  async start<T extends Service>(service: T): Promise<T> {
    this.#t.after(() => service.stop());
    await service.start();
    return service;
  }

  agent(
    handler: JobHandler,
    more: { slots?: number; timeoutMs?: number; stopGraceMs?: number } = {},
  ): SpoolAgent {
    return new SpoolAgent({
      env: this.#env,
      spool: this.kit.spool,
      handler,
      slots: 4,
      stopGraceMs: 5000,
      ...more,
    });
  }

  manager(): SpoolManager {
    return new SpoolManager({ env: this.#env, spool: this.kit.spool, intervalMs: 20, backoff: NO_BACKOFF });
  }

  watchdog(): SpoolWatchdog {
    return new SpoolWatchdog({ env: this.#env, spool: this.kit.spool, intervalMs: 50 });
  }

  async submit(...names: string[]): Promise<void> {
    const person = await Actor.open(this.kit.spool, 'person');
    await Promise.all(names.map((name) => submitJob(person, { name, prompt: { name } })));
    await person.close();
  }

  /** Waits until a place has these jobs. */
  async has(place: string, ...names: string[]): Promise<void> {
    const wanted = names.sort().join();
    await this.until(
      () => this.kit.names(place).join() === wanted,
      () => `${place} has ${this.kit.names(place)} and not ${wanted}`,
    );
  }

  async until(isSo: () => boolean, otherwise: () => string): Promise<void> {
    const found = await poll(REAL, { everyMs: 5, atMostMs: 60_000 }, () => (isSo() ? true : undefined));
    assert.ok(found, found ? '' : otherwise());
  }

  /** Waits for a line of the log. */
  logged(level: string, pattern: RegExp): Promise<void> {
    return this.until(
      () => this.kit.lines.some((line) => line.level === level && pattern.test(JSON.stringify(line))),
      () => `nothing like ${pattern} is in the log: ${JSON.stringify(this.kit.lines)}`,
    );
  }

  json(path: string): Record<string, unknown> {
    return JSON.parse(fs.readFileSync(this.kit.path(path), 'utf8')) as Record<string, unknown>;
  }
}
