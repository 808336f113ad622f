/**
 * The gateways of `backends.gateways`. They come and go while the brain runs.
 *
 * G1  A gateway that is removed takes nothing new at once. It is followed until no attempt is open on its seats, so that
 *     each is collected and none is given up or run again; then its backends are withdrawn.
 * G2  Its address is on disk before it gets a job: a brain that starts without it in its configuration goes on with G1.
 */
import { join } from 'node:path';
import type { BackendListener, BackendSource } from '../../core/ports/backend.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { pause } from '../../kit/pause.ts';
import { readRecord, writeRecord } from '../../kit/record-file.ts';
import { Secret } from '../../kit/secret.ts';
import type { BackendView } from '../../model/http/meta.ts';
import { CatalogClashes } from '../executors/catalog-clashes.ts';
import { refused, unwritable } from '../executors/key.ts';
import { GatewayLink } from './gateway-link.ts';
import { foreignLink, withWarnings } from './gateway-source.ts';
import type { RemoteGateway } from './remote-settings.ts';

/** What the brain says about its backends. */
export interface FleetReads {
  backends(): readonly Pick<BackendView, 'name' | 'models' | 'used'>[];
}

export interface RemoteGatewaysOptions {
  readonly env: Env;
  readonly logger: Logger;
  /** The folder with one folder below for each gateway. */
  readonly folder: string;
  readonly gateways: readonly RemoteGateway[];
  /** Environment variables, which hold tokens. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** The folder is a copy: gateways that were removed belong to the brain of the original. */
  readonly isCopy: boolean;
  readonly maxStreams: number;
  readonly isInCatalog: (name: string) => Promise<boolean>;
  readonly fleet: FleetReads;
}

/** The address of a gateway on disk. */
interface GatewayRecord {
  readonly url: string;
  readonly token_env?: string;
}

const isGatewayRecord = (value: unknown): value is GatewayRecord =>
  typeof (value as GatewayRecord | null)?.url === 'string';

const RECORD_FILE = 'gateway.json';
/** How often a removed gateway is looked at. */
const DRAIN_POLL_MS = 250;

interface Connected {
  readonly gateway: RemoteGateway;
  readonly link: GatewayLink;
  isFormer: boolean;
  /** Nothing is left to do at a removed gateway: it is being let go. */
  isEnding: boolean;
  /** Settles when a removed gateway is gone, or is used again. */
  draining: Promise<void>;
}

/** Two seats of one name at two gateways are two backends. No name of a gateway or of a seat has a colon. */
const prefixOf = (name: string): string => `${name}:`;

export class RemoteGateways implements BackendSource {
  readonly #options: RemoteGatewaysOptions;
  readonly #connected = new Map<string, Connected>();
  readonly #begun = Promise.withResolvers<void>();
  readonly #stop = new AbortController();
  readonly #clashes: CatalogClashes;
  #listener: BackendListener | undefined;
  #beginning: Promise<void> | undefined;

  constructor(options: RemoteGatewaysOptions) {
    this.#options = options;
    this.#clashes = new CatalogClashes({
      ...options,
      whose: 'a seat',
      next: 'give one of them another name: "models" of the seat in the configuration of its gateway',
    });
  }

  /** Names of the models of all seats. */
  get models(): readonly string[] {
    return [...new Set(this.#current().flatMap(({ link }) => link.models))];
  }

  /** Settles when every gateway has answered once, or is known to be away. */
  async firstReports(): Promise<void> {
    await this.#begun.promise;
    await Promise.all(this.#current().map(({ link }) => link.firstReport));
  }

  start(listener: BackendListener): void {
    const { logger } = this.#options;
    this.#listener = withWarnings(listener, this.#clashes);
    this.#beginning = this.#begin()
      .catch((error: Error) => logger.error('the gateways cannot be used', { reason: error.message }))
      .finally(() => this.#begun.resolve());
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#beginning;
    const all = [...this.#connected.values()];
    await Promise.all(all.map(({ draining }) => draining));
    await Promise.all(all.map(({ link }) => link.stop()));
  }

  forget(backend: string): void {
    this.#connected.get(backend.slice(0, backend.indexOf(':')))?.link.forget(backend);
  }

  /** Throws CONFIG_INVALID where `apply` cannot be done. */
  check(gateways: readonly RemoteGateway[]): void {
    for (const [at, { name, url }] of gateways.entries()) {
      const known = this.#connected.get(name);
      if (known?.isFormer && known.gateway.url !== url)
        throw refused(
          `backends.gateways[${at}].url`,
          `the gateway "${name}" that was removed, at ${known.gateway.url}, still has jobs, or has not answered yet: use another name`,
        );
    }
  }

  /**
   * Brings what `apply` needs of new gateways to disk (G2). Throws CONFIG_INVALID where that fails; nothing is left there
   * then, nor once the result was called.
   */
  async prepare(gateways: readonly RemoteGateway[]): Promise<() => Promise<void>> {
    await this.#beginning;
    const { env, folder } = this.#options;
    const added = gateways.filter(({ name }) => !this.#connected.has(name));
    const undo = async (): Promise<void> => {
      for (const { name } of added)
        await env.disk.remove(join(folder, name, RECORD_FILE)).catch(() => undefined);
    };
    try {
      for (const gateway of added) await this.#record(gateway);
      return undo;
    } catch (error) {
      await undo();
      throw unwritable('backends.gateways', folder, error);
    }
  }

  /**
   * The gateways that the brain is to use from now on. One that is known keeps its address and token. Settles when the
   * new ones have answered, or are known to be away.
   */
  async apply(gateways: readonly RemoteGateway[]): Promise<void> {
    await this.#beginning;
    const wanted = new Set(gateways.map(({ name }) => name));
    for (const [name, connected] of this.#connected)
      if (!wanted.has(name) && !connected.isFormer) this.#retire(name, connected);
    for (const gateway of gateways) {
      const before = this.#connected.get(gateway.name);
      if (before?.isEnding) await before.draining;
      const known = this.#connected.get(gateway.name);
      if (known?.isFormer) this.#use(known);
      else if (!known && !this.#stop.signal.aborted) await this.#open(gateway, false);
    }
    await Promise.all(this.#current().map(({ link }) => link.firstReport));
  }

  #current(): Connected[] {
    return [...this.#connected.values()].filter(({ isFormer }) => !isFormer);
  }

  async #begin(): Promise<void> {
    const { env, folder, gateways, isCopy } = this.#options;
    for (const gateway of gateways) await this.#open(gateway, false);
    if (isCopy || !(await env.disk.stat(folder))) return;
    for (const name of await env.disk.list(folder)) {
      const record = await readRecord(env.disk, join(folder, name, RECORD_FILE), isGatewayRecord);
      if (record && !this.#connected.has(name)) await this.#open(this.#former(name, record), true);
    }
  }

  #former(name: string, { url, token_env: tokenEnv }: GatewayRecord): RemoteGateway {
    const value = tokenEnv === undefined ? undefined : this.#options.variables[tokenEnv]?.trim();
    return { name, url, tokenEnv, token: value ? new Secret(value) : undefined, timeoutMs: 0 };
  }

  async #open(gateway: RemoteGateway, isFormer: boolean): Promise<void> {
    const { name, url, token, timeoutMs } = gateway;
    const folder = await this.#record(gateway);
    if (this.#stop.signal.aborted || !this.#listener) return;
    const link = new GatewayLink({
      ...this.#options,
      ...foreignLink(url, token),
      folder,
      label: name,
      prefix: prefixOf(name),
      timeoutMs,
    });
    const connected: Connected = {
      gateway,
      link,
      isFormer: false,
      isEnding: false,
      draining: Promise.resolve(),
    };
    this.#connected.set(name, connected);
    if (isFormer) link.setFormer(true);
    link.start(this.#listener);
    if (isFormer) this.#retire(name, connected);
  }

  /** G2. Returns the folder of the gateway. */
  async #record({ name, url, tokenEnv }: RemoteGateway): Promise<string> {
    const { env } = this.#options;
    const folder = join(this.#options.folder, name);
    const record: GatewayRecord = { url, ...(tokenEnv !== undefined && { token_env: tokenEnv }) };
    await env.disk.makeFolder(folder);
    await writeRecord(env, join(folder, RECORD_FILE), record);
    return folder;
  }

  /** G1. */
  #retire(name: string, connected: Connected): void {
    connected.isFormer = true;
    connected.link.setFormer(true);
    connected.draining = this.#drain(name, connected);
  }

  #use(connected: Connected): void {
    connected.isFormer = false;
    connected.link.setFormer(false);
  }

  async #drain(name: string, connected: Connected): Promise<void> {
    const { env, logger, folder } = this.#options;
    const { link } = connected;
    // Its seats are known by then, or it is away.
    await link.firstReport;
    while (connected.isFormer && this.#isInUse(link)) {
      await pause(env.timers, DRAIN_POLL_MS, this.#stop.signal);
      if (this.#stop.signal.aborted) return;
    }
    if (!connected.isFormer || this.#stop.signal.aborted) return;
    connected.isEnding = true;
    // Hands over the last acknowledgements, so before the connections are closed.
    await link.stop();
    link.withdrawAll();
    this.#connected.delete(name);
    await env.disk.remove(join(folder, name, RECORD_FILE));
    logger.info('a gateway that was removed from the configuration has nothing left to do', { actor: name });
  }

  /** Also while the brain has not heard yet that a seat takes nothing new: it may give a job to it until then. */
  #isInUse(link: GatewayLink): boolean {
    const { fleet } = this.#options;
    // One that has never answered may have attempts on seats that nobody knows now.
    if (!link.isKnown) return true;
    const known = new Map(fleet.backends().map((backend) => [backend.name, backend]));
    return link.backends.some((name) => {
      const { models, used = 0 } = known.get(name) ?? {};
      return models?.length !== 0 || used > 0;
    });
  }
}
