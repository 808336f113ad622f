/** Sources of seats on fake gateways, with brains or with a listener that only writes down what it hears. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { GatewaySource } from '../../src/adapters/gateway/gateway-source.ts';
import { gatewaySettings } from '../../src/adapters/gateway/settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { BackendInfo, BackendListener } from '../../src/core/ports/backend.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { FakeGateway, type FakeSeat } from '../fakes/gateway.ts';
import { within } from '../fakes/steered-work.ts';

export const GATEWAY_MAIN = new URL('../fakes/gateway-main.ts', import.meta.url);

export interface SourceOptions {
  readonly config: object;
  readonly variables?: Record<string, string>;
  readonly folder?: string;
  readonly isCopy?: boolean;
  /** The program of a gateway that the brain starts; a fake one by default. */
  readonly program?: URL;
}

export interface LoggedLine {
  readonly message: string;
  readonly level: string;
  readonly reason?: string;
}

export function folderFor(t: Pick<TestContext, 'after'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-gateway-'));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}

/** A source as a brain makes it from its configuration; `lines` is its log. */
export function sourceOf(
  t: Pick<TestContext, 'after'>,
  {
    config,
    variables = {},
    folder = join(folderFor(t), 'gateway'),
    isCopy = false,
    program = GATEWAY_MAIN,
  }: SourceOptions,
): { readonly source: GatewaySource; readonly lines: LoggedLine[] } {
  const lines: LoggedLine[] = [];
  const source = new GatewaySource({
    env: realEnv(),
    logger: createLogger({ write: (line) => lines.push(JSON.parse(line)), now: () => 0 }),
    folder,
    settings: gatewaySettings(loadConfig({ text: JSON.stringify(config) }), { variables, taken: [] }),
    node: undefined,
    isCopy,
    maxStreams: 64,
    isInCatalog: async () => false,
    program,
  });
  return { source, lines };
}

export async function fakeGateway(
  t: Pick<TestContext, 'after'>,
  seats: Readonly<Record<string, FakeSeat>>,
): Promise<FakeGateway> {
  const gateway = new FakeGateway(seats);
  await gateway.listen();
  t.after(() => gateway.close());
  return gateway;
}

/** Writes down what a source tells the brain, and lets a test wait for it. */
export class Heard implements BackendListener {
  readonly present: BackendListener['present'];
  readonly backends = new Map<string, BackendInfo>();
  readonly freed: string[] = [];
  readonly left: string[] = [];
  readonly #waiting = new Set<() => void>();

  constructor() {
    this.present = ({ info }) => {
      this.backends.set(info.name, info);
      this.#wake();
    };
  }

  gone(name: string): void {
    this.backends.delete(name);
    this.left.push(name);
    this.#wake();
  }

  free(name: string): void {
    this.freed.push(name);
    this.#wake();
  }

  /** Waits until it holds, looking at every news. */
  until(holds: (heard: Heard) => boolean): Promise<void> {
    const wait = async (): Promise<void> => {
      while (!holds(this)) await new Promise<void>((resolve) => this.#waiting.add(resolve));
    };
    return within(wait());
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }
}
