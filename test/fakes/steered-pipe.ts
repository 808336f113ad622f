/** Work in processes that get their orders through pipes, for backends whose executors outlive the suite's process. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { basename, join } from 'node:path';
import type { SteeredExecution } from '../../src/backends/conformance/harness.ts';
import type { Backend } from '../../src/core/ports/backend.ts';
import { until } from './command-kit.ts';
import { harnessId, within } from './steered-work.ts';

/** Exit codes: an input that is wrong is not tried again. */
const RETRIABLE = 1;
const WRONG_INPUT = 64;

/**
 * What a script is to do with the orders that it reads from PATH.orders: `say FILE` and `exit CODE`. It writes its payload
 * to PATH.payload, and then makes PATH.begun. FILE.json has the same text as an event.
 */
class SteeredPipe implements SteeredExecution {
  readonly #path: string;
  readonly #orders: number;
  #pieces = 0;

  constructor(path: string) {
    this.#path = path;
    execFileSync('mkfifo', [`${path}.orders`]);
    // Open for both directions: neither side waits for the other, and orders stay until they are read.
    this.#orders = fs.openSync(`${path}.orders`, 'r+');
  }

  get begun(): Promise<unknown> {
    const look = (): boolean => fs.existsSync(`${this.#path}.begun`);
    return until(look).then(() => JSON.parse(fs.readFileSync(`${this.#path}.payload`, 'utf8')));
  }

  async say(text: string): Promise<void> {
    const piece = `${this.#path}.${++this.#pieces}`;
    fs.writeFileSync(piece, text);
    fs.writeFileSync(`${piece}.json`, `${JSON.stringify({ t: text })}\n`);
    this.#order(`say ${basename(piece)}`);
  }

  async succeed(): Promise<void> {
    this.#order('exit 0');
  }

  async fail(retriable: boolean): Promise<void> {
    this.#order(`exit ${retriable ? RETRIABLE : WRONG_INPUT}`);
  }

  close(): void {
    fs.closeSync(this.#orders);
  }

  #order(line: string): void {
    fs.writeSync(this.#orders, `${line}\n`);
  }
}

/** What the harnesses of such backends have in common: the folder of the pipes, and the ledger of the scripts in it. */
export abstract class PipeHarness {
  readonly id = harnessId();
  readonly workType = 'work';
  readonly within = within;
  readonly #steering: string;
  readonly #executions = new Map<string, SteeredPipe>();

  constructor(steering: string) {
    this.#steering = steering;
  }

  abstract get backend(): Backend;

  /** What the script of a token calls itself, in the ledger too. */
  protected abstract nameOf(token: string): string;

  now(): number {
    return Date.now();
  }

  execution(token: string): SteeredExecution {
    let execution = this.#executions.get(token);
    if (!execution) {
      execution = new SteeredPipe(join(this.#steering, this.nameOf(token)));
      this.#executions.set(token, execution);
    }
    return execution;
  }

  begun(token: string): number {
    const ledger = join(this.#steering, 'ledger');
    const lines = fs.existsSync(ledger) ? fs.readFileSync(ledger, 'utf8').split('\n') : [];
    return lines.filter((name) => name === this.nameOf(token)).length;
  }

  /** The backend object serves every owner. */
  async connectOther(): Promise<Backend> {
    return this.backend;
  }

  /** Leaves all slots free for the next harness. */
  async remove(): Promise<void> {
    const end = async (token: string, owner: string): Promise<void> => {
      const who = { owner, epoch: 1000 };
      const { is } = await this.backend.kill(token, who);
      if (is === 'stopping') await this.backend.follow(token, 0, () => undefined, who);
    };
    const owners = [`brain-${this.id}`, `other-${this.id}`];
    const tokens = [...this.#executions.keys()];
    await within(Promise.all(owners.flatMap((owner) => tokens.map((token) => end(token, owner)))));
    for (const execution of this.#executions.values()) execution.close();
  }
}
