/** Finds the server that takes writes: the one of `redis.url`, or the one that a sentinel calls the master. */
import type { Env } from '../../kit/env/env.ts';
import { type Address, placeOf, RedisAway, RedisClient } from './client.ts';
import type { RedisSettings } from './settings.ts';

/** The sentinels are asked in turn; the first that knows the master is believed. Throws RedisAway where none does. */
export async function masterOf(env: Pick<Env, 'timers' | 'disk'>, settings: RedisSettings): Promise<Address> {
  const { tls, ...place } = placeOf(settings);
  const { name, hosts, username, password } = settings.sentinels;
  if (hosts.length === 0) return place;
  for (const host of hosts) {
    const access = { username, password: password.reveal(), database: 0, tls };
    const found = await ask(env, host, access, name).catch(() => undefined);
    if (found) return found;
  }
  throw new RedisAway('no sentinel knows the master');
}

async function ask(
  env: Pick<Env, 'timers' | 'disk'>,
  sentinel: Address,
  access: Parameters<typeof RedisClient.connect>[2],
  name: string,
): Promise<Address | undefined> {
  const client = await RedisClient.connect(env, sentinel, access);
  try {
    const reply = await client.call(['SENTINEL', 'get-master-addr-by-name', name]);
    if (!Array.isArray(reply)) return undefined;
    const [host, port] = reply as string[];
    return host === undefined ? undefined : { host, port: Number(port) };
  } finally {
    client.close();
  }
}
