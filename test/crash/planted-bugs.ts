/** Bugs that are planted one at a time, each with the suite that must notice it. */

export interface Catcher {
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const killedAt = (name: string): Catcher => ({
  args: ['test/crash/kill.test.ts'],
  env: { CRASH_ONLY: name },
});

export const CATCHERS = {
  /** The order of what happens, and the invariants, over one whole run. */
  order: { args: ['test/crash/order.test.ts'] },
  killWhileWaiting: killedAt('history put'),
  killAfterOffer: killedAt('point effect:after-offer'),
  killAfterCheckpoint: killedAt('point checkpoint:after-manifest'),
  killInRename: killedAt('rename checkpoint'),
  fence: { args: ['test/crash/fence.test.ts'] },
  killInFrame: killedAt('write log/0000000000000001.log'),
  simulation: { args: ['test/sim/run.ts', '--seeds', '100'] },
  /** For bugs that show in one world of a hundred. */
  longSimulation: { args: ['test/sim/run.ts', '--seeds', '400'] },
  killInStatements: { args: ['test/crash/kill-mariadb.test.ts'], env: { CRASH_ONLY: 'orchestrator_audit' } },
  lostEnd: { args: ['test/crash/lost-end.test.ts'] },
  commands: { args: ['src/backends/local/command/cleaner.test.ts'] },
  clock: { args: ['src/runtime/brain-clock.test.ts'] },
  copies: { args: ['test/flow/copies.test.ts'] },
  doctor: { args: ['src/stores/journal/doctor/redrive.test.ts'] },
  forward: { args: ['src/api/forward.test.ts'] },
  strace: { args: ['test/crash/strace.test.ts'], env: { CI: '1' } },
  /** Brain, gateway and a provider that bills, under faults. */
  gatewaySimulation: { args: ['test/sim/run.ts', '--gateway', '--seeds', '100'] },
  gatewayCore: { args: ['src/daemons/gateway/core.test.ts'] },
  gatewaySeats: { args: ['test/flow/gateway-source.test.ts'] },
  providers: { args: ['test/flow/provider-faults.test.ts'] },
  prices: { args: ['src/model/price.test.ts'] },
  starts: { args: ['src/core/scheduling/start.test.ts'] },
  spent: { args: ['src/core/admission/spent.test.ts'] },
  gates: { args: ['src/core/queue/gate-lists.test.ts'] },
  breaker: { args: ['src/core/attempts/provider-fault.test.ts'] },
} as const satisfies Record<string, Catcher>;

export interface PlantedBug {
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  readonly catcher: keyof typeof CATCHERS;
  /** The message that the catcher must fail with: failing for another reason does not count. */
  readonly says: RegExp;
}

const JOURNAL = 'src/stores/journal';
const MARIADB = 'src/stores/mariadb';
const EXECUTION = 'src/daemons/execution';

export const PLANTED: readonly PlantedBug[] = [
  {
    name: 'answer before the flush',
    file: `${JOURNAL}/log/writer.ts`,
    find: '    await segment.file.datasync();\n',
    replace: '    this.#events.durable(this.#durableSeq + count);\n    await segment.file.datasync();\n',
    catcher: 'order',
    says: /the acknowledgement of submit small comes before the sync of log/,
  },
  {
    name: 'no sync of the log',
    file: `${JOURNAL}/log/writer.ts`,
    find: '    await segment.file.datasync();\n',
    replace: '',
    catcher: 'order',
    says: /the acknowledgement of submit small comes before the sync of log/,
  },
  {
    name: 'effect before its intent is durable',
    file: `${JOURNAL}/journal.ts`,
    find: '    return last;\n',
    replace: '    journal.events.durable(last);\n    return last;\n',
    catcher: 'order',
    says: /the start of small:1 comes before/,
  },
  {
    name: 'no sync of the folder of a new segment',
    file: `${JOURNAL}/log/spare.ts`,
    find: '    await this.#disk.syncFolder(this.#paths.log);\n',
    replace: '',
    catcher: 'order',
    says: /is written before its name is durable/,
  },
  {
    name: 'no sync of the folder of the manifest',
    file: `${JOURNAL}/checkpoint/manifest.ts`,
    find: '  await disk.rename(paths.temporaryManifest, paths.manifest);\n  await disk.syncFolder(paths.folder);\n',
    replace: '  await disk.rename(paths.temporaryManifest, paths.manifest);\n',
    catcher: 'order',
    says: /before checkpoint\.json is durable|before the folder of the renamed checkpoint\.json/,
  },
  {
    name: 'a manifest that is renamed before it is synced',
    file: 'src/kit/whole-file.ts',
    find: '    if (isSynced) await file.datasync();\n',
    replace: '',
    catcher: 'order',
    says: /checkpoint\.tmp is renamed to checkpoint\.json before its sync/,
  },
  {
    name: 'no sync of the parts of a checkpoint',
    file: `${JOURNAL}/checkpoint/merge.ts`,
    find: '    await this.#file.datasync();\n',
    replace: '',
    catcher: 'order',
    says: /is not durable when its manifest counts/,
  },
  {
    name: 'no sync of bodies',
    file: `${JOURNAL}/blobs.ts`,
    find: '    await file.datasync();\n',
    replace: '',
    catcher: 'order',
    says: /names blobs\/00000001\.blob before its sync/,
  },
  {
    name: 'the end of the log is trusted without a sync',
    file: `${JOURNAL}/recover.ts`,
    find: 'await file.truncate(end.goodBytes);\n    await file.datasync();\n',
    replace: 'await file.truncate(end.goodBytes);\n',
    catcher: 'order',
    says: /which was read at the start/,
  },
  {
    name: 'the fence is ignored',
    file: 'src/stores/memory/memory.ts',
    find: "    if (this.#opening !== this.#medium.openings) throw new OrchdError('FENCED');\n",
    replace: '',
    catcher: 'fence',
    says: /the first opener is fenced/,
  },
  {
    name: 'a token is used again after a redrive',
    file: 'src/model/moves.ts',
    find: '    redrivenAt: at,\n',
    replace: '    redrivenAt: at,\n    attempt: 0,\n',
    catcher: 'order',
    says: /goes back to attempt 0/,
  },
  {
    name: 'a purge forgets the attempt numbers it let go',
    file: 'src/core/engine/brain.ts',
    find: '{ ...known, attemptFloor }',
    replace: '{ ...known }',
    catcher: 'order',
    says: /small:1 was offered after its acknowledgement/,
  },
  {
    name: 'the wait of a retry is only in memory',
    file: `${JOURNAL}/log/codec.ts`,
    find: 'change.id, change.after, change.cause]',
    replace:
      "change.id, change.kind === 'job' ? { ...change.after, notBefore: undefined } : change.after, change.cause]",
    catcher: 'killWhileWaiting',
    says: /started \d+ ms after \w+:\d had failed/,
  },
  {
    name: 'the tries spent are only in memory',
    file: `${JOURNAL}/log/codec.ts`,
    find: 'change.id, change.after, change.cause]',
    replace: "change.id, change.kind === 'job' ? { ...change.after, tries: 0 } : change.after, change.cause]",
    catcher: 'killAfterOffer',
    says: /doomed failed 3 times, may 2/,
  },
  {
    name: 'keys are only in memory',
    file: 'src/core/restore.ts',
    find: '    this.#state.seq = seq;\n',
    replace:
      '    this.#state.seq = seq;\n    for (const entry of this.#state.jobs.values()) this.#state.roster.remove(entry);\n',
    catcher: 'killAfterOffer',
    says: /gets the key k\d while/,
  },
  {
    name: 'a checkpoint lets go of jobs that the history has not got',
    file: `${JOURNAL}/checkpoint/merge.ts`,
    find: "if (change.kind !== 'ask') delta.dropEnded(jobOf(change), order.indexedUpTo);",
    replace: "if (change.kind !== 'ask') delta.dropEnded(jobOf(change), Number.POSITIVE_INFINITY);",
    catcher: 'killAfterCheckpoint',
    says: /is neither in memory nor in the history/,
  },
  {
    name: 'the previous checkpoint is not looked for',
    file: `${JOURNAL}/recover.ts`,
    find: 'for (const path of [paths.manifest, paths.previousManifest]) {',
    replace: 'for (const path of [paths.manifest]) {',
    catcher: 'killInRename',
    says: /STORE_CORRUPT|recovering twice|the log has no segment/,
  },
  {
    name: 'a torn frame at the end is taken for damage',
    file: `${JOURNAL}/log/segments.ts`,
    find: "if (read.is === 'corrupt') throw",
    replace: "if (read.is === 'corrupt' || read.is === 'torn') throw",
    catcher: 'killInFrame',
    says: /is damaged at byte/,
  },
  {
    name: 'a torn frame at the end is left there',
    file: `${JOURNAL}/recover.ts`,
    find: '    if (end.fileBytes > end.goodBytes) await file.truncate(end.goodBytes);\n',
    replace: '',
    catcher: 'killInFrame',
    says: /is damaged at byte/,
  },
  {
    name: 'the history is ahead of the log and the start takes it silently',
    file: `${JOURNAL}/lost-end.ts`,
    find: "  if (seen > lastSeq) throw lostEnd(end, seen, 'the index of ended jobs');\n",
    replace: '  if (seen > lastSeq) return;\n',
    catcher: 'lostEnd',
    says: /a log that is cut off in the middle is refused with its position[\s\S]*Missing expected rejection/,
  },
  {
    name: 'a new brain keeps the epoch of the old one',
    file: 'src/core/engine/brain.ts',
    find: '  const epoch = known.epoch + 1;\n',
    replace: '  const { epoch } = known;\n',
    catcher: 'order',
    says: /epoch 1 -> 1/,
  },
  {
    name: 'the executor may drop a result before its end is durable',
    file: 'src/runtime/event-readers.ts',
    find: "        if (end.is === 'ended') this.#ended(token, end.outcome);\n",
    replace: `        if (end.is === 'ended') void backend.ack(token, who());
        if (end.is === 'ended') this.#ended(token, end.outcome);
`,
    catcher: 'order',
    says: /the release of small:1 comes before/,
  },
  {
    name: 'what an executor does not know is tried again without a tombstone',
    file: 'src/core/attempts/progress.ts',
    find: "      return kill(turn, entry, 'lost');\n",
    replace: `      abandonAttempt(turn, entry, 'absent');
      if (!isTerminal(entry.job.state)) turn.put('job', entry.uid, unclaim(entry.job), 'absent');
      return;
`,
    catcher: 'longSimulation',
    says: /started after .* had succeeded|while/,
  },
  {
    name: 'a failed sync is tried again',
    file: `${JOURNAL}/log/writer.ts`,
    find: '    await segment.file.datasync();\n',
    replace: '    await segment.file.datasync().catch(() => segment.file.datasync());\n',
    catcher: 'strace',
    says: /after the failed sync|ended with 0/,
  },
  {
    name: 'statements without a transaction',
    file: `${MARIADB}/sql.ts`,
    find: "    await this.run('SET autocommit = 0');\n",
    replace: '',
    catcher: 'killInStatements',
    says: /rows of the trail for/,
  },
  {
    name: 'paid work with an unknown outcome is run again by itself',
    file: 'src/core/attempts/progress.ts',
    find: "  return backend && !backend.info.paid ? 'retry' : 'hold';\n",
    replace: "  return backend ? 'retry' : 'hold';\n",
    catcher: 'simulation',
    says: /started by itself although .* was paid/,
  },
  {
    name: 'what executors keep expires by the wall clock',
    file: 'src/kit/lived-time.ts',
    find: '    return this.#before + this.#env.clock.monotonic() - this.#openedAt;\n',
    replace: '    return this.#env.clock.now();\n',
    catcher: 'commands',
    says: /an unacknowledged end is kept for a week of lived time/,
  },
  {
    name: 'a step of the wall clock is believed at once',
    file: 'src/runtime/brain-clock.ts',
    find: 'const STAND_MS = 60_000;\n',
    replace: 'const STAND_MS = 0;\n',
    catcher: 'clock',
    says: /that is taken back within a minute changes nothing/,
  },
  {
    name: 'brain time is stepped, and the waits of the engine are not',
    file: 'src/core/engine/brain.ts',
    find: "  'clock-step': (turn, { byMs }) => moveInstants(turn, byMs),\n",
    replace: "  'clock-step': () => undefined,\n",
    catcher: 'simulation',
    says: /everything ends once faults stop/,
  },
  {
    name: 'a token that has run another body is taken for the same execution',
    file: 'src/core/ports/backend.ts',
    find: '  known !== undefined && offered !== undefined && known !== offered;\n',
    replace: '  known !== undefined && offered !== undefined && false;\n',
    catcher: 'copies',
    says: /a backup of the same opening is told by its tokens/,
  },
  {
    name: 'a copied folder is used like the original',
    file: 'src/kit/folder-identity.ts',
    find: "  return known && marker?.identity !== known.marker ? 'copied' : undefined;\n",
    replace: '',
    catcher: 'copies',
    says: /Missing expected rejection/,
  },
  {
    name: 'the doctor does not know a redriven job',
    file: `${JOURNAL}/doctor/replay.ts`,
    find: '        if (change.after && isRestored) this.#restoreAttempt(change.id, change.after);\n        else ',
    replace: '        ',
    catcher: 'doctor',
    says: /began as ended/,
  },
  {
    name: 'a caller is told that a leader was fenced',
    file: 'src/api/forward.ts',
    find: '    if (MAYBE_EXECUTED.has(code)) throw leaderLost();\n',
    replace: '',
    catcher: 'forward',
    says: /a leader that ends with FENCED during a request/,
  },
  {
    name: 'a bad end releases the jobs that wait for it',
    file: 'src/core/attempts/dependencies.ts',
    find: '  if (awaited.end !== undefined && !isMet(entry.ask, awaited.end)) {',
    replace: '  if (awaited.end === undefined && !isMet(entry.ask, awaited.end)) {',
    catcher: 'simulation',
    says: /was claimed while job-\d+, which it waits for, is (?:dead|cancelled)/,
  },
  {
    name: 'a redriven job stays counted as dead in its batch',
    file: 'src/core/engine/jobs.ts',
    find: '    noteRedriven(turn, entry);\n',
    replace: '',
    catcher: 'simulation',
    says: /batch batch-\d counts/,
  },
  {
    name: 'the gateway calls the provider before its intent is durable',
    file: `${EXECUTION}/executions.ts`,
    find: '      if (durable !== undefined) await durable;\n',
    replace: '      if (durable !== undefined) durable.catch(() => undefined);\n',
    catcher: 'gatewaySimulation',
    says: /was billed again after/,
  },
  {
    name: 'the gateway tells a result before it is durable',
    file: `${EXECUTION}/executions.ts`,
    find: '    if (memory.journal) await memory.journal.ended(execution, ending.outcome);\n',
    replace: '    if (memory.journal) void memory.journal.ended(execution, ending.outcome);\n',
    catcher: 'gatewaySimulation',
    says: /had ended as .*, and is now/,
  },
  {
    name: 'a gateway that restarts has another registry',
    file: `${EXECUTION}/kept-folder.ts`,
    find: "  const isNew = state.registry === '';\n",
    replace: '  const isNew = true;\n',
    catcher: 'gatewaySimulation',
    says: /everything ends once faults stop; left: [^\n]*"state":"stale"/,
  },
  {
    name: 'a busy seat spends a try',
    file: 'src/core/attempts/progress.ts',
    find: "  if (why === 'timeout') return endBadly(",
    replace: "  if (why === 'timeout' || why === 'busy') return endBadly(",
    catcher: 'gatewaySeats',
    says: /✖ \[FANO-6\] a busy seat is no try of the job/,
  },
  {
    name: 'the queue of the gateway takes a reserved seat',
    file: 'src/daemons/gateway/seat.ts',
    find: '    return standing.length > 0 ? ',
    replace: '    return false ? ',
    catcher: 'gatewayCore',
    says: /✖ \[FANO-6\] a refused caller has the next turn/,
  },
  {
    name: 'the key of a seat follows a redirect',
    file: 'src/wire/exchange.ts',
    find: '    if (status >= 300 && status < 400 && !returnsRedirects)\n',
    replace: `    const { location } = response.headers;
    if (location !== undefined)
      void fetch(location, { headers: request.getHeaders() as never }).finally(() =>
        this.#fail('redirect', 'it was followed'),
      );
    else if (status >= 300 && status < 400 && !returnsRedirects)
`,
    catcher: 'providers',
    says: /✖ openai-chat: a redirect is not followed, and takes the key nowhere/,
  },
  {
    name: 'tokens of the cache are priced twice',
    file: 'src/model/price.ts',
    find: '    countOf(tokens.input) * input +\n',
    replace: '    countOf(tokens.input + tokens.cacheRead) * input +\n',
    catcher: 'prices',
    says: /✖ every count has its own rate, and is charged once/,
  },
  {
    name: 'an unknown outcome is settled as zero',
    file: 'src/core/attempts/bill.ts',
    find: 'cost: bill.reserved, basis',
    replace: 'cost: 0, basis',
    catcher: 'starts',
    says: /✖ counts an attempt whose outcome is unknown/,
  },
  {
    name: "a child is outside of its root's budget",
    file: 'src/core/limits/gates.ts',
    find: 'scopes.root(tenant, ancestors?.[0] ?? ask.id)',
    replace: 'scopes.root(tenant, ask.id)',
    catcher: 'starts',
    says: /✖ of a tree of jobs holds for all branches together/,
  },
  {
    name: 'the level of a budget is lost at a restart',
    file: 'src/core/limits/gates.ts',
    find: '    if (spent) gate.resume(spent);\n',
    replace: '',
    catcher: 'spent',
    says: /✖ goes on after a restart: running, reserved and settled/,
  },
  {
    name: 'what an end has cost is stored in another commit than the end',
    file: 'src/core/engine/engine.ts',
    find: '    storeSpent(turn);\n',
    replace: "    if (!turn.changes.some(({ kind }) => kind === 'attempt')) storeSpent(turn);\n",
    catcher: 'spent',
    says: /✖ is stored in the commit of the end that it was used for/,
  },
  {
    name: 'jobs that wait at a gate are woken out of order',
    file: 'src/core/queue/gate-group.ts',
    find: '  return a.n < b.n;\n',
    replace: '  return a.n > b.n;\n',
    catcher: 'gates',
    says: /✖ W1: leave it in order/,
  },
  {
    name: 'the breaker counts errors of the caller',
    file: 'src/core/attempts/provider-fault.ts',
    find: '  retriable || PROVIDER_CODES.has(code);\n',
    replace: '  retriable || PROVIDER_CODES.has(code) || true;\n',
    catcher: 'breaker',
    says: /✖ an error of the caller is no failure of it/,
  },
];
