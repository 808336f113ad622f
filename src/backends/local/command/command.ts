/**
 * A backend that runs jobs as commands on this machine. A keeper, a process that outlives the brain,
 * runs them (docs/decisions/0025). The token's folder holds the output and the end of the execution, and is all that the
 * brain knows of it.
 *
 * C1  A token runs at most once: its folder is created before its command is started, by a keeper or with a tombstone,
 *     and a second one that tries to create it fails.
 * C2  An end is reported only when no process of the execution runs any more.
 */

import { resolve } from 'node:path';
import {
  type Backend,
  type BackendInfo,
  type ExecutionEnd,
  type ExecutionEvent,
  type ExecutionStatus,
  type FollowEnd,
  type Inspection,
  isMeantFor,
  isOtherBody,
  type KillHow,
  type KillReply,
  type Offer,
  type OfferReply,
  type OtherExecution,
} from '../../../core/ports/backend.ts';
import type { Env } from '../../../kit/env/env.ts';
import { folderCopied } from '../../../kit/folder-identity.ts';
import { LivedTime } from '../../../kit/lived-time.ts';
import { worksIn } from '../../../kit/process/identity.ts';
import { readRecord, writeRecord } from '../../../kit/record-file.ts';
import { Service } from '../../../kit/service.ts';
import { type ErrorInfo, errorInfo, OrchdError } from '../../../model/errors.ts';
import type { Commander } from '../../../model/worker-wire.ts';
import { commandFor } from './arguments.ts';
import { Cleaner } from './cleaner.ts';
import { eraseExecution } from './erase.ts';
import { forbidStart, readTokenState, type TokenState } from './executions.ts';
import { KeeperClient } from './keeper-client.ts';
import { KillOrders } from './kill-orders.ts';
import {
  type ExitRecord,
  isExitRecord,
  isOwnerRecord,
  type Layout,
  layoutOf,
  type OwnerRecord,
  oldFolderName,
  pathsIn,
  pathsOf,
  type TimestampRecord,
  type TokenPaths,
} from './layout.ts';
import { openLayout } from './open-layout.ts';
import { COMMAND_DEFAULTS, type CommandBackendOptions, checkOptions } from './options.ts';
import { endOf } from './outcome.ts';
import { type Milestone, readEvents } from './reader.ts';
import { CommandRegistry } from './registry.ts';
import { specOf } from './spec.ts';

/** The beginning of the names that earlier versions gave to the folders of tokens. */
const OLD_NAME = /^[th]-/;
/** How often `kill` reads a token's state: more than twice only while other processes change the folder. */
const MAX_STATE_READS = 10;
/** Maximum number of executions whose milestones are kept. */
const MAX_MILESTONE_LISTS = 1000;

export class CommandBackend extends Service implements Backend {
  readonly #env: Env;
  readonly #options: CommandBackendOptions;
  readonly #layout: Layout;
  readonly #registry: CommandRegistry;
  readonly #lived: LivedTime;
  readonly #keeper: KeeperClient;
  readonly #cleaner: Cleaner;
  /** The folders of executions that were running when they were last read; the count of used slots. */
  readonly #running = new Set<string>();
  /** Folders of earlier versions, whose names do not contain the brain. */
  #oldFolders: ReadonlySet<string> = new Set();
  readonly #offers = new Map<string, Promise<OfferReply>>();
  readonly #takeOvers = new Map<string, Promise<boolean>>();
  readonly #kills: KillOrders;
  readonly #milestones = new Map<string, Milestone[]>();
  #opened: Promise<void> | undefined;

  constructor(env: Env, options: CommandBackendOptions) {
    super();
    checkOptions(options);
    this.#env = env;
    this.#options = options;
    this.#layout = layoutOf(resolve(options.folder));
    this.#registry = new CommandRegistry(env, this.#layout);
    this.#lived = new LivedTime(env, this.#layout.lived);
    this.#keeper = new KeeperClient(env, this.#layout.folder, this.stopSignal);
    this.#kills = new KillOrders(env, this.#keeper);
    this.#cleaner = new Cleaner({
      env,
      layout: this.#layout,
      registry: this.#registry,
      lived: this.#lived,
      keepAckedMs: options.keepAckedMs ?? COMMAND_DEFAULTS.keepAckedMs,
      onOpen: (paths, state) => this.#adopt(paths, state),
      onRemoved: (name) => void this.#milestones.delete(name),
    });
  }

  /** `registry` is empty until the backend is started. */
  get info(): BackendInfo {
    const { name, slots, types, models, labels, paid, node } = this.#options;
    return {
      name,
      kind: 'command',
      slots: slots ?? COMMAND_DEFAULTS.slots,
      types: Object.keys(types),
      models,
      labels: labels ?? COMMAND_DEFAULTS.labels,
      paid: paid ?? COMMAND_DEFAULTS.paid,
      keepsResults: true,
      registry: this.#registry.id,
      node,
    };
  }

  protected async onStart(): Promise<void> {
    await this.#open();
    // The keeper is started before the folder is scanned, because both take a while.
    this.#keeper.prepare();
    await this.#cleaner.start();
  }

  /** Leaves the executions running. */
  protected async onStop(): Promise<void> {
    await this.#cleaner.stop();
  }

  async offer(offer: Offer): Promise<OfferReply> {
    await this.#open();
    if (await this.#registry.openings.isFenced(offer)) return { is: 'fenced' };
    if (!isMeantFor(this.#registry.id, offer)) return { is: 'busy' };
    const paths = this.#paths(offer.owner, offer.token);
    let reply = this.#offers.get(paths.name);
    if (!reply) {
      reply = this.#offer(offer, paths).finally(() => this.#offers.delete(paths.name));
      this.#offers.set(paths.name, reply);
    }
    return reply;
  }

  async inspect(tokens: readonly string[], who: Commander): Promise<Inspection> {
    await this.#open();
    if (await this.#registry.openings.isFenced(who)) throw new OrchdError('FENCED');
    const known = new Map<string, ExecutionStatus>();
    for (const token of tokens) {
      const status = await this.#status(this.#paths(who.owner, token));
      if (status) known.set(token, status);
    }
    const { id: registry, since: rememberedSince } = this.#registry;
    const others = this.#unacknowledged(who.owner, new Set(tokens));
    return { registry, rememberedSince, known, others, ...this.#registry.openings.openingBefore(who) };
  }

  async follow(
    token: string,
    from: number,
    on: (event: ExecutionEvent) => void,
    who: Commander,
    signal?: AbortSignal,
  ): Promise<FollowEnd> {
    await this.#open();
    const paths = this.#paths(who.owner, token);
    const owner = await readRecord(this.#env.disk, paths.owner, isOwnerRecord);
    if (!owner) return { is: 'lost' };
    const readExit = (checkAlive: boolean): Promise<ExitRecord | undefined> =>
      this.#exitOf(paths, checkAlive);
    const execution = { env: this.#env, paths, owner, milestones: this.#milestonesOf(paths.name), readExit };
    const stop = signal ? AbortSignal.any([signal, this.stopSignal]) : this.stopSignal;
    const exit = await readEvents(execution, from, on, stop);
    return exit ? this.#endOf(paths, exit, owner) : { is: 'lost' };
  }

  async kill(token: string, who: Commander, how: KillHow = 'end'): Promise<KillReply> {
    await this.#open();
    if (await this.#registry.openings.isFenced(who)) return { is: 'fenced' };
    const { id: registry, since: rememberedSince } = this.#registry;
    const paths = this.#paths(who.owner, token);
    for (let reads = 0; reads < MAX_STATE_READS; reads++) {
      const state = await readTokenState(this.#env.disk, paths);
      switch (state.is) {
        case 'absent':
          // A keeper may create the folder in the meantime; then the next read finds it.
          await this.#forbidStart(paths);
          continue;
        case 'tombstone':
          return {
            is: 'tombstoned',
            registry,
            rememberedSince,
            ...this.#registry.openings.openingBefore(who),
          };
        case 'ended':
          return withHash(await this.#endOf(paths, state.exit, state.owner), state.owner);
        case 'orphaned':
          if (!(await this.#takeOver(paths))) return { is: 'stopping' };
          continue;
        case 'running':
          if (how === 'bury') return { is: 'running' };
          await this.#kills.kill(paths, state.owner, this.#registry.id);
          return { is: 'stopping' };
      }
    }
    throw new Error(`the folder of ${token} keeps changing`);
  }

  async ack(token: string, who: Commander): Promise<void> {
    await this.#open();
    if (await this.#registry.openings.isFenced(who)) return;
    const paths = this.#paths(who.owner, token);
    const state = await readTokenState(this.#env.disk, paths);
    if (state.is !== 'ended') return;
    const record = this.#timestamp();
    // Without it after a power loss, the folder stays longer than it has to.
    await writeRecord(this.#env, paths.acked, record, 'unsynced');
    this.#cleaner.acknowledged(paths.name, record);
  }

  async erase(token: string, who: Commander): Promise<void> {
    await this.#open();
    if (await this.#registry.openings.isFenced(who)) return;
    const paths = this.#paths(who.owner, token);
    const state = await readTokenState(this.#env.disk, paths);
    if (state.is !== 'ended') return;
    // The offer that has begun it may still be looking at the folder.
    await this.#offers.get(paths.name);
    const record = this.#timestamp();
    await eraseExecution(this.#env, paths, record);
    this.#running.delete(paths.name);
    this.#milestones.delete(paths.name);
    this.#cleaner.startForbidden(paths.name, record);
  }

  /** Ends of this brain that it was not asked about: their acknowledgements were lost with a process of the brain. */
  #unacknowledged(owner: string, asked: ReadonlySet<string>): OtherExecution[] {
    const others: OtherExecution[] = [];
    for (const { name, token } of this.#cleaner.unacknowledged())
      if (!asked.has(token) && this.#paths(owner, token).name === name)
        others.push({ token, isRunning: false });
    return others;
  }

  async #forbidStart(paths: TokenPaths): Promise<void> {
    const record = this.#timestamp();
    if (await forbidStart(this.#env, this.#layout, paths, record))
      this.#cleaner.startForbidden(paths.name, record);
  }

  #timestamp(): TimestampRecord {
    return { at: this.#env.clock.now(), lived: this.#lived.now() };
  }

  #paths(owner: string, token: string): TokenPaths {
    const old = this.#oldFolders.size === 0 ? '' : oldFolderName(token);
    return this.#oldFolders.has(old) ? pathsIn(this.#layout, old) : pathsOf(this.#layout, owner, token);
  }

  #open(): Promise<void> {
    // A failure is not kept: a missing permission or a full disk may be fixed by the next call.
    this.#opened ??= this.#makeFolders().catch((error) => {
      this.#opened = undefined;
      throw error;
    });
    return this.#opened;
  }

  async #makeFolders(): Promise<void> {
    await openLayout(this.#env, this.#layout, this.#options.isCopy ?? false);
    await this.#lived.open();
    await this.#registry.open();
    const names = await this.#env.disk.list(this.#layout.executions);
    this.#oldFolders = new Set(names.filter((name) => OLD_NAME.test(name)));
  }

  /** Takes an execution found in the folder into account: it has a slot while it runs, and a living keeper. */
  async #adopt(paths: TokenPaths, found: TokenState): Promise<void> {
    let state = found;
    if (state.is === 'orphaned' && (await this.#takeOver(paths)))
      state = await readTokenState(this.#env.disk, paths);
    if (state.is !== 'running') return;
    // The marker file of a snapshot of the whole disk is the original's; its keepers work in another folder.
    if (worksIn(state.owner.pid, this.#layout.folder) === false) throw folderCopied(this.#layout.folder);
    this.#running.add(paths.name);
  }

  async #offer(offer: Offer, paths: TokenPaths): Promise<OfferReply> {
    const former = await this.#formerReply(offer, paths);
    if (former) return former;
    const { types, slots = COMMAND_DEFAULTS.slots } = this.#options;
    const command = await commandFor(types, offer, paths.work, this.#env.timers);
    if (command instanceof OrchdError) return { is: 'refused', error: command.info() };
    if (this.#running.size >= slots) await this.#recount();
    if (this.#running.size >= slots) return { is: 'busy' };
    // The slot is taken before the launch, so that two concurrent offers do not take the same one.
    this.#running.add(paths.name);
    const input = command.input ?? offer.payloadText;
    const spec = specOf(offer, command, {
      name: paths.name,
      registry: this.#registry.id,
      maxOutputBytes: this.#options.maxOutputBytes ?? COMMAND_DEFAULTS.maxOutputBytes,
      offeredAt: this.#env.clock.now(),
    });
    const reply = await this.#keeper.run(spec, input, this.#registry.id);
    if (reply.is === 'accepted') return reply;
    this.#running.delete(paths.name);
    const concurrent = await this.#formerReply(offer, paths);
    if (concurrent) return concurrent;
    const message = reply.is === 'failed' ? reply.message : 'its folder is gone';
    return { is: 'refused', error: { ...errorInfo('WORKER_START_FAILED', message), retriable: true } };
  }

  /** The reply to an offer whose token's folder exists already; undefined where it does not. */
  async #formerReply({ ask }: Offer, paths: TokenPaths): Promise<OfferReply | undefined> {
    const state = await readTokenState(this.#env.disk, paths);
    if (state.is === 'absent') return undefined;
    if (state.is === 'tombstone') return refused('the token was withdrawn');
    return isOtherBody(state.owner?.hash, ask.hash) ? { is: 'conflict' } : { is: 'accepted' };
  }

  /** Frees the slots of executions that have ended meanwhile; an offer that is under way keeps its slot. */
  async #recount(): Promise<void> {
    for (const name of this.#running)
      if (!this.#offers.has(name)) await this.#status(pathsIn(this.#layout, name));
  }

  async #status(paths: TokenPaths): Promise<ExecutionStatus | undefined> {
    let state = await readTokenState(this.#env.disk, paths);
    if (state.is === 'orphaned' && (await this.#takeOver(paths)))
      state = await readTokenState(this.#env.disk, paths);
    if (state.is === 'ended') return withHash(await this.#endOf(paths, state.exit, state.owner), state.owner);
    if (state.is === 'running' || state.is === 'orphaned')
      return withHash({ is: 'running' } as const, state.owner);
    this.#running.delete(paths.name);
    return undefined;
  }

  /** Reads the outcome of an ended execution and frees its slot. Every caller that finds an end comes through here. */
  #endOf(paths: TokenPaths, exit: ExitRecord, owner: OwnerRecord | undefined): Promise<ExecutionEnd> {
    this.#running.delete(paths.name);
    this.#kills.ended(paths.name);
    return endOf(this.#env, paths.stdout, exit, { changed: this.#options.outcomeOf, output: owner?.output });
  }

  async #exitOf(paths: TokenPaths, checkAlive: boolean): Promise<ExitRecord | undefined> {
    if (!checkAlive) return readRecord(this.#env.disk, paths.exit, isExitRecord);
    const state = await readTokenState(this.#env.disk, paths);
    if (state.is === 'orphaned') await this.#takeOver(paths);
    else if (state.is === 'absent' || state.is === 'tombstone')
      throw new Error(`the folder ${paths.name} is gone, or was erased`);
    return state.is === 'ended' ? state.exit : undefined;
  }

  /**
   * Has the keeper of this brain take over an execution whose own keeper is dead: it goes on, or is ended where its
   * wrapper is dead too. False when that fails; the next call tries again. Concurrent calls for one token share one run.
   */
  #takeOver({ name }: TokenPaths): Promise<boolean> {
    let taking = this.#takeOvers.get(name);
    if (!taking) {
      taking = this.#keeper
        .adopt(name, this.#registry.id)
        .then(({ is }) => is !== 'failed')
        .catch(() => false)
        .finally(() => this.#takeOvers.delete(name));
      this.#takeOvers.set(name, taking);
    }
    return taking;
  }

  #milestonesOf(name: string): Milestone[] {
    const known = this.#milestones.get(name) ?? [];
    // Deleted and set again, so that the map is in the order of use and the least recently used list goes first.
    this.#milestones.delete(name);
    this.#milestones.set(name, known);
    const oldest = this.#milestones.keys().next().value;
    if (this.#milestones.size > MAX_MILESTONE_LISTS && oldest !== undefined) this.#milestones.delete(oldest);
    return known;
  }
}

function refused(message: string): OfferReply {
  const error: ErrorInfo = errorInfo('WORKER_NOT_FOUND', message);
  return { is: 'refused', error };
}

const withHash = <T extends object>(
  status: T,
  owner: OwnerRecord | undefined,
): T & { readonly hash?: string } => (owner?.hash === undefined ? status : { ...status, hash: owner.hash });
