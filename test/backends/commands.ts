/** Commands as real processes under real keepers, for the conformance suite. Orders reach them through pipes. */
import fs from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { BackendHarness, Harnesses, HarnessSource } from '../../src/backends/conformance/harness.ts';
import type { CommandBackend } from '../../src/backends/local/command/command.ts';
import { layoutOf, markOf, oldFolderName, pathsIn } from '../../src/backends/local/command/layout.ts';
import { readStatus } from '../../src/backends/local/command/wrapper.ts';
import { identityOf, isAlive } from '../../src/kit/process/identity.ts';
import { CommandKit, kill, sh, until } from '../fakes/command-kit.ts';
import { PipeHarness } from '../fakes/steered-pipe.ts';

const { variable: MARK_VARIABLE } = markOf('', '');

/** Named by its token, without the brain. Writes to the ledger first, then keeps its payload, then does what comes out of its pipe. */
const SCRIPT = `
name=\${${MARK_VARIABLE}##*/}
name=\${name#*.}
echo "$name" >> "$STEERING/ledger"
cat > "$STEERING/$name.payload"
: > "$STEERING/$name.begun"
while read -r order argument; do
  case $order in
    say) cat "$STEERING/$argument" ;;
    exit) exit "$argument" ;;
  esac
done < "$STEERING/$name.orders"
`;

/** The commands that harnesses use, one after another: most of the time goes into starting keepers. */
class SharedCommands implements HarnessSource {
  readonly #kit: CommandKit;
  readonly steering: string;
  #clean: () => unknown = () => undefined;
  #backend: CommandBackend | undefined;

  constructor() {
    const after = (run: () => unknown): void => {
      this.#clean = run;
    };
    this.#kit = new CommandKit({ after } as unknown as TestContext);
    this.steering = join(this.#kit.root, 'steering');
    fs.mkdirSync(this.steering);
  }

  get backend(): CommandBackend {
    const work = sh(SCRIPT, { env: { STEERING: this.steering } });
    this.#backend ??= this.#kit.backend(work, { slots: 2 });
    return this.#backend;
  }

  async harness(): Promise<BackendHarness> {
    await this.backend.start();
    return new SteeredCommands(this);
  }

  async restartBrain(): Promise<void> {
    await this.#backend?.stop();
    this.#backend = undefined;
    await this.backend.start();
  }

  /** Kills the keepers and the wrappers; the commands are left to whoever looks after them. */
  async killKeepers(): Promise<void> {
    await this.#kill([...this.#keepers(), ...this.#wrappers()]);
  }

  async stopKeepers(): Promise<void> {
    for (const pid of this.#keepers()) kill(pid, 'SIGTERM');
  }

  #keepers(): number[] {
    const commands = this.#kit.commands();
    return this.#kit.processes(this.#kit.folder).filter((pid) => !commands.includes(pid));
  }

  #wrappers(): number[] {
    const layout = layoutOf(this.#kit.folder);
    const commands = this.#kit.commands();
    return fs
      .readdirSync(layout.executions)
      .map((name) => readStatus(pathsIn(layout, name).status).pid)
      .filter((pid) => pid !== undefined && commands.includes(pid)) as number[];
  }

  async loseMemory(): Promise<void> {
    await this.#kill(this.#kit.processes(this.#kit.folder));
    fs.renameSync(this.#kit.folder, fs.mkdtempSync(join(this.#kit.root, 'lost-')));
    await this.restartBrain();
  }

  async stop(): Promise<void> {
    await this.#clean();
  }

  async #kill(pids: readonly number[]): Promise<void> {
    const killed = pids.map(identityOf);
    for (const { pid } of killed) kill(pid, 'SIGKILL');
    await until(() => !killed.some(isAlive));
  }
}

class SteeredCommands extends PipeHarness implements BackendHarness {
  readonly unrunnable = ['other', 'constructor'].map((type) => ({ type, payloadText: '{}' }));
  readonly #shared: SharedCommands;

  constructor(shared: SharedCommands) {
    super(shared.steering);
    this.#shared = shared;
  }

  get backend(): CommandBackend {
    return this.#shared.backend;
  }

  protected nameOf(token: string): string {
    return oldFolderName(token);
  }

  restartBrain(): Promise<void> {
    return this.#shared.restartBrain();
  }

  /** Keepers and wrappers are the executor; an offer starts what it needs of them. */
  restartExecutor(): Promise<void> {
    return this.#shared.killKeepers();
  }

  stopExecutor(): Promise<void> {
    return this.#shared.stopKeepers();
  }

  loseMemory(): Promise<void> {
    return this.#shared.loseMemory();
  }
}

export const harnesses: Harnesses = { CommandBackend: new SharedCommands() };
