/** A spool, an agent that hands its jobs to a brain, and the brain, each in a process that can be killed. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { Running } from '../../flow/cli-process.ts';
import { type ServerProcess, serve, testFolder } from '../../flow/server-process.ts';
import { SpoolSite } from '../../flow/spool-site.ts';
import type { Death } from './dies.ts';
import { StoppingProxy } from './stopping-proxy.ts';

export type Victim = 'agent' | 'brain';

const PRELOAD = pathToFileURL(join(import.meta.dirname, 'dies.ts')).href;

export class IngressSite {
  readonly site: SpoolSite;
  readonly proxy: StoppingProxy;
  readonly #t: TestContext;
  readonly #folder: string;
  #agent: Running | undefined;
  #brain: ServerProcess | undefined;

  private constructor(t: TestContext, site: SpoolSite, proxy: StoppingProxy) {
    this.#t = t;
    this.site = site;
    this.proxy = proxy;
    this.#folder = testFolder(t);
  }

  static async make(t: TestContext): Promise<IngressSite> {
    const made = new IngressSite(t, await SpoolSite.make(t), await StoppingProxy.make(t));
    await made.site.daemon(['watchdog', '--interval', '50ms']);
    await made.site.daemon(['manager', '--interval', '50ms', '--retry-delay', '1ms']);
    await made.restart('brain');
    await made.restart('agent');
    return made;
  }

  /** Whoever dies by its own hand does so here. */
  dieAt(victim: Victim, death: Death): void {
    fs.writeFileSync(this.#deathFile(victim), JSON.stringify(death));
  }

  async died(victim: Victim): Promise<void> {
    const process = victim === 'agent' ? this.#agent : this.#brain;
    await process?.ended;
    fs.rmSync(this.#deathFile(victim), { force: true });
  }

  async kill(victim: Victim): Promise<void> {
    const process = victim === 'agent' ? this.#agent : this.#brain;
    process?.child.kill('SIGKILL');
    await process?.ended;
  }

  async restart(victim: Victim): Promise<void> {
    const env = { NODE_OPTIONS: `--import ${PRELOAD}`, DIES_AT: this.#deathFile(victim) };
    if (victim === 'agent') {
      this.#agent = await this.site.daemon(['agent', '--brain', this.proxy.url], { env });
      return;
    }
    // The command of a job that notes what it does, as those of a spool do.
    const [, ...argv] = this.site.script('true');
    const config = {
      backends: { demo: false, commands: [{ name: 'work', slots: 4, types: { work: { argv } } }] },
    };
    this.#brain = await serve(this.#t, { data: join(this.#folder, 'data'), config, env });
    this.proxy.target = this.#brain.url;
  }

  /** The backend of the brain has run each of these jobs once, from its begin to its end. */
  ranOnce(names: readonly string[]): void {
    const lines = fs.readFileSync(this.site.ledger, 'utf8').trim().split('\n');
    const wanted = names.flatMap((name) => [`begin ${name}`, `end ${name}`]);
    const found = lines.map((line) => line.replace(/spool\.[0-9a-f]+\.(.*)\.1$/, '$1'));
    assert.deepEqual(found.sort(), wanted.sort());
  }

  #deathFile(victim: Victim): string {
    return join(this.#folder, `${victim}-dies.json`);
  }
}
