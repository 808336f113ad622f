/** A real server in a process of its own, and work for it that says what the test makes it say. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { type Running, start } from './cli-process.ts';

export interface ServerProcess extends Running {
  readonly url: string;
  readonly port: string;
  kill(): Promise<void>;
}

export interface ServerOptions {
  readonly data: string;
  readonly config?: object;
  readonly port?: string;
  /** Beside the data unless given: several servers may share one folder. */
  readonly configFile?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly within?: readonly string[];
  /** Further words of the command line. */
  readonly args?: readonly string[];
}

/** A test, or whatever else says when it is over. */
export type Ends = Pick<TestContext, 'after'>;

/** A folder that goes when the test ends, after all that works in it. */
export function testFolder(t: Ends): string {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-server-'));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}

export async function serve(t: Ends, options: ServerOptions): Promise<ServerProcess> {
  const { data, config = {}, port = '0', env, within, args = [] } = options;
  // JSON is YAML.
  const file = options.configFile ?? `${data}.yaml`;
  writeFileSync(file, JSON.stringify(config));
  const words = ['up', '--port', port, '--data', data, '--config', file, ...args];
  const running = start(words, { ...(env && { env }), ...(within && { within }) });
  const kill = async (): Promise<void> => {
    running.child.kill('SIGKILL');
    await running.ended;
  };
  t.after(kill);
  const banner = await running.saw('err', /press Ctrl-C to stop/);
  const url = /listens on (\S+)/.exec(banner)![1]!;
  return { ...running, url, port: new URL(url).port, kill };
}

/** A command that says what it is told over a socket, so that a test decides when; it ends with the socket. */
export class Talker {
  readonly #server = createServer();
  readonly #socket = Promise.withResolvers<Socket>();

  async listen(t: TestContext): Promise<void> {
    this.#server.on('connection', (socket) => {
      socket.on('error', () => undefined);
      this.#socket.resolve(socket);
    });
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    t.after(async () => {
      this.#server.close();
      this.#socket.resolve(undefined as never);
      (await this.#socket.promise)?.destroy();
    });
  }

  /** For `argv` of a command backend. */
  get argv(): string[] {
    const { port } = this.#server.address() as AddressInfo;
    const script = `require('node:net').connect(${port}, '127.0.0.1').pipe(process.stdout)`;
    return [process.execPath, '-e', script];
  }

  async say(text: string): Promise<void> {
    const socket = await this.#socket.promise;
    await new Promise<void>((resolve) => socket.write(text, () => resolve()));
  }

  async end(): Promise<void> {
    (await this.#socket.promise).end();
  }
}
