/** What a planted bug is, and the suites that notice one. */

export interface Catcher {
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const killedAt = (name: string): Catcher => ({
  args: ['test/crash/kill.test.ts'],
  env: { CRASH_ONLY: name },
});

/** A suite of the spool, on the cases whose names end with a text. All of each: a sample may pass by the one that notices. */
const spool = (suite: string, cases: string): Catcher => ({
  args: ['--test', `--test-name-pattern=${cases}$`, `test/crash/spool/${suite}.test.ts`],
  env: { CRASH_ALL: '1' },
});

/** The tests of a file whose titles match. */
const named = (pattern: string, file: string): Catcher => ({
  args: ['--test', `--test-name-pattern=${pattern}`, file],
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
  simulation: { args: ['test/sim/run.ts', '--seeds', '100', '--stop'] },
  /** For bugs that show in one world of a hundred. */
  longSimulation: { args: ['test/sim/run.ts', '--seeds', '400', '--stop'] },
  killInStatements: { args: ['test/crash/kill-mariadb.test.ts'], env: { CRASH_ONLY: 'orchestrator_audit' } },
  lostEnd: { args: ['test/crash/lost-end.test.ts'] },
  commands: { args: ['src/backends/local/command/cleaner.test.ts'] },
  clock: { args: ['src/runtime/brain-clock.test.ts'] },
  copies: { args: ['test/flow/copies.test.ts'] },
  doctor: { args: ['src/stores/journal/doctor/redrive.test.ts'] },
  forward: { args: ['src/api/forward.test.ts'] },
  strace: { args: ['test/crash/strace.test.ts'], env: { CI: '1' } },
  /** Brain, gateway and a provider that bills, under faults. */
  gatewaySimulation: { args: ['test/sim/run.ts', '--gateway', '--seeds', '100', '--stop'] },
  gatewayCore: { args: ['src/daemons/gateway/core.test.ts'] },
  gatewaySeats: { args: ['test/flow/gateway-source.test.ts'] },
  providers: { args: ['test/flow/provider-faults.test.ts'] },
  prices: { args: ['src/model/price.test.ts'] },
  starts: { args: ['src/core/scheduling/start.test.ts'] },
  spent: { args: ['src/core/admission/spent.test.ts'] },
  gates: { args: ['src/core/queue/gate-lists.test.ts'] },
  breaker: { args: ['src/core/attempts/provider-fault.test.ts'] },
  /** Runs of agents and other jobs that wait, under faults. */
  agentSimulation: { args: ['test/sim/run.ts', '--agents', '--seeds', '40', '--stop'] },
  killedWakes: { args: ['test/crash/wakes.test.ts'] },
  killedRun: { args: ['test/crash/agent-run.test.ts'], env: { CRASH_ONLY: 'loop:after-step' } },
  runs: { args: ['src/agents/run.test.ts'] },
  replays: {
    args: [
      '--test',
      '--test-name-pattern=calls no tool and submits nothing.*journal',
      'test/flow/replay-changed.test.ts',
    ],
  },
  forks: { args: ['--test', '--test-name-pattern=asks anew', 'test/flow/fork.test.ts'] },
  approvals: { args: ['test/flow/approvals.test.ts'] },
  mcpTools: {
    args: ['--test', '--test-name-pattern=a definition that changes', 'src/backends/mcp/faults.test.ts'],
  },
  bodies: { args: ['src/stores/journal/blob-use.test.ts'] },
  spoolKill: spool('kill', 'run to success'),
  spoolPower: spool('power', 'run to success'),
  spoolPowerDrop: spool('power', 'drop'),
  spoolPowerKill: spool('power', 'kill a waiting job'),
  spoolPowerSweep: spool('power', 'sweep a job that has a result'),
  spoolSteps: spool('steps', 'run to success'),
  spoolLocks: spool('pairs', 'a watchdog, and another with an agent, at a dead lock'),
  spoolTwins: spool('pairs', 'an agent and a second job of the same name'),
  spoolBrainKill: spool('brain-pairs', 'an offer of an older brain and a kill of a newer one'),
  spoolBrainFence: spool('brain-pairs', 'an offer of an older brain and an inspection of a newer one'),
  spoolBrainReturn: spool('brain-pairs', 'an inspection and an agent that brings the job back'),
  spoolBackend: {
    args: ['--test', '--test-name-pattern=the brain decides', 'test/flow/spool-backend.test.ts'],
  },
  /** Conversations on seats that keep threads, without kills. */
  threads: {
    args: ['--test', '--test-name-pattern=the metrics say so .journal', 'test/flow/sticky.test.ts'],
  },
  affinity: { args: ['src/core/scheduling/affinity.test.ts'] },
  governed: { args: ['src/core/admission/governed.test.ts'] },
  lockdown: {
    args: [
      '--test',
      '--test-name-pattern=LOCKDOWN holds over a restart.*journal',
      'test/flow/governance.test.ts',
    ],
  },
  triggers: { args: ['src/adapters/governance/triggers.test.ts'] },
  moduleMark: {
    args: ['--test', '--test-name-pattern=the mark is written', 'src/adapters/modules/handling.test.ts'],
  },
  scheduleTicks: {
    args: ['--test', '--test-name-pattern=each tick is one job.*journal', 'test/flow/schedules.test.ts'],
  },
  redisInbox: named('deleted only after its commit.*journal', 'test/flow/redis-inbox.test.ts'),
  redisInboxRefused: named('stays for its successor.*journal', 'test/flow/redis-inbox.test.ts'),
  redisInboxGroup: named('there before the group', 'test/flow/redis-inbox.test.ts'),
  redisClaims: named('answered only after its commit.*journal', 'test/flow/redis-promises.test.ts'),
  redisConsumers: named('deleted only after its commit.*journal', 'test/flow/redis-promises.test.ts'),
  redisGroup: named('made anew from the beginning', 'src/backends/stream/doorbell.test.ts'),
  redisDeadLetters: named('in a crowd while no mirror ran.*journal', 'test/flow/redis-dead-letters.test.ts'),
  spoolPaused: spool('pairs', 'an agent that is taken for dead, and those who go on'),
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
