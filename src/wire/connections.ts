/**
 * Decides which connections a server keeps when there are too many.
 *
 * C1  A connection with a request under way is never closed to make room. All others are: first the oldest of those that
 *     have not sent a whole request yet, then the one that has been idle longest. So silent connections keep nobody out.
 * C2  When every connection is busy, RESERVED_CONNECTIONS more are accepted, for MAX_RESERVED_MS each: enough to ask a
 *     public route such as /health. The newest ones are kept.
 * C3  One address holds at most its share of the connections; at its limit it makes room among its own.
 */
import { isIPv6, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';

export interface ConnectionLimits {
  readonly maxConnections: number;
  /** 0: ADDRESS_SHARE of `maxConnections`, and no limit for loopback, where a proxy connects for all of its clients. */
  readonly maxConnectionsPerAddress: number;
}

const ADDRESS_SHARE = 3 / 4;
const RESERVED_CONNECTIONS = 32;
const MAX_RESERVED_MS = 2000;
/** How long a refused caller has to read the answer and to end its side of the connection. */
const LINGER_MS = 1500;

/** Connections that share a limit: those of one IPv4 address, or of one IPv6 network. */
interface AddressGroup {
  readonly name: string;
  readonly limit: number;
  count: number;
  readonly idle: Set<Socket>;
}

interface Connection {
  readonly group: AddressGroup;
  /** Requests whose answers are not complete. */
  requests: number;
}

export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #open = new Map<Socket, Connection>();
  readonly #groups = new Map<string, AddressGroup>();
  /** Open connections without a request so far, oldest first. */
  readonly #silent = new Set<Socket>();
  /** Open connections between two requests, those that have been idle longest first. */
  readonly #idle = new Set<Socket>();
  /** Connections beyond the limits, oldest first (C2). */
  readonly #reserved = new Set<Socket>();

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  /** A new connection. */
  readonly accept = (socket: Socket): void => {
    const group = this.#groupOf(socket.remoteAddress);
    if (!this.#hasRoom(group)) return this.#reserve(socket);
    this.#groups.set(group.name, group);
    group.count++;
    group.idle.add(socket);
    this.#open.set(socket, { group, requests: 0 });
    this.#silent.add(socket);
    socket.once('close', () => this.#forget(socket));
  };

  /** A request has arrived. Returns `reserved` on a connection that is only for public routes. */
  begin(socket: Socket): 'open' | 'reserved' {
    const connection = this.#open.get(socket);
    if (connection) {
      connection.requests++;
      this.#silent.delete(socket);
      this.#idle.delete(socket);
      connection.group.idle.delete(socket);
    }
    return this.#reserved.has(socket) ? 'reserved' : 'open';
  }

  /** The answer to a request is complete. */
  end(socket: Socket): void {
    const connection = this.#open.get(socket);
    if (!connection || --connection.requests > 0) return;
    this.#idle.add(socket);
    connection.group.idle.add(socket);
  }

  /** Whether one more connection is within the limits, if need be after an idle one was closed. */
  #hasRoom(group: AddressGroup): boolean {
    if (group.count >= group.limit) return this.#closeFirst(group.idle);
    if (this.#open.size < this.#limits.maxConnections) return true;
    return this.#closeFirst(this.#silent) || this.#closeFirst(this.#idle);
  }

  #closeFirst(sockets: ReadonlySet<Socket>): boolean {
    const [first] = sockets;
    if (!first) return false;
    this.#forget(first);
    first.destroy();
    return true;
  }

  #reserve(socket: Socket): void {
    const [oldest] = this.#reserved;
    if (oldest && this.#reserved.size >= RESERVED_CONNECTIONS) {
      this.#reserved.delete(oldest);
      oldest.destroy();
    }
    this.#reserved.add(socket);
    socket.once('close', () => this.#reserved.delete(socket));
    destroyAfter(socket, MAX_RESERVED_MS);
  }

  #groupOf(address: string | undefined): AddressGroup {
    const name = networkOf(address ?? '');
    const known = this.#groups.get(name);
    if (known) return known;
    const { maxConnections, maxConnectionsPerAddress } = this.#limits;
    const share = isLoopback(name) ? Number.POSITIVE_INFINITY : Math.ceil(maxConnections * ADDRESS_SHARE);
    return { name, limit: maxConnectionsPerAddress || share, count: 0, idle: new Set() };
  }

  #forget(socket: Socket): void {
    const connection = this.#open.get(socket);
    if (!connection) return;
    const { group } = connection;
    this.#open.delete(socket);
    this.#silent.delete(socket);
    this.#idle.delete(socket);
    group.idle.delete(socket);
    if (--group.count === 0) this.#groups.delete(group.name);
  }
}

/** Closes a refused connection for good: after `end` alone, a peer that does not close its side would keep it open. */
export function endSoon(socket: Duplex, text: string): void {
  socket.end(text);
  destroyAfter(socket, LINGER_MS);
}

function destroyAfter(socket: Duplex, ms: number): void {
  const timer = setTimeout(() => socket.destroy(), ms);
  socket.once('close', () => clearTimeout(timer));
}

const isLoopback = (network: string): boolean => network.startsWith('127.') || network === '::1';

/** An IPv4 address, or the /64 network of an IPv6 address: a single host usually has all addresses of its /64. */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address) || address === '::1') return address;
  const [head = '', tail] = address.replace(/%.*$/, '').split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const last = tail === '' ? [] : tail.split(':');
    while (groups.length + last.length < 8) groups.push('0');
  }
  while (groups.length < 4) groups.push('0');
  return groups.slice(0, 4).join(':');
}
