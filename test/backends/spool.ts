/** A spool with real agents, in processes of their own, for the conformance suite. Orders reach their commands through pipes. */
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BackendHarness, Harnesses, HarnessSource } from '../../src/backends/conformance/harness.ts';
import { SpoolSource } from '../../src/backends/spool/spool-source.ts';
import type { Backend } from '../../src/core/ports/backend.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { identityOf, isAlive } from '../../src/kit/process/identity.ts';
import { jobOfToken } from '../../src/model/records.ts';
import { kill, processesBelow, until } from '../fakes/command-kit.ts';
import { PipeHarness } from '../fakes/steered-pipe.ts';
import { orchd, type Running, start } from '../flow/cli-process.ts';

/** Writes to the ledger first, then keeps its payload, then does what comes out of its pipe. */
const scriptIn = (steering: string): string => `
cd '${steering}'
echo "$JOB_ID" >> ledger
cat > "$JOB_ID.payload"
: > "$JOB_ID.begun"
while read -r order argument; do
  case $order in
    say) cat "$argument"; cat "$argument.json" >> "$JOB_EVENTS" ;;
    exit) exit "$argument" ;;
  esac
done < "$JOB_ID.orders"
`;

const SLOTS = 2;

/** The spool and the processes that harnesses use, one after another. */
class SharedSpool implements HarnessSource {
  readonly root = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'orchd-spool-backend-')));
  readonly steering = join(this.root, 'steering');
  readonly #folder = join(this.root, 'spool');
  #daemons: Running | undefined;
  #source: SpoolSource | undefined;
  #backend: Backend | undefined;

  constructor() {
    fs.mkdirSync(this.steering);
  }

  get backend(): Backend {
    return this.#backend as Backend;
  }

  async harness(): Promise<BackendHarness> {
    if (!this.#daemons) await this.startDaemons();
    if (!this.#source) this.startBrain();
    await this.isUsable();
    return new SteeredSpool(this);
  }

  async startDaemons(): Promise<void> {
    await orchd(['spool', 'init', this.#folder]);
    const options = ['--slots', String(SLOTS), '--interval', '50ms', '--grace', '0s'];
    const command = ['--', 'sh', '-c', scriptIn(this.steering)];
    const daemons = start(['spool', 'up', this.#folder, ...options, ...command]);
    this.#daemons = daemons;
    await daemons.saw('err', /at work/);
  }

  /** The agents that are at work are known. */
  async isUsable(): Promise<void> {
    await until(() => this.#backend?.info.outage === undefined && this.#backend?.info.slots === SLOTS);
  }

  startBrain(): void {
    const env = realEnv();
    const logger = createLogger({ write: () => undefined, now: () => env.clock.now() });
    this.#source = new SpoolSource({ env, logger, name: 'spool', folder: this.#folder, types: ['work'] });
    const present = (backend: Backend): void => {
      this.#backend = backend;
    };
    this.#source.start({ present, gone: () => undefined, free: () => undefined });
  }

  async stopBrain(): Promise<void> {
    await this.#source?.stop();
    this.#source = undefined;
    this.#backend = undefined;
  }

  async restartBrain(): Promise<void> {
    await this.stopBrain();
    this.startBrain();
    await this.isUsable();
  }

  /** The daemons and the commands; a watchdog of the new ones finds what has become of the jobs. */
  async restartExecutor(): Promise<void> {
    const left = this.#jobsInProgress();
    await this.#killAll();
    await this.startDaemons();
    const ends = ['jobs/stale', 'completed/succeeded', 'completed/failed'].map((place) =>
      join(this.#folder, place),
    );
    await until(() => left.every((job) => ends.some((place) => fs.existsSync(join(place, job)))));
    await this.isUsable();
  }

  async stopExecutor(): Promise<void> {
    this.#daemons?.child.kill('SIGTERM');
    await this.#daemons?.ended;
    this.#daemons = undefined;
  }

  async loseMemory(): Promise<void> {
    await this.#killAll();
    await this.stopBrain();
    fs.renameSync(this.#folder, fs.mkdtempSync(join(this.root, 'lost-')));
    await this.startDaemons();
    await this.restartBrain();
  }

  async stop(): Promise<void> {
    await this.stopBrain();
    await this.#killAll();
    fs.rmSync(this.root, { recursive: true, force: true });
  }

  #jobsInProgress(): string[] {
    const folder = join(this.#folder, 'in-progress');
    return fs.readdirSync(folder).flatMap((agent) => fs.readdirSync(join(folder, agent)));
  }

  async #killAll(): Promise<void> {
    this.#daemons?.child.kill('SIGKILL');
    await this.#daemons?.ended;
    this.#daemons = undefined;
    const killed = processesBelow(this.root).map(identityOf);
    for (const { pid } of killed) kill(pid, 'SIGKILL');
    await until(() => !killed.some(isAlive));
  }
}

class SteeredSpool extends PipeHarness implements BackendHarness {
  readonly unrunnable = [
    { type: 'other', payloadText: '{}' },
    { type: 'work', payloadText: JSON.stringify('x'.repeat(17 * 1024 * 1024)) },
  ];
  readonly #shared: SharedSpool;

  constructor(shared: SharedSpool) {
    super(shared.steering);
    this.#shared = shared;
  }

  get backend(): Backend {
    return this.#shared.backend;
  }

  protected nameOf(token: string): string {
    return jobOfToken(token);
  }

  restartBrain(): Promise<void> {
    return this.#shared.restartBrain();
  }

  restartExecutor(): Promise<void> {
    return this.#shared.restartExecutor();
  }

  stopExecutor(): Promise<void> {
    return this.#shared.stopExecutor();
  }

  loseMemory(): Promise<void> {
    return this.#shared.loseMemory();
  }
}

export const harnesses: Harnesses = { SpoolBackend: new SharedSpool() };
