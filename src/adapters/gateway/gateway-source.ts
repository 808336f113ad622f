/**
 * The gateway of a brain: the one that it runs itself, with the seats of its configuration, or one that somebody else
 * runs. A gateway of an earlier start that is not configured any more is followed until nothing of it runs.
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
import { BATCH_DRIVERS } from '../../model/gateway-wire.ts';
import { CatalogClashes } from '../executors/catalog-clashes.ts';
import { ForeignServer } from '../executors/executor-host.ts';
import { ExecutorProcess } from '../executors/executor-process.ts';
import { GatewayLink, type GatewayLinkOptions } from './gateway-link.ts';
import type { SeatFacts } from './seat-info.ts';
import { type ForeignGateway, type GatewaySettings, type OwnGateway, seatsOrder } from './settings.ts';

export interface GatewaySourceOptions {
  readonly env: Env;
  readonly logger: Logger;
  /** The folder of the gateway that the brain runs. */
  readonly folder: string;
  /** Undefined: no gateway is configured. */
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

export class GatewaySource implements BackendSource {
  readonly #options: GatewaySourceOptions;
  readonly #begun = Promise.withResolvers<void>();
  readonly #clashes: CatalogClashes;
  #link: GatewayLink | undefined;
  #beginning: Promise<void> | undefined;
  #stopped = false;

  constructor(options: GatewaySourceOptions) {
    this.#options = options;
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
    if (this.#options.settings) await this.#link?.firstReport;
  }

  start(listener: BackendListener): void {
    const { logger } = this.#options;
    this.#beginning = this.#begin({
      present: (backend) => {
        listener.present(backend);
        void this.#clashes.warn(backend);
      },
      gone: (name) => listener.gone(name),
      free: (name) => listener.free(name),
    })
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
    const { env, folder, settings, isCopy } = this.#options;
    if (!settings && !(await env.disk.stat(folder))) return;
    // A foreign gateway has its files elsewhere; only its last state is kept here.
    if (settings?.is === 'foreign') await env.disk.makeFolder(folder);
    else await openGatewayFolder(env, folder, isCopy);
    if (this.#stopped) return;
    this.#warnOfKeyFiles();
    this.#link = new GatewayLink({
      ...this.#options,
      ...(settings?.is === 'foreign' ? this.#foreign(settings) : this.#own(settings)),
    });
    this.#link.start(listener);
  }

  #warnOfKeyFiles(): void {
    const { settings, logger } = this.#options;
    if (settings?.is !== 'own') return;
    for (const path of settings.openKeyFiles)
      logger.warn('other users of this machine can read the key of a seat', {
        reason: `run: chmod 600 ${path}`,
      });
  }

  #foreign({ url, token, timeoutMs }: ForeignGateway): LinkSettings {
    return {
      host: new ForeignServer(`${WHAT} at ${url}`, { uri: url, secret: token?.reveal() }),
      label: new URL(url).host,
      node: undefined,
      timeoutMs,
      seats: undefined,
      isNeeded: true,
    };
  }

  /** Without settings: the gateway of an earlier start. */
  #own(settings: OwnGateway | undefined): LinkSettings {
    const { env, folder, node, program = GATEWAY_PROGRAM } = this.#options;
    const { host = '127.0.0.1', port = 0, allowedHosts = [], token, seats = [] } = settings ?? {};
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
      node,
      timeoutMs: settings?.timeoutMs ?? 0,
      seats: seats.map(
        ({ name, driver, models, slots }): SeatFacts => ({
          name,
          models: Object.keys(models),
          slots,
          isBatched: BATCH_DRIVERS.has(driver),
          isFormer: false,
        }),
      ),
      order: settings && (() => seatsOrder(settings)),
      isNeeded: settings !== undefined,
    };
  }
}

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
