/**
 * The gateway of a brain: the one that it runs itself, with the seats of its configuration, or one that somebody else
 * runs. A gateway of an earlier start that is not configured any more is followed until nothing of it runs. The seats of
 * its own gateway may change while it runs.
 */
import { join } from 'node:path';
import type { BackendListener, BackendSource } from '../../core/ports/backend.ts';
import {
  DISPLAY_VARIABLES,
  GATEWAY_LAUNCH_VARIABLE,
  GATEWAY_PROGRAM,
  GATEWAY_TOKEN_VARIABLE,
} from '../../daemons/gateway/layout.ts';
import { LEDGER_VARIABLE } from '../../daemons/upstream/layout.ts';
import type { Env } from '../../kit/env/env.ts';
import { claimCopy, claimFolder, FOLDER_FILES, setAside } from '../../kit/folder-identity.ts';
import type { Logger } from '../../kit/logger.ts';
import type { Secret } from '../../kit/secret.ts';
import { BATCH_DRIVERS } from '../../model/gateway-wire.ts';
import { CatalogClashes } from '../executors/catalog-clashes.ts';
import { ForeignServer } from '../executors/executor-host.ts';
import { ExecutorProcess } from '../executors/executor-process.ts';
import { unwritable } from '../executors/key.ts';
import { GatewayLink, type GatewayLinkOptions } from './gateway-link.ts';
import type { SeatFacts } from './seat-info.ts';
import { type ForeignGateway, type GatewaySettings, type OwnGateway, seatsOrder } from './settings.ts';

export interface GatewaySourceOptions {
  readonly env: Env;
  readonly logger: Logger;
  /** The folder of the gateway that the brain runs. */
  readonly folder: string;
  /** At the start; undefined: no gateway is configured. */
  readonly settings: GatewaySettings | undefined;
  readonly node: string | undefined;
  /** The folder is a copy: the gateway that it names belongs to the brain of the original. */
  readonly isCopy: boolean;
  readonly maxStreams: number;
  /** Whether a model of the catalog has this name: it is used instead of that of a seat. */
  readonly isInCatalog: (name: string) => Promise<boolean>;
  /** The program of the gateway, for tests. */
  readonly program?: URL;
}

type LinkSettings = Omit<GatewayLinkOptions, 'env' | 'logger' | 'folder' | 'maxStreams'>;

const WHAT = 'the gateway';

/** The link to a gateway that somebody else runs: it is told nothing, and has the seats that it has. */
export const foreignLink = (
  url: string,
  token: Secret | undefined,
): Pick<LinkSettings, 'host' | 'node' | 'seats' | 'isNeeded'> => ({
  host: new ForeignServer(`${WHAT} at ${url}`, { uri: url, secret: token?.reveal() }),
  node: undefined,
  seats: undefined,
  isNeeded: true,
});

/** Passes everything on, and warns of models that the catalog has too. */
export const withWarnings = (listener: BackendListener, clashes: CatalogClashes): BackendListener => ({
  present: (backend) => {
    listener.present(backend);
    void clashes.warn(backend);
  },
  gone: (name) => listener.gone(name),
  free: (name) => listener.free(name),
});

export class GatewaySource implements BackendSource {
  readonly #options: GatewaySourceOptions;
  readonly #begun = Promise.withResolvers<void>();
  readonly #clashes: CatalogClashes;
  #settings: GatewaySettings | undefined;
  #link: GatewayLink | undefined;
  /** The settings that the gateway of `link` was told last; undefined for one of an earlier start, or a foreign one. */
  #told: OwnGateway | undefined;
  #listener: BackendListener | undefined;
  #beginning: Promise<void> | undefined;
  #stopped = false;

  constructor(options: GatewaySourceOptions) {
    this.#options = options;
    this.#settings = options.settings;
    this.#clashes = new CatalogClashes({
      ...options,
      whose: 'a seat',
      next: 'give one of them another name: "models" of the seat in the configuration',
    });
  }

  /** Names of the models of all seats. */
  get models(): readonly string[] {
    return this.#link?.models ?? [];
  }

  /** Settles when the gateway has answered once, or is known to be away. */
  async firstReports(): Promise<void> {
    await this.#begun.promise;
    if (this.#settings) await this.#link?.firstReport;
  }

  /** Throws CONFIG_INVALID where `apply` cannot have its folder. */
  async prepare(): Promise<void> {
    const { env, folder } = this.#options;
    await env.disk.makeFolder(folder).catch((error: unknown) => {
      throw unwritable('gateway.seats', folder, error);
    });
  }

  /**
   * The gateway of the brain is to have other seats, or the brain has none any more. Settles when the gateway has them, or
   * is known to be away. Not for a foreign gateway.
   */
  async apply(settings: OwnGateway | undefined): Promise<void> {
    await this.#beginning;
    if (this.#stopped || !this.#listener) return;
    this.#settings = settings;
    this.#warnOfKeyFiles();
    if (this.#link && this.#told) {
      // Without seats the gateway goes on for what runs there, and ends with the brain.
      const next: OwnGateway = settings ?? { ...this.#told, seats: [] };
      this.#told = next;
      return this.#link.update(seatFacts(next), () => seatsOrder(next));
    }
    if (!settings) return;
    // That of an earlier start: the one below finds its process, and goes on with it.
    await this.#link?.stop();
    await this.#open(this.#listener);
    await this.#link?.firstReport;
  }

  start(listener: BackendListener): void {
    const { logger } = this.#options;
    this.#listener = withWarnings(listener, this.#clashes);
    this.#beginning = this.#begin(this.#listener)
      .catch((error: Error) => logger.error('the gateway cannot be used', { reason: error.message }))
      .finally(() => this.#begun.resolve());
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#beginning;
    await this.#link?.stop();
  }

  forget(backend: string): void {
    this.#link?.forget(backend);
  }

  async #begin(listener: BackendListener): Promise<void> {
    const { env, folder } = this.#options;
    if (!this.#settings && !(await env.disk.stat(folder))) return;
    this.#warnOfKeyFiles();
    await this.#open(listener);
  }

  async #open(listener: BackendListener): Promise<void> {
    const { env, folder, isCopy } = this.#options;
    const settings = this.#settings;
    // A foreign gateway has its files elsewhere; only its last state is kept here.
    if (settings?.is === 'foreign') await env.disk.makeFolder(folder);
    else await openGatewayFolder(env, folder, isCopy);
    if (this.#stopped) return;
    this.#told = settings?.is === 'own' ? settings : undefined;
    this.#link = new GatewayLink({
      ...this.#options,
      ...(settings?.is === 'foreign' ? this.#foreign(settings) : this.#own(settings)),
    });
    this.#link.start(listener);
  }

  #warnOfKeyFiles(): void {
    const settings = this.#settings;
    if (settings?.is !== 'own') return;
    for (const path of settings.openKeyFiles)
      this.#options.logger.warn('other users of this machine can read the key of a seat', {
        reason: `run: chmod 600 ${path}`,
      });
  }

  #foreign({ url, token, timeoutMs }: ForeignGateway): LinkSettings {
    return { ...foreignLink(url, token), label: new URL(url).host, prefix: '', timeoutMs };
  }

  /** Without settings: the gateway of an earlier start. */
  #own(settings: OwnGateway | undefined): LinkSettings {
    const { env, folder, node, program = GATEWAY_PROGRAM } = this.#options;
    const { host = '127.0.0.1', port = 0, allowedHosts = [], token } = settings ?? {};
    return {
      host: new ExecutorProcess(env, folder, {
        what: WHAT,
        file: program,
        args: [host, String(port), ...allowedHosts],
        launchVariable: GATEWAY_LAUNCH_VARIABLE,
        tokenVariable: GATEWAY_TOKEN_VARIABLE,
        passedVariables: [LEDGER_VARIABLE, ...DISPLAY_VARIABLES],
        hint: `another program may use port ${port} (gateway.bind_addr)`,
        secret: token?.reveal(),
      }),
      label: 'local',
      prefix: '',
      node,
      timeoutMs: settings?.timeoutMs ?? 0,
      seats: settings ? seatFacts(settings) : [],
      order: settings && (() => seatsOrder(settings)),
      isNeeded: settings !== undefined,
    };
  }
}

const seatFacts = ({ seats }: OwnGateway): readonly SeatFacts[] =>
  seats.map(({ name, driver, models, slots }) => ({
    name,
    models: Object.keys(models),
    slots,
    isBatched: BATCH_DRIVERS.has(driver),
    isFormer: false,
  }));

/**
 * A copied folder is begun anew: the gateway that it names belongs to the brain of the original, and so do the requests
 * that it remembers.
 */
export async function openGatewayFolder(env: Env, folder: string, isCopy: boolean): Promise<void> {
  await env.disk.makeFolder(folder);
  if (!isCopy) return claimFolder(env, folder);
  const own = new Set<string>(Object.values(FOLDER_FILES));
  const names = (await env.disk.list(folder)).filter((name) => !own.has(name) && !name.startsWith('copied-'));
  if (names.length > 0)
    await setAside(
      env,
      folder,
      names.map((name) => join(folder, name)),
    );
  await claimCopy(env, folder);
}
