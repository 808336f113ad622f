/** What the processes of a worker pool are started with. */
import { join } from 'node:path';
import type { ApiAddress } from '../../consumer/api.ts';
import type { WorkerPoolView } from '../../model/http/worker-pools.ts';
import { workerEnvironment } from '../pool-manager/processes.ts';
import { nameOf, type ProvisionLayout } from './layout.ts';
import type { SlotsParts } from './slots.ts';

/** For a process that may take as long as it needs: longer than that no timer waits. */
const AS_LONG_AS_IT_TAKES_MS = 20 * 86_400_000;

export interface CommandSettings {
  readonly argv: readonly string[];
  readonly cwd: string;
  /** Names of variables of this process that are passed on, beside those by which programs are found. */
  readonly passed: readonly string[];
  readonly redisUrl: string | undefined;
}

export interface CommandParts extends CommandSettings {
  readonly address: ApiAddress;
  readonly layout: ProvisionLayout;
  readonly registry: string;
  readonly graceMs: number | undefined;
}

export const commandFor =
  ({
    argv,
    cwd,
    passed,
    redisUrl,
    address,
    layout,
    registry,
    graceMs,
  }: CommandParts): SlotsParts['commandFor'] =>
  (row, { pool, n }) => ({
    argv,
    cwd,
    env: {
      ...workerEnvironment(passed),
      ...variables({
        ORCHD_URL: address.url,
        ORCHD_TOKEN: address.token,
        ORCHD_REDIS_URL: redisUrl,
        ORCHD_POOL: pool,
        ORCHD_CONSUMER: `${registry}-${n}`,
        ORCHD_CONSUMER_STATE: join(layout.consumers, nameOf({ pool, n })),
        ORCHD_GRACE: `${graceMs ?? AS_LONG_AS_IT_TAKES_MS}ms`,
        ...ofRow(row),
      }),
    },
  });

const ofRow = (row: WorkerPoolView): Record<string, string | null> => ({
  ORCHD_AGENT: row.agent_name,
  ORCHD_MODEL: row.serves,
  ORCHD_ADAPTER: row.adapter,
  ORCHD_VARIANT: row.variant,
});

/** A variable cannot hold a NUL. */
const variables = (values: Readonly<Record<string, string | null | undefined>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) =>
      value === null || value === undefined ? [] : [[name, value.replaceAll('\0', '')]],
    ),
  );
