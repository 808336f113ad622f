/** The settings of the connection to Redis, from the configuration. */
import type { ResolvedConfig } from '../../config/resolve.ts';

export type RedisSettings = ResolvedConfig['redis'];

/** Whether the configuration says where Redis is. */
export const hasRedis = ({ redis: { url, sentinels } }: ResolvedConfig): boolean =>
  url.reveal() !== '' || sentinels.hosts.length > 0;
