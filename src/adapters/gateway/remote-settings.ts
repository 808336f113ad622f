/** The gateways of `backends.gateways`, which somebody else runs: from the configuration to checked settings with their tokens. */
import type { RemoteGatewayConfig } from '../../config/backends.ts';
import type { ResolvedConfig } from '../../config/resolve.ts';
import type { Secret } from '../../kit/secret.ts';
import { keyOf } from '../executors/key.ts';
import type { GatewaySurroundings } from './settings.ts';

export interface RemoteGateway {
  readonly name: string;
  readonly url: string;
  /** The variable that holds the token, if it demands one. */
  readonly tokenEnv: string | undefined;
  readonly token: Secret | undefined;
  /** The longest time of one request. */
  readonly timeoutMs: number;
}

/** Throws CONFIG_INVALID; its `field` is the key in the configuration. */
export const remoteGateways = (
  { backends, pool }: ResolvedConfig,
  { variables }: Pick<GatewaySurroundings, 'variables'>,
): readonly RemoteGateway[] =>
  (backends.gateways as readonly RemoteGatewayConfig[]).map(({ name, url, token_env }, at) => ({
    name,
    url: url.replace(/\/+$/, ''),
    tokenEnv: token_env,
    token:
      token_env === undefined
        ? undefined
        : keyOf(variables[token_env], `the variable ${token_env}`, url, `backends.gateways[${at}].token_env`),
    timeoutMs: pool.timeoutMs,
  }));
