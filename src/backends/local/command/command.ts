/**
 * Commands of this machine as a backend. Each runs under a supervisor process that outlives the brain; its
 * folder holds its output and its end, and is all that the brain knows of it.
 *
 * C1  A token runs at most once: its folder is taken before its command is started, by a supervisor or by a
 *     tombstone, and whoever comes second finds it taken.
 * C2  An end is reported only when nothing of the execution runs any more.
 */

import { resolve } from 'node:path';
import {
  type Backend,
  type BackendInfo,
  type ExecutionEvent,
  type ExecutionOutcome,
  type ExecutionStatus,
  type FollowEnd,
  type Inspection,
  isMeantFor,
  type KillHow,
  type KillReply,
  type Offer,
  type OfferReply,
} from '../../../core/ports/backend.ts';
import type { Env } from '../../../kit/env/env.ts';
import { plainEnvironment } from '../../../kit/process/environment.ts';
import { signal as sendSignal } from '../../../kit/process/identity.ts';
import { markVariable } from '../../../kit/process/marked.ts';
import { readRecord, writeRecord } from '../../../kit/record-file.ts';
import { Service } from '../../../kit/service.ts';
import { type ErrorInfo, errorInfo } from '../../../model/errors.ts';
import type { Commander } from '../../../model/worker-wire.ts';
import { forbidStart, type Look, lookAt, settle } from './executions.ts';
import { Keeper } from './keeper.ts';
import { Launcher } from './launcher.ts';
import {
  type ExitRecord,
  isExitRecord,
  isOwnerRecord,
  type Layout,
  layoutOf,
  markOf,
  type OwnerRecord,
  pathsOf,
  type Spec,
  type TokenPaths,
} from './layout.ts';
import { type CommandBackendOptions, type CommandType, checkOptions } from './options.ts';
import { outcomeOf } from './outcome.ts';
import { type Milestone, readEvents } from './reader.ts';
import { Registry } from './registry.ts';

const KEEP_ACKED_MS = 10 * 60_000;
/** Only other hands in the folder make one look not enough. */
const MAX_LOOKS = 10;
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;
/** A supervisor that has not carried out a kill by then is killed itself, and what it ran with it. */
const STUCK_MS = 10_000;
/** Executions whose milestones are remembered. */
const MAX_MILESTONED = 1000;

export class CommandBackend extends Service implements Backend {
  readonly #env: Env;
  readonly #options: CommandBackendOptions;
  readonly #layout: Layout;
  readonly #registry: Registry;
  readonly #launcher: Launcher;
  readonly #keeper: Keeper;
  /** Tokens that were running when last seen, for counting slots. */
  readonly #running = new Set<string>();
  readonly #offers = new Map<string, Promise<OfferReply>>();
  readonly #settling = new Map<string, Promise<boolean>>();
  readonly #kills = new Map<string, { readonly at: number; readonly recorded: Promise<void> }>();
  readonly #milestones = new Map<string, Milestone[]>();
  #opened: Promise<void> | undefined;

  constructor(env: Env, options: CommandBackendOptions) {
    super();
    checkOptions(options);
    this.#env = env;
    this.#options = options;
    this.#layout = layoutOf(resolve(options.folder));
    this.#registry = new Registry(env, this.#layout);
    this.#launcher = new Launcher(env, this.#layout.folder, this.stopSignal);
    this.#keeper = new Keeper({
      env,
      layout: this.#layout,
      registry: this.#registry,
      keepAckedMs: options.keepAckedMs ?? KEEP_ACKED_MS,
      onOpen: (paths, look) => this.#adopt(paths, look),
      onRemoved: (name) => this.#milestones.delete(name),
    });
  }

  /** The registry is known once it is started. */
  get info(): BackendInfo {
    const { name, slots, types, models, labels, paid, node } = this.#options;
    return {
      name,
      kind: 'command',
      slots: slots ?? 1,
      types: Object.keys(types),
      models,
      labels: labels ?? {},
      paid: paid ?? false,
      keepsResults: true,
      registry: this.#registry.id,
      node,
    };
  }

  protected async onStart(): Promise<void> {
    await this.#open();
    // Started before the folder is gone through: both take a while.
    this.#launcher.prepare();
    await this.#keeper.start();
  }

  /** Executions go on without us. */
  protected async onStop(): Promise<void> {
    await this.#keeper.stop();
  }

  async offer(offer: Offer): Promise<OfferReply> {
    await this.#open();
    if (await this.#registry.isFenced(offer)) return { is: 'fenced' };
    if (!isMeantFor(this.#registry.id, offer)) return { is: 'busy' };
    let reply = this.#offers.get(offer.token);
    if (!reply) {
      reply = this.#offer(offer).finally(() => this.#offers.delete(offer.token));
      this.#offers.set(offer.token, reply);
    }
    return reply;
  }

  async inspect(tokens: readonly string[], who: Commander): Promise<Inspection> {
    await this.#open();
    await this.#registry.isFenced(who);
    const known = new Map<string, ExecutionStatus>();
    for (const token of tokens) {
      const status = await this.#status(token);
      if (status) known.set(token, status);
    }
    return { registry: this.#registry.id, rememberedSince: this.#registry.since, known };
  }

  async follow(
    token: string,
    from: number,
    on: (event: ExecutionEvent) => void,
    _who: Commander,
    signal?: AbortSignal,
  ): Promise<FollowEnd> {
    await this.#open();
    const paths = this.#paths(token);
    const owner = await readRecord(this.#env.disk, paths.owner, isOwnerRecord);
    if (!owner) return { is: 'lost' };
    const ended = (closer: boolean): Promise<ExitRecord | undefined> => this.#exitOf(token, paths, closer);
    const parts = { env: this.#env, paths, owner, milestones: this.#milestonesOf(paths.name), ended };
    const stop = signal ? AbortSignal.any([signal, this.stopSignal]) : this.stopSignal;
    const exit = await readEvents(parts, from, on, stop);
    if (!exit) return { is: 'lost' };
    return { is: 'ended', outcome: await this.#outcome(token, paths, exit) };
  }

  async kill(token: string, who: Commander, how: KillHow = 'end'): Promise<KillReply> {
    await this.#open();
    if (await this.#registry.isFenced(who)) return { is: 'fenced' };
    const { id: registry, since: rememberedSince } = this.#registry;
    const paths = this.#paths(token);
    for (let looks = 0; looks < MAX_LOOKS; looks++) {
      const look = await lookAt(this.#env.disk, paths);
      switch (look.is) {
        case 'absent':
          // Somebody may take it in this moment; then it is there at the next look.
          if (await forbidStart(this.#env, this.#layout, paths))
            this.#keeper.startForbidden(paths.name, this.#env.clock.now());
          continue;
        case 'tombstone':
          return { is: 'tombstoned', registry, rememberedSince };
        case 'ended':
          return { is: 'ended', outcome: await this.#outcome(token, paths, look.exit) };
        case 'orphaned':
          if (!(await this.#settle(paths, look.owner))) return { is: 'stopping' };
          continue;
        case 'running':
          if (how === 'bury') return { is: 'running' };
          await this.#order(paths, look.owner);
          return { is: 'stopping' };
      }
    }
    throw new Error(`the folder of ${token} does not stay as it is`);
  }

  async ack(token: string, who: Commander): Promise<void> {
    await this.#open();
    if (await this.#registry.isFenced(who)) return;
    const paths = this.#paths(token);
    const look = await lookAt(this.#env.disk, paths);
    if (look.is !== 'ended') return;
    const at = this.#env.clock.now();
    await writeRecord(this.#env, paths.acked, { at }, 'visible');
    this.#keeper.acknowledged(paths.name, at);
  }

  #paths(token: string): TokenPaths {
    return pathsOf(this.#layout, token);
  }

  #open(): Promise<void> {
    // What failed for want of space or rights may work the next time.
    this.#opened ??= this.#makeFolders().catch((error) => {
      this.#opened = undefined;
      throw error;
    });
    return this.#opened;
  }

  async #makeFolders(): Promise<void> {
    const { folder, executions, epochs, staging, trash } = this.#layout;
    for (const path of [folder, executions, epochs, staging, trash]) await this.#env.disk.makeFolder(path);
    await this.#registry.open();
  }

  /** Found at start: it counts, and what its supervisor left behind is ended. */
  async #adopt(paths: TokenPaths, look: Look): Promise<void> {
    if (look.is === 'running') this.#running.add(look.owner.token);
    else if (look.is === 'orphaned') await this.#settle(paths, look.owner);
  }

  async #offer(offer: Offer): Promise<OfferReply> {
    const { token } = offer;
    const paths = this.#paths(token);
    const known = await this.#knownAs(paths);
    if (known) return known;
    const { types, slots = 1 } = this.#options;
    const type = Object.hasOwn(types, offer.ask.spec.type) ? types[offer.ask.spec.type] : undefined;
    if (!type) return refused(`"${offer.ask.spec.type}" is not run here`);
    if (this.#running.size >= slots) await this.#recount();
    if (this.#running.size >= slots) return { is: 'busy' };
    // Counted from here on, so that two offers at once do not take the same slot.
    this.#running.add(token);
    const reply = await this.#launcher.launch(this.#spec(offer, type, paths));
    if (reply.is === 'accepted') return reply;
    this.#running.delete(token);
    const taken = await this.#knownAs(paths);
    if (taken) return taken;
    const message = reply.is === 'failed' ? reply.message : 'its folder is gone';
    return { is: 'refused', error: { ...errorInfo('WORKER_START_FAILED', message), retriable: true } };
  }

  /** The answer to an offer that came before, if one did. */
  async #knownAs(paths: TokenPaths): Promise<OfferReply | undefined> {
    const look = await lookAt(this.#env.disk, paths);
    if (look.is === 'absent') return undefined;
    return look.is === 'tombstone' ? refused('the token was withdrawn') : { is: 'accepted' };
  }

  #spec({ token, ask, payloadText }: Offer, type: CommandType, { name }: TokenPaths): Spec {
    const { maxOutputBytes } = this.#options;
    return {
      folder: this.#layout.folder,
      token,
      jobId: ask.id,
      model: ask.spec.model,
      argv: type.argv,
      cwd: type.cwd,
      env: {
        ...plainEnvironment(),
        ...(ask.spec.model === undefined ? {} : { JOB_MODEL: ask.spec.model }),
        ...type.env,
        ...markVariable(markOf(this.#registry.id, name)),
      },
      payload: payloadText,
      split: type.split ?? 'line',
      timeoutMs: ask.spec.timeout_ms,
      maxOutputBytes: maxOutputBytes ?? MAX_OUTPUT_BYTES,
      offeredAt: this.#env.clock.now(),
    };
  }

  /** Forgets of the running what has ended meanwhile; an offer that is under way keeps its slot. */
  async #recount(): Promise<void> {
    for (const token of this.#running) if (!this.#offers.has(token)) await this.#status(token);
  }

  async #status(token: string): Promise<ExecutionStatus | undefined> {
    const paths = this.#paths(token);
    let look = await lookAt(this.#env.disk, paths);
    if (look.is === 'orphaned' && (await this.#settle(paths, look.owner)))
      look = await lookAt(this.#env.disk, paths);
    if (look.is === 'ended') return { is: 'ended', outcome: await this.#outcome(token, paths, look.exit) };
    if (look.is === 'running' || look.is === 'orphaned') return { is: 'running' };
    this.#running.delete(token);
    return undefined;
  }

  /** Every way to an end leads through here: it gives the slot back. */
  #outcome(token: string, paths: TokenPaths, exit: ExitRecord): Promise<ExecutionOutcome> {
    this.#running.delete(token);
    this.#kills.delete(paths.name);
    return outcomeOf(this.#env.disk, paths.stdout, exit);
  }

  async #exitOf(token: string, paths: TokenPaths, closer: boolean): Promise<ExitRecord | undefined> {
    if (!closer) return readRecord(this.#env.disk, paths.exit, isExitRecord);
    const look = await lookAt(this.#env.disk, paths);
    if (look.is === 'orphaned') await this.#settle(paths, look.owner);
    else if (look.is === 'absent') throw new Error(`the folder of ${token} is gone`);
    return look.is === 'ended' ? look.exit : undefined;
  }

  /** Once at a time for each. */
  #settle(paths: TokenPaths, owner: OwnerRecord | undefined): Promise<boolean> {
    let settling = this.#settling.get(paths.name);
    if (!settling) {
      const mark = markOf(this.#registry.id, paths.name);
      settling = settle(this.#env, paths, mark, owner).finally(() => this.#settling.delete(paths.name));
      this.#settling.set(paths.name, settling);
    }
    return settling;
  }

  async #order({ name, kill }: TokenPaths, { pid }: OwnerRecord): Promise<void> {
    const now = this.#env.clock.monotonic();
    let order = this.#kills.get(name);
    if (!order) {
      // Without it the end is told less well, and a full disk must not keep anything running.
      const at = this.#env.clock.now();
      const recorded = writeRecord(this.#env, kill, { at }, 'visible').catch(() => undefined);
      order = { at: now, recorded };
      this.#kills.set(name, order);
    }
    const isStuck = now - order.at > STUCK_MS;
    // A second kill waits too: a supervisor that is stopped before the record is there reports a stranger's signal.
    if (!isStuck) await order.recorded;
    sendSignal(pid, isStuck ? 'SIGKILL' : 'SIGTERM');
  }

  #milestonesOf(name: string): Milestone[] {
    const known = this.#milestones.get(name) ?? [];
    this.#milestones.delete(name);
    this.#milestones.set(name, known);
    const oldest = this.#milestones.keys().next().value;
    if (this.#milestones.size > MAX_MILESTONED && oldest !== undefined) this.#milestones.delete(oldest);
    return known;
  }
}

function refused(message: string): OfferReply {
  const error: ErrorInfo = errorInfo('WORKER_NOT_FOUND', message);
  return { is: 'refused', error };
}
