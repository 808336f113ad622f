/**
 * The folders in which the backends of a node keep their executions. A node of a cluster opens them when its process
 * starts: a copied folder is refused before the node stands for leader, and `--this-is-a-copy` sets aside what belongs
 * to the original once, not at every election.
 */
import { join, resolve } from 'node:path';
import { openGatewayFolder } from '../adapters/gateway/gateway-source.ts';
import { openUpstreamsFolder } from '../adapters/upstreams/upstream-source.ts';
import { COMMAND_BACKEND } from '../agents/command-backend.ts';
import { layoutOf } from '../backends/local/command/layout.ts';
import { openLayout } from '../backends/local/command/open-layout.ts';
import { configuredBackends } from '../backends/registry.ts';
import type { Env } from '../kit/env/env.ts';
import { Service } from '../kit/service.ts';
import type { ServerParts } from './parts.ts';

/** The folder of one backend below the data folder. */
export const backendFolder = (data: string, backend: string): string =>
  join(resolve(data), 'executions', backend);

/** The folder of the executors of upstreams, below the data folder. */
export const upstreamsFolder = (data: string): string => join(resolve(data), 'upstreams');

/** The folder of the gateway that the brain runs, below the data folder. */
export const gatewayFolder = (data: string): string => join(resolve(data), 'gateway');

/** The folder of what is remembered about gateways that others run, below the data folder. */
export const gatewaysFolder = (data: string): string => join(resolve(data), 'gateways');

const openCommands = (env: Env, folder: string, isCopy: boolean): Promise<void> =>
  openLayout(env, layoutOf(folder), isCopy);

export class NodeFolders extends Service {
  readonly #parts: ServerParts;

  constructor(parts: ServerParts) {
    super();
    this.#parts = parts;
  }

  protected async onStart(): Promise<void> {
    const { env, options, runsCommands } = this.#parts;
    const { config, data, logger, isCopy = false } = options;
    for (const { name, openFolder } of configuredBackends(config))
      await openFolder?.({ env, folder: backendFolder(data, name), isCopy });
    if (runsCommands) await openCommands(env, backendFolder(data, COMMAND_BACKEND), isCopy);
    if (config.backends.upstreams.length > 0) await openUpstreamsFolder(env, upstreamsFolder(data), isCopy);
    if (config.gateway.seats.length > 0) await openGatewayFolder(env, gatewayFolder(data), isCopy);
    if (isCopy)
      logger.info('the folders of this node count as copies; the database that the nodes share does not');
  }

  protected async onStop(): Promise<void> {}
}
