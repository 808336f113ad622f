/** A spool with daemons in processes of their own, and a ledger that their commands write to. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { realEnv } from '../../src/kit/env/real.ts';
import { poll } from '../../src/kit/poll.ts';
import { Actor } from '../../src/spool/actor.ts';
import { checkSpool } from '../../src/spool/invariants.ts';
import { submitJob } from '../../src/spool/submit.ts';
import { makeSpoolKit, type SpoolKit } from '../fakes/spool-kit.ts';
import { type HowToRun, type Running, start } from './cli-process.ts';

const env = realEnv();
const PATIENCE = { everyMs: 20, atMostMs: 60_000 };

export class SpoolSite {
  readonly kit: SpoolKit;
  readonly ledger: string;
  readonly #t: TestContext;

  constructor(t: TestContext, kit: SpoolKit) {
    this.#t = t;
    this.kit = kit;
    this.ledger = join(kit.folder, '..', 'ledger');
    fs.writeFileSync(this.ledger, '');
  }

  static async make(t: TestContext): Promise<SpoolSite> {
    return new SpoolSite(t, await makeSpoolKit(t));
  }

  /** Starts a daemon; it is killed at the end of the test. */
  async daemon(words: readonly string[], how: HowToRun = {}): Promise<Running> {
    const [action = '', ...rest] = words;
    const running = start(['spool', action, this.kit.folder, ...rest], how);
    this.#t.after(async () => {
      running.child.kill('SIGKILL');
      await running.ended;
    });
    await running.saw('err', /at work/);
    return running;
  }

  /** A script for jobs that notes what it does: `body` is run between the begin and the end. */
  script(body: string): string[] {
    const note = (word: string): string => `printf '%s %s\\n' ${word} "$JOB_ID" >>${this.ledger}`;
    return ['--', 'sh', '-c', `${note('begin')}; ${body}; ${note('end')}; echo '"done"'`];
  }

  noted(word: 'begin' | 'end', job: string): number {
    const lines = fs.readFileSync(this.ledger, 'utf8').split('\n');
    return lines.filter((line) => line === `${word} ${job}`).length;
  }

  /** Jobs with a prompt of their own, or names, which are the prompt then. */
  async submit(...jobs: (string | { readonly name: string; readonly prompt: unknown })[]): Promise<void> {
    const person = await Actor.open(this.kit.spool, 'person');
    for (const job of jobs) {
      const { name, prompt } = typeof job === 'string' ? { name: job, prompt: { name: job } } : job;
      await submitJob(person, { name, prompt, lifecycle: { max_retries: 1000 } });
    }
    await person.close();
  }

  async until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
    const found = await poll(env, PATIENCE, async () => ((await isSo()) ? true : undefined));
    // Listed only then: folders come and go while the spool works.
    if (!found) assert.fail(`it never came to pass that ${what}:\n${this.listing()}`);
  }

  has(place: string, ...names: string[]): Promise<void> {
    const wanted = names.sort().join();
    return this.until(`${place} has ${wanted}`, () => this.kit.names(place).join() === wanted);
  }

  listing(): string {
    return fs.readdirSync(this.kit.folder, { recursive: true }).sort().join('\n');
  }

  /** Nothing is left of anybody, and everything is in its place. */
  async isTidy(): Promise<void> {
    await this.until('nothing is left', () =>
      ['tmp', 'in-progress', 'incoming', 'jobs/stale'].every((place) => this.kit.names(place).length === 0),
    );
    assert.deepEqual(await checkSpool(this.kit.spool), []);
  }
}
