/**
 * The configuration as a user writes it: key names, units, defaults and bounds. The schema is the type, the
 * validation and the list of environment variables; config.example.yaml is tested against it.
 * Names of the original designs (FANO-11, ORCH-1140, ORCH-1141) are kept at their original paths.
 */
import { type Static, Type } from 'typebox';
import { LOG_LEVELS } from '../kit/logger.ts';
import { isHttpUrl, isMariaDbUrl, isOrigin, parseBindAddress, splitList } from './address.ts';
import { AgentsSchema } from './agents.ts';
import { BackendsSchema } from './backends.ts';
import { GatesSchema } from './gates.ts';
import { GatewaySchema } from './gateway.ts';
import { GovernanceSchema } from './governance.ts';
import { isHostEntry, isHostName } from './host-list.ts';
import { LimitsSchema } from './limits.ts';
import { McpSchema } from './mcp.ts';
import { ModulesSchema } from './modules.ts';
import { CurrencySchema, PricesSchema } from './prices.ts';
import { RedisSchema } from './redis.ts';
import { SchedulesSchema } from './schedules.ts';
import { section } from './section.ts';
import { DEFAULT_DATA_FOLDER } from './variables.ts';

const DAY_SEC = 86_400;
// Longer waits than this would overflow Node's timers (2^31 - 1 ms, a little under 25 days).
const LONGEST_WAIT_SEC = 20 * DAY_SEC;
const LONGEST_KEEP_SEC = 10 * 365 * DAY_SEC;
const MIB = 1024 * 1024;

const integer = (fallback: number, minimum: number, maximum: number) =>
  Type.Integer({ default: fallback, minimum, maximum });
const waitSec = (fallback: number) =>
  Type.Number({ default: fallback, minimum: 0.001, maximum: LONGEST_WAIT_SEC });
const waitMs = (fallback: number) => integer(fallback, 1, DAY_SEC * 1000);
const keepSec = (fallback: number) =>
  Type.Number({ default: fallback, minimum: 0, maximum: LONGEST_KEEP_SEC });
const bytes = (fallback: number, maximum = Number.MAX_SAFE_INTEGER) => integer(fallback, 1, maximum);
const folder = (fallback: string) =>
  Type.String({ default: fallback, minLength: 1, expected: 'the path of a folder' });
const choice = <const V extends string[]>(values: readonly [...V], fallback: V[number]) =>
  Type.Enum(values, { default: fallback });

const AN_HTTP_URL = 'an http or https URL without user name and password';

const urlList = () =>
  Type.Refine(
    Type.Union([Type.String(), Type.Array(Type.String())], {
      default: [],
      list: true,
      expected: 'a list of http or https URLs without user name and password, separated by commas',
    }),
    (value) => splitList(value).every(isHttpUrl),
  );

const bindAddress = (fallback: string) =>
  Type.Refine(
    Type.String({ default: fallback, expected: 'an address such as 127.0.0.1:8080 or [::1]:8080' }),
    (value) => parseBindAddress(value) !== undefined,
  );

const nameList = (expected: string) =>
  Type.Union([Type.String(), Type.Array(Type.String())], { default: [], list: true, expected });

const hostList = (expected: string) =>
  Type.Refine(nameList(expected), (value) => splitList(value).every(isHostEntry));

const originList = () =>
  Type.Refine(
    nameList('a list of origins such as https://tools.example, without a path, separated by commas'),
    (value) => splitList(value).every(isOrigin),
  );

export const ConfigSchema = section({
  store: choice(['journal', 'mariadb'], 'journal'),
  mariadb: section({
    url: Type.Refine(
      Type.String({
        default: '',
        secret: true,
        expected: 'a URL such as mariadb://user:password@host:3306/database',
      }),
      (value) => value === '' || isMariaDbUrl(value),
    ),
    unsafe: Type.Boolean({ default: false }),
  }),
  redis: RedisSchema,
  cluster: section({
    node: Type.String({ default: '', pattern: '^[A-Za-z0-9._:-]{0,128}$', expected: 'a name for this node' }),
    address: Type.Refine(
      Type.String({ default: '', expected: `${AN_HTTP_URL}, under which the other nodes reach this one` }),
      (value) => value === '' || isHttpUrl(value),
    ),
    lease_ms: integer(5000, 500, 600_000),
    hold_ms: integer(10_000, 0, 600_000),
  }),
  orchestrator: section({
    bind_addr: bindAddress('127.0.0.1:8080'),
    pool_managers: urlList(),
    queue_capacity: integer(10_000, 1, 10_000_000),
    queue_policy: choice(['reject', 'drop-lru'], 'reject'),
    placement_algorithm: choice(
      ['least-loaded', 'most-vram-free', 'round-robin', 'multi-objective'],
      'least-loaded',
    ),
    eviction_policy: choice(['lru', 'lfu', 'manual'], 'lru'),
    worker_timeout_sec: waitSec(300),
    catalog_path: folder('data/catalog'),
    cancel_deadline_ms: waitMs(5000),
    state: section({
      checkpoint_dir: folder(DEFAULT_DATA_FOLDER),
      checkpoint_interval: waitSec(60),
    }),
    queue: section({
      capacity_bytes: bytes(1024 * MIB),
      max_waiting: integer(100_000, 1, 10_000_000),
      max_payload_bytes: bytes(16 * MIB, 256 * MIB),
      batch_max_wait: waitSec(300),
      // At 1 every pick would go to batch work, and people would wait for ever.
      batch_share: integer(10, 2, 1000),
    }),
    retry: section({
      max_tries: integer(3, 1, 1000),
      base_delay_ms: waitMs(1000),
      max_delay_ms: waitMs(60_000),
      jitter: Type.Number({ default: 0.2, minimum: 0, maximum: 1 }),
      share: Type.Number({ default: 0.2, minimum: 0, maximum: 1000 }),
    }),
    scheduler: section({
      jit_poll_interval: waitSec(1.0),
      failure_cache_ttl: keepSec(3600),
      failure_cache_size: integer(10_000, 1, 10_000_000),
      // 0: failures pause nothing.
      breaker_failures: integer(5, 0, 1_000_000),
      breaker_pause_ms: waitMs(5000),
      breaker_max_pause_ms: waitMs(300_000),
    }),
    sticky: section({
      enabled: Type.Boolean({ default: true }),
      price: Type.Number({ default: 10, minimum: 0, maximum: 1_000_000 }),
    }),
    recovery: section({
      orphan_reconciliation: Type.Boolean({ default: true }),
      holder_lost_ms: waitMs(5000),
      sweep_interval_ms: waitMs(1000),
    }),
    retention: section({
      history_sec: keepSec(7 * DAY_SEC),
      audit_sec: keepSec(7 * DAY_SEC),
      audit_bytes: bytes(1024 * MIB),
      usage_sec: keepSec(400 * DAY_SEC),
      // 0: until they are deleted.
      sessions_sec: keepSec(0),
    }),
  }),
  server: section({
    allowed_hosts: Type.Refine(
      nameList(
        'a list of host names under which the server is also reached, without scheme and port, separated by commas',
      ),
      (value) => splitList(value).every(isHostName),
    ),
    allowed_origins: originList(),
    max_connections: integer(4096, 16, 1_000_000),
    max_connections_per_address: integer(0, 0, 1_000_000),
    max_streams_per_caller: integer(1000, 1, 1_000_000),
    max_body_bytes_in_flight: bytes(256 * MIB),
    max_answer_bytes_in_flight: bytes(256 * MIB),
    heartbeat_ms: waitMs(15_000),
    disconnect_grace_ms: waitMs(5000),
  }),
  backends: BackendsSchema,
  agents: AgentsSchema,
  mcp: McpSchema,
  modules: ModulesSchema,
  pools: section({
    token: Type.String({ default: '', secret: true, expected: 'what the pool managers want to be shown' }),
    region: Type.String({ default: '', pattern: '^[A-Za-z0-9._-]{0,64}$', expected: 'the name of a region' }),
    allowed_hosts: hostList(
      'a list of hosts at which pools may register: names, addresses and ranges such as 10.0.0.0/8',
    ),
    allowed_worker_hosts: nameList('a list of hosts that workers may be at, separated by commas'),
    state_max_age_ms: integer(2000, 100, 600_000),
    start_timeout_sec: waitSec(60),
    start_tries: integer(2, 1, 10),
    start_cooldown_sec: waitSec(30),
    idle_unload_sec: waitSec(600),
    min_resident_sec: keepSec(10),
    drain_after_sec: keepSec(30),
    max_workers_per_model: integer(64, 1, 10_000),
    min_warm_workers_per_pool: integer(0, 0, 10_000),
    max_total_workers: integer(100_000, 1, 100_000),
    scale_up_wait_sec: waitSec(10),
    prewarm: Type.Boolean({ default: true }),
    verify_policy: choice(['warn', 'block'], 'warn'),
  }),
  sessions: section({
    // 0: as many as they like.
    token_budget: integer(0, 0, Number.MAX_SAFE_INTEGER),
    archive_after_sec: Type.Number({ default: DAY_SEC, minimum: 1, maximum: LONGEST_KEEP_SEC }),
  }),
  limits: LimitsSchema,
  gates: GatesSchema,
  currency: CurrencySchema,
  prices: PricesSchema,
  schedules: SchedulesSchema,
  governance: GovernanceSchema,
  leases: section({
    ttl_sec: Type.Number({ default: 3600, minimum: 1, maximum: LONGEST_WAIT_SEC }),
    gpus: Type.Array(
      section({
        index: Type.Integer({ minimum: 0, maximum: 1023 }),
        memory_mb: Type.Integer({ minimum: 1, maximum: 100_000_000 }),
      }),
      { default: [], expected: 'a list of GPUs with index and memory_mb' },
    ),
  }),
  gateway: GatewaySchema,
  pool: section({
    // `optIn`: the default is only what the key is usually set to, and has no effect by itself.
    url: Type.Refine(
      Type.String({ default: 'http://localhost:8000', expected: AN_HTTP_URL, optIn: true }),
      isHttpUrl,
    ),
    // As long as the wire of the gateway allows.
    timeout: Type.Number({ default: 3600, minimum: 0.001, maximum: 7 * DAY_SEC }),
  }),
  log: section({
    level: choice(LOG_LEVELS, 'info'),
  }),
});

export type RawConfig = Static<typeof ConfigSchema>;
