/** A node of a cluster with its HTTP surface: it answers by its brain while it leads, else by the one that does. */
import { hostname } from 'node:os';
import { apiRoutes } from '../api/api.ts';
import { clusterRoutes, leaderView, routeIn, routeTable } from '../api/cluster.ts';
import { Forwarder } from '../api/forward.ts';
import type { ModuleDirectory } from '../api/modules.ts';
import { isLoopbackHost } from '../config/address.ts';
import type { Logger } from '../kit/logger.ts';
import { Service } from '../kit/service.ts';
import { ServiceList } from '../kit/service-list.ts';
import { OrchdError } from '../model/errors.ts';
import type { LeaderView } from '../model/http/meta.ts';
import type { ReloadReport } from '../model/http/reload.ts';
import type { LeftWork } from '../runtime/left-work.ts';
import { Member } from '../runtime/member.ts';
import type { NodeLeadership } from '../stores/descriptor.ts';
import { configuredStore } from '../stores/registry.ts';
import type { HttpServer } from '../wire/http-server.ts';
import { Outbound } from '../wire/outbound.ts';
import type { Route } from '../wire/route.ts';
import { Brain } from './brain.ts';
import { apiOptions, httpServer, OpenCalls, urlOf } from './http.ts';
import { NodeFolders } from './node-folders.ts';
import type { RunningServer, ServerParts } from './parts.ts';
import { Reloader } from './reloader.ts';
import { NO_MODULES, STANDBY } from './standby.ts';

/** Requests that may be forwarded to the leader at a time, and the same for streams. */
const MAX_FORWARDED = 10_000;

type Answering = Pick<Brain, 'orchestrator'> &
  Partial<Pick<Brain, 'streams'>> & { readonly modules: ModuleDirectory };

export class ClusterNode extends Service implements RunningServer {
  readonly #parts: ServerParts;
  readonly #leadership: NodeLeadership;
  readonly #outbound: Outbound;
  readonly #member: Member<Brain>;
  readonly #http: HttpServer;
  readonly #identity: NodeIdentity;
  readonly #openCalls: OpenCalls;
  readonly #services: ServiceList;
  /** The routes of the brain that was made last; they are used while it leads. */
  #leading: ReadonlyMap<string, Route> = new Map();
  readonly #reloader: Reloader;
  /** The brain that was made last, from the configuration that was in use then. */
  #made: Brain | undefined;
  #left: LeftWork | undefined;
  readonly hasNodes = true;

  constructor(parts: ServerParts, leadership: NodeLeadership) {
    super();
    refuseModels(parts);
    this.#parts = parts;
    this.#leadership = leadership;
    const { env, options } = parts;
    const { config, logger } = options;
    const limits = { maxCalls: MAX_FORWARDED, maxStreams: MAX_FORWARDED };
    this.#outbound = new Outbound({ timers: env.timers, limits });
    this.#identity = new NodeIdentity(config.cluster, logger, () => this.url);
    this.#member = new Member({
      env,
      leadership,
      self: this.#identity,
      logger,
      makeBrain: (term) => {
        const current = { ...parts, options: { ...options, config: this.#reloader.config } };
        const brain = new Brain(current, { term, node: this.#identity.node });
        this.#made = brain;
        this.#leading = routeTable(this.#routesOf(brain, () => false));
        return brain;
      },
    });
    this.#reloader = new Reloader(parts, () => this.#leadingBrain());
    this.#http = this.#server();
    this.#openCalls = new OpenCalls(this.#http, () => this.#member.brain?.orchestrator);
    this.#services = new ServiceList([
      new NodeFolders(parts),
      parts.tokens,
      parts.folderMeter,
      this.#reloader,
      this.#http,
      // The port is known only now, if the configuration leaves it open.
      this.#identity,
      this.#member,
      this.#openCalls,
    ]);
  }

  get url(): string {
    return urlOf(this.#parts.host, this.#http.port);
  }

  get failure(): Error | undefined {
    return this.#member.failure;
  }

  get left(): LeftWork | undefined {
    return this.#left;
  }

  reload(by: string): Promise<ReloadReport> {
    return this.#reloader.reload(by);
  }

  protected onStart(): Promise<void> {
    return this.#services.start();
  }

  /** One that is starting is waited for: it was made before a reload that is under way. */
  async #leadingBrain(): Promise<Brain | undefined> {
    await this.#made?.start().catch(() => undefined);
    return this.#member.brain;
  }

  protected async onStop(): Promise<void> {
    // While the server still answers: it leads until it has drained, and other nodes forward requests to it.
    await this.#member.drain();
    this.#left = this.#member.brain?.left;
    await this.#services.stop();
    this.#outbound.close();
  }

  #routesOf({ orchestrator, modules, streams }: Answering, canForward: () => boolean): readonly Route[] {
    return apiRoutes(orchestrator, {
      ...apiOptions(this.#parts, modules, this.#reloader),
      leader: () => this.#leaderView(),
      canForward,
      redisProblems: streams && (() => streams.problems()),
    });
  }

  #leaderView(): LeaderView {
    const { leader, lockName } = this.#leadership;
    return leaderView(leader, this.#member.brain !== undefined, this.#identity.node, lockName);
  }

  #server(): HttpServer {
    const standby = routeTable(
      this.#routesOf({ orchestrator: STANDBY, modules: NO_MODULES }, () => this.#member.leader !== undefined),
    );
    const routes = clusterRoutes([...standby.values()], this.#forwarder(), () =>
      this.#member.brain ? this.#leading : standby,
    );
    const { address } = this.#identity;
    return httpServer(this.#parts, routes, {
      hosts: [hostname().toLowerCase(), ...(address === '' ? [] : [new URL(address).hostname])],
      secret: () => this.#leadership.secret,
    });
  }

  #forwarder(): Forwarder {
    const { env, options } = this.#parts;
    const { cluster, server } = options.config;
    const member = this.#member;
    return new Forwarder({
      env,
      outbound: this.#outbound,
      secret: () => this.#leadership.secret,
      leader: () => member.leader,
      ownEpoch: () => member.epoch,
      self: this.#identity,
      localRoute: (route) => (member.brain ? routeIn(this.#leading, route) : undefined),
      leaderChanged: (atMostMs) => member.changed(atMostMs),
      holdMs: cluster.holdMs,
      heartbeatMs: server.heartbeatMs,
      isStopping: () => this.#openCalls.closing,
    });
  }
}

/** The name of a node and the address by which other nodes reach it. */
class NodeIdentity extends Service {
  node: string;
  address: string;
  readonly #logger: Logger;
  readonly #url: () => string;

  constructor(configured: { node: string; address: string }, logger: Logger, url: () => string) {
    super();
    this.node = configured.node;
    this.address = configured.address;
    this.#logger = logger;
    this.#url = url;
  }

  protected async onStart(): Promise<void> {
    const url = this.#url();
    const { hostname: host, port } = new URL(url);
    if (this.address === '' && isLoopbackHost(host))
      this.#logger.warn('only this machine reaches this node: nodes on others need cluster.address');
    this.address ||= reachable(url);
    this.node ||= `${hostname()}:${port}`;
  }

  protected async onStop(): Promise<void> {}
}

/** Nobody can reach the address of all interfaces: the name of the machine stands for it. */
const reachable = (url: string): string => url.replace(/\/\/(0\.0\.0\.0|\[::\]):/, `//${hostname()}:`);

function refuseModels({ options: { models = [], config } }: ServerParts): void {
  if (models.length === 0) return;
  throw new OrchdError(
    'CONFIG_INVALID',
    `on ${configuredStore(config).title} start \`orchd pool\` for models: its workers serve all nodes`,
  );
}
