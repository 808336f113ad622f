/** The brain of a server: an orchestrator and everything that runs beside it while this process leads. */
import { resolve } from 'node:path';
import { GatewaySource } from '../adapters/gateway/gateway-source.ts';
import { type FleetReads, RemoteGateways } from '../adapters/gateway/remote-gateways.ts';
import { Activity } from '../adapters/governance/activity.ts';
import { TriggerWatch } from '../adapters/governance/trigger-watch.ts';
import { Modules } from '../adapters/modules/modules.ts';
import { moduleSettings } from '../adapters/modules/settings.ts';
import { ConfiguredSchedules } from '../adapters/schedules/configured-schedules.ts';
import { ScheduleTicker } from '../adapters/schedules/schedule-ticker.ts';
import { UpstreamSource } from '../adapters/upstreams/upstream-source.ts';
import { COMMAND_BACKEND } from '../agents/command-backend.ts';
import { HttpPoolManagers } from '../backends/pool/managers.ts';
import { PoolHosts } from '../backends/pool/pool-hosts.ts';
import { configuredBackends } from '../backends/registry.ts';
import { SpoolSource } from '../backends/spool/spool-source.ts';
import type { ResolvedConfig } from '../config/resolve.ts';
import type { Backend } from '../core/ports/backend.ts';
import type { Term } from '../core/ports/leadership.ts';
import type { Timers } from '../kit/env/env.ts';
import type { Service } from '../kit/service.ts';
import { ServiceList } from '../kit/service-list.ts';
import { within } from '../kit/within.ts';
import { OrchdError } from '../model/errors.ts';
import type { SectionChanges } from '../model/http/reload.ts';
import type { LeftWork } from '../runtime/left-work.ts';
import { Orchestrator } from '../runtime/orchestrator.ts';
import type { Reads } from '../runtime/reads.ts';
import { configuredStore } from '../stores/registry.ts';
import { Narrator } from '../telemetry/narrator.ts';
import { observers } from '../telemetry/observers.ts';
import { RunTelemetry } from '../telemetry/run-telemetry.ts';
import { AwaitServers, FIRST_REPORTS_MS } from './await-servers.ts';
import { CatalogFiles } from './catalog-files.ts';
import { backendFolder, gatewayFolder, gatewaysFolder, upstreamsFolder } from './node-folders.ts';
import { OWN_POOL_ID, OwnPool } from './own-pool.ts';
import type { ServerParts } from './parts.ts';
import { Streams } from './redis.ts';
import { RegisterOwnModels } from './register-own-models.ts';
import type { ReloadTarget } from './reloader.ts';
import { runReads } from './run-reads.ts';
import { type OtherServerSettings, otherServers } from './server-settings.ts';
import { runtimeSettings } from './settings.ts';
import { TokenBudgets } from './token-budgets.ts';

/** Streams to one worker: one for each job that it runs, and one for each that is read again. */
const MAX_WORKER_STREAMS = 2048;

/** Bind addresses that stand for all addresses of a machine. */
const UNSPECIFIED = new Set(['0.0.0.0', '::']);

/** The term of a brain that leads a cluster, and its node. */
export interface BrainTerm {
  readonly term: Term;
  readonly node: string;
}

interface OtherServers {
  readonly gateway: GatewaySource;
  readonly gateways: RemoteGateways;
  readonly others: readonly (UpstreamSource | SpoolSource)[];
}

const sourcesOf = ({
  gateway,
  gateways,
  others,
}: OtherServers): readonly (GatewaySource | RemoteGateways | UpstreamSource | SpoolSource)[] => [
  ...others,
  gateway,
  gateways,
];

/** What a brain is made of, beside its orchestrator. */
interface BrainParts {
  readonly ownPool: OwnPool | undefined;
  readonly streams: Streams | undefined;
  readonly servers: OtherServers;
  readonly schedules: ConfiguredSchedules;
  readonly activity: Activity;
}

export class Brain extends ServiceList implements ReloadTarget {
  readonly orchestrator: Orchestrator;
  readonly modules: Modules;
  /** Undefined without a Redis. */
  readonly streams: Streams | undefined;
  readonly #ownPool: OwnPool | undefined;
  readonly #servers: OtherServers;
  readonly #schedules: ConfiguredSchedules;
  readonly #settingsOf: (config: ResolvedConfig) => OtherServerSettings;
  readonly #timers: Timers;

  constructor(parts: ServerParts, lead?: BrainTerm) {
    const ownPool = ownPoolOf(parts);
    // Read only while the orchestrator runs, which is made with the sources.
    const servers = serversOf(parts, lead, () => orchestrator.reads);
    const activity = new Activity(parts.env.clock);
    const streams = Streams.of(parts);
    const made = { ownPool, streams, servers, activity };
    const orchestrator: Orchestrator = orchestratorOf(parts, made, lead);
    const modules = modulesOf(parts, orchestrator);
    const { env, options, host } = parts;
    const { schedules: configured } = options.config;
    const schedules = new ConfiguredSchedules({ clock: env.clock, orchestrator, schedules: configured });
    super([...servicesOf(parts, orchestrator, { ...made, schedules }), modules]);
    this.streams = streams;
    this.#schedules = schedules;
    this.#settingsOf = (config) => otherServers(config, { host, port: options.port ?? config.server.port });
    this.#timers = env.timers;
    this.orchestrator = orchestrator;
    this.modules = modules;
    this.#ownPool = ownPool;
    this.#servers = servers;
  }

  /** Names of the models of this machine's workers, the upstreams and the seats; known once it has started. */
  get models(): readonly string[] {
    const own = this.#ownPool?.models.map(({ name }) => name) ?? [];
    return [...new Set([...own, ...sourcesOf(this.#servers).flatMap(({ models }) => models)])];
  }

  /** What it leaves behind when it stops. */
  get left(): LeftWork {
    return this.orchestrator.reads.leftWork((pool) => this.#ownPool !== undefined && pool === OWN_POOL_ID);
  }

  get failed(): Promise<Error> {
    return this.orchestrator.failed;
  }

  drain(): Promise<void> {
    return this.orchestrator.drain.run();
  }

  checkReload(config: ResolvedConfig): void {
    if (!this.running) throw new OrchdError('SHUTTING_DOWN');
    this.#servers.gateways.check(this.#settingsOf(config).gateways);
  }

  /** The steps that can fail come first: files for new gateways, then schedules, which are stored. */
  async reload(config: ResolvedConfig, changes: readonly SectionChanges[]): Promise<void> {
    const { gateway, gateways } = this.#settingsOf(config);
    const changed = new Set(changes.map(({ section }) => section));
    if (changed.has('gateway.seats')) await this.#servers.gateway.prepare();
    const undo = changed.has('backends.gateways')
      ? await this.#servers.gateways.prepare(gateways)
      : undefined;
    try {
      if (changed.has('schedules')) await this.#schedules.apply(config.schedules);
    } catch (error) {
      await undo?.();
      throw error;
    }
    if (changed.has('modules')) await this.modules.apply(moduleSettings(config.modules));
    const answered: Promise<void>[] = [];
    if (changed.has('backends.gateways')) answered.push(this.#servers.gateways.apply(gateways));
    if (changed.has('gateway.seats') && gateway?.is !== 'foreign')
      answered.push(this.#servers.gateway.apply(gateway));
    // One that takes longer is used as soon as it answers.
    await within(this.#timers, FIRST_REPORTS_MS, Promise.all(answered), undefined);
  }
}

/**
 * The services of every brain, alone or in a cluster, in the order in which they are started. An adapter is one entry
 * more.
 */
function servicesOf(
  { options, env, tokens }: ServerParts,
  orchestrator: Orchestrator,
  { ownPool, streams, servers, schedules, activity }: BrainParts,
): readonly Service[] {
  const { config, logger } = options;
  return [
    // Before the orchestrator, which is told where the pool is.
    ...(ownPool ? [ownPool] : []),
    ...(streams ? [streams.connection] : []),
    orchestrator,
    new TokenBudgets(tokens, orchestrator, logger),
    ...(ownPool ? [new RegisterOwnModels(env, ownPool, orchestrator)] : []),
    new AwaitServers(env, sourcesOf(servers)),
    new CatalogFiles({ env, logger, folder: resolve(config.state.catalogPath), orchestrator }),
    schedules,
    new ScheduleTicker({ env, logger, orchestrator }),
    new TriggerWatch({ env, logger, orchestrator, activity, triggers: config.governance.triggers }),
    ...(streams?.servicesWith(orchestrator) ?? []),
  ];
}

/** Started last, so that the first scan finds the models, and stopped first. */
function modulesOf({ options, env, tally }: ServerParts, orchestrator: Orchestrator): Modules {
  const { config, logger, data } = options;
  const settings = moduleSettings(config.modules);
  return new Modules({ env, logger, orchestrator, observer: tally.modules, folder: resolve(data) }, settings);
}

function ownPoolOf({ options, env }: ServerParts): OwnPool | undefined {
  const { models = [], workerArgs = [], contextLength, logger, data, isCopy = false } = options;
  if (models.length === 0) return undefined;
  return new OwnPool({ env, logger, models, workerArgs, contextLength, data: resolve(data), isCopy });
}

/** What somebody else runs: the upstreams, the seats of gateways, and spools with their agents. */
function serversOf(
  { options, env, host }: ServerParts,
  lead: BrainTerm | undefined,
  reads: () => Reads,
): OtherServers {
  const { config, logger, data } = options;
  const address = { host, port: options.port ?? config.server.port };
  const { spools, upstreams, gateway, gateways } = otherServers(config, address);
  const common = {
    env,
    logger,
    node: lead?.node,
    isCopy: lead === undefined && (options.isCopy ?? false),
    maxStreams: MAX_WORKER_STREAMS,
    isInCatalog: (name: string) =>
      reads()
        .modelRecord(name)
        .then((record) => record !== undefined),
  };
  const fleet: FleetReads = { backends: () => reads().backends() };
  return {
    gateway: new GatewaySource({ ...common, folder: gatewayFolder(data), settings: gateway }),
    gateways: new RemoteGateways({
      ...common,
      folder: gatewaysFolder(data),
      gateways,
      variables: process.env,
      fleet,
    }),
    others: [
      new UpstreamSource({ ...common, folder: upstreamsFolder(data), upstreams }),
      ...spools.map((each) => new SpoolSource({ env, logger, ...each })),
    ],
  };
}

function orchestratorOf(
  parts: ServerParts,
  { ownPool, streams, servers, activity }: Omit<BrainParts, 'schedules'>,
  lead: BrainTerm | undefined,
): Orchestrator {
  const { options, env, tally, answerRoom } = parts;
  const { config, logger, data } = options;
  const folder = resolve(data);
  // With a term the store is the database that all nodes share: only the folders of this node can be copies, and
  // node-folders.ts has claimed them (docs/decisions/0024).
  const isCopy = lead === undefined && (options.isCopy ?? false);
  const orchestrator: Orchestrator = new Orchestrator({
    isCopy,
    managers: managersOf(parts, ownPool),
    env,
    store: configuredStore(config).open({ env, config, folder, logger, term: lead?.term, isCopy }),
    sources: sourcesOf(servers),
    ...(streams && { doorbell: streams.doorbell }),
    backends: [
      ...backendsOf(parts, isCopy, lead?.node),
      ...parts.agents.backends(
        runReads(() => orchestrator),
        parts.runsCommands
          ? { folder: backendFolder(data, COMMAND_BACKEND), node: lead?.node, isCopy }
          : undefined,
      ),
      ...(options.backends ?? []),
    ],
    settings: runtimeSettings(config),
    logger,
    answerRoom,
    observer: observers([
      ...[new Narrator(logger), new RunTelemetry(logger, tally.runs), tally, activity],
      ...(streams ? [streams.poolNews] : []),
    ]),
  });
  return orchestrator;
}

const backendsOf = ({ env, options }: ServerParts, isCopy: boolean, node: string | undefined): Backend[] =>
  configuredBackends(options.config).map((configured) =>
    configured.make({ env, folder: backendFolder(options.data, configured.name), node, isCopy }),
  );

function managersOf({ options, env, host }: ServerParts, ownPool: OwnPool | undefined): HttpPoolManagers {
  const { config, logger } = options;
  const { pools, pool } = config;
  const secret = pools.token.reveal();
  const configured = pool.managerUrls.map((url) => ({ url, secret: secret === '' ? undefined : secret }));
  return new HttpPoolManagers({
    env,
    logger,
    // Read when the orchestrator starts: the pool of this process has an address by then.
    get pools() {
      return ownPool?.address ? [...configured, ownPool.address] : configured;
    },
    maxAgeMs: pools.stateMaxAgeMs,
    startTimeoutMs: pools.startTimeoutMs,
    // The machine of the brain itself, and the hosts of pools that the configuration names, need no entry of their own.
    registrationHosts: new PoolHosts([
      ...pools.allowedHosts,
      ...pool.managerUrls.map((url) => new URL(url).hostname),
      ...(UNSPECIFIED.has(host) ? [] : [host]),
    ]),
    allowedWorkerHosts: pools.allowedWorkerHosts,
    maxStreams: MAX_WORKER_STREAMS,
  });
}
