/** A node of a cluster with its HTTP surface: it answers by its brain while it leads, else by the one that does. */

import { hostname } from 'node:os';
import { clusterRoutes, leaderView, routeIn, routeTable } from '../api/cluster.ts';
import { Forwarder } from '../api/forward.ts';
import { isLoopbackHost } from '../config/address.ts';
import type { ResolvedConfig } from '../config/resolve.ts';
import type { Leadership, Term } from '../core/ports/leadership.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import type { LeaderView } from '../model/http/meta.ts';
import { Member } from '../runtime/member.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { HttpServer } from '../wire/http-server.ts';
import { Outbound } from '../wire/outbound.ts';
import type { Route } from '../wire/route.ts';
import type { RunningServer } from './running-server.ts';

/** An address of all interfaces is none to be reached by. */
const addressOf = (url: string): string => url.replace(/\/\/(0\.0\.0\.0|\[::\]):/, `//${hostname()}:`);

/** What the gate of a node knows of the others. */
export interface NodeGate {
  readonly hosts: readonly string[];
  readonly secret: () => string;
}

export interface NodeParts {
  readonly env: Env;
  readonly config: ResolvedConfig;
  readonly logger: Logger;
  readonly leadership: Leadership & { readonly secret: string };
  readonly brain: (term?: Term, node?: string) => Orchestrator;
  readonly routes: (
    brain: Orchestrator,
    how: { readonly leader: () => LeaderView; readonly canAsk: () => boolean },
  ) => readonly Route[];
  readonly server: (routes: readonly Route[], node: NodeGate) => HttpServer;
  readonly urlOf: (port: number) => string;
  readonly onStop: () => Promise<void>;
}

const MAX_FORWARDED = 10_000;

interface Self {
  node: string;
  address: string;
}

/** What the configuration leaves open is known once it listens. */
function nameSelf(self: Self, url: string, logger: Logger): void {
  const { hostname: host, port } = new URL(url);
  if (self.address === '' && isLoopbackHost(host)) {
    logger.warn('only this machine reaches this node: nodes on others need cluster.address');
  }
  self.address ||= addressOf(url);
  self.node ||= `${hostname()}:${port}`;
}

export async function serveNode(parts: NodeParts): Promise<RunningServer> {
  const { env, config, leadership, logger } = parts;
  const self: Self = { node: config.cluster.node, address: config.cluster.address };
  const outbound = new Outbound({
    timers: env.timers,
    limits: { maxCalls: MAX_FORWARDED, maxStreams: MAX_FORWARDED },
  });
  const leader = (): LeaderView =>
    leaderView(leadership.leader, member.brain !== undefined, self.node, leadership.lockName);
  // Not started: it lends its shape to the routes, and answers for a node without a brain.
  const idle = routeTable(parts.routes(parts.brain(), { leader, canAsk: () => member.leader !== undefined }));
  let present = idle;
  let stopping = false;
  const member: Member<Orchestrator> = new Member({
    env,
    leadership,
    self,
    logger,
    make: (term) => {
      const brain = parts.brain(term, self.node);
      present = routeTable(parts.routes(brain, { leader, canAsk: () => false }));
      return brain;
    },
  });
  const forwarder = new Forwarder({
    env,
    outbound,
    secret: () => leadership.secret,
    leader: () => member.leader,
    ownEpoch: () => member.epoch,
    self,
    here: (route) => (member.brain ? routeIn(present, route) : undefined),
    changed: (atMostMs) => member.changed(atMostMs),
    holdMs: config.cluster.holdMs,
    heartbeatMs: config.server.heartbeatMs,
    stopping: () => stopping,
  });
  const http = parts.server(
    clusterRoutes([...idle.values()], forwarder, () => (member.brain ? present : idle)),
    {
      hosts: [hostname().toLowerCase(), ...(self.address === '' ? [] : [new URL(self.address).hostname])],
      secret: () => leadership.secret,
    },
  );
  const stop = async (): Promise<void> => {
    stopping = true;
    await parts.onStop();
    member.brain?.following.closeAll();
    await http.stop();
    await member.stop();
    outbound.close();
  };
  try {
    await http.start();
    const url = parts.urlOf(http.port);
    nameSelf(self, url, logger);
    await member.start();
    return {
      url,
      get failure() {
        return member.failure;
      },
      stop,
    };
  } catch (error) {
    await stop().catch(() => undefined);
    throw error;
  }
}
