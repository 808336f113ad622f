/** The performance targets, compared with the median of the rounds. A target without samples is left out. */
import { type Results, type Summary, summary } from './results.ts';

interface Target {
  readonly name: string;
  readonly better: 'more' | 'less';
  /** The promised limit; without one the number is reported only. */
  readonly bound?: number;
  /** A stricter limit that we aim for but do not promise. */
  readonly aim?: number;
  readonly samples: (results: Results) => number[];
}

export interface Verdict {
  readonly name: string;
  readonly want: string;
  readonly aim: string;
  readonly got: Summary;
  readonly mark: 'pass' | 'pass, aim met' | 'MISS' | '';
}

/** The case and the value key of a series of samples. */
type SampleKey = readonly [name: string, key: string];

const plain =
  ([name, key]: SampleKey) =>
  (results: Results) =>
    results.samples(name, key);

/** The ratio of two series, round by round, so that both sides were exposed to the same noise. */
function ratio(above: SampleKey, below: SampleKey) {
  return (results: Results): number[] => {
    const divisors = results.samples(...below);
    return results.samples(...above).flatMap((value, at) => (divisors[at] ? [value / divisors[at]] : []));
  };
}

function difference(left: SampleKey, right: SampleKey) {
  return (results: Results): number[] => {
    const others = results.samples(...right);
    return results
      .samples(...left)
      .flatMap((value, at) => (others[at] === undefined ? [] : [value - others[at]]));
  };
}

/** The time that one system adds to the first token, less a flush, as a multiple of what another adds. */
function firstToken(ours: string, other: string, flush: string) {
  return (results: Results): number[] => {
    const others = results.samples(other, 'addedP50Ms');
    const flushes = results.samples(flush, 'p50Ms');
    return results.samples(ours, 'addedP50Ms').flatMap((value, at) => {
      const [base, flushMs] = [others[at], flushes[at]];
      return base === undefined || flushMs === undefined || base <= 0 ? [] : [(value - flushMs) / base];
    });
  };
}

const atLeastAiming = (name: string, bound: number, aim: number, samples: Target['samples']): Target => ({
  name,
  better: 'more',
  bound,
  aim,
  samples,
});
const atLeast = (name: string, bound: number, samples: Target['samples']): Target => ({
  name,
  better: 'more',
  bound,
  samples,
});
const atMost = (name: string, bound: number, samples: Target['samples']): Target => ({
  name,
  better: 'less',
  bound,
  samples,
});

const withoutBound = (name: string, samples: Target['samples']): Target => ({
  name,
  better: 'more',
  samples,
});

/** The rate of orchd on MariaDB divided by that of a peer, in the same shape. */
const onMariaDb = (shape: string, peer: string): Target['samples'] =>
  ratio([`${shape}: orchd on MariaDB`, 'perSec'], [`${shape}: ${peer}`, 'perSec']);

/** The gateway beside the worker; `before` says what both were called through. */
const gatewayTargets = (before: string): Target[] => {
  const both = (what: string, key: string): Target['samples'] =>
    ratio([`gateway: ${what} of ${before}gateway`, key], [`gateway: ${what} of ${before}worker`, key]);
  return [
    ...[1, 50].map((clients) =>
      atMost(
        `${before}gateway, first token of ${clients} streams: added p50 less a flush ÷ worker`,
        1.3,
        firstToken(
          `gateway: ${before}gateway @${clients}`,
          `gateway: ${before}worker @${clients}`,
          `gateway: flush @${clients}`,
        ),
      ),
    ),
    atLeast(`${before}gateway: tokens per CPU-second ÷ worker`, 0.8, both('tokens', 'perCpuSec')),
    atMost(`${before}gateway: memory of a stream ÷ worker`, 1.3, both('memory', 'rssKib')),
  ];
};

const TARGETS: readonly Target[] = [
  atLeastAiming(
    'submit@64 as a part of raw@64',
    0.25,
    0.4,
    ratio(['submit@64', 'perSec'], ['raw@64', 'perSec']),
  ),
  atMost('submit@64: CPU µs', 25, plain(['submit@64', 'cpuUs'])),
  atMost('submit@64: own syncs each', 0.05, plain(['submit@64', 'ownSyncs'])),
  atMost('submit@64: disk flushes each', 0.05, plain(['submit@64', 'flushes'])),
  atMost('cycle@64: own syncs each', 0.12, plain(['cycle@64', 'ownSyncs'])),
  atMost('cycle@64: disk flushes each', 0.12, plain(['cycle@64', 'flushes'])),
  atLeast(
    'cycle@64, with prices and three hard budgets ÷ without',
    0.9,
    ratio(['cycle@64, budgets', 'perSec'], ['cycle@64, no budgets', 'perSec']),
  ),
  atMost(
    'a decision of the gate of governance with 200 rules, µs',
    2,
    plain(['gate, 200 rules', 'decisionUs']),
  ),
  atLeast(
    'cycle@64 with 200 rules of governance ÷ without',
    0.95,
    ratio(['cycle@64, 200 rules', 'perSec'], ['cycle@64, no rules', 'perSec']),
  ),
  atLeast(
    'cycle@64 in a pool, with gates, policy and limits ÷ without',
    0.9,
    ratio(['cycle@64 in a pool, gates and limits', 'perSec'], ['cycle@64 in a pool, plain', 'perSec']),
  ),
  atMost('a plan over 1,000 worker pools, ms', 2, plain(['plan, 1,000 worker pools, full', 'p50Ms'])),
  atMost(
    'a plan over 1,000 worker pools, half without room, ms',
    2,
    plain(['plan, 1,000 worker pools, no room', 'p50Ms']),
  ),
  atMost(
    'a plan over 1,000 worker pools at the ceiling, ms',
    2,
    plain(['plan, 1,000 worker pools, at the ceiling', 'p50Ms']),
  ),
  atMost(
    'CPU of GET /v2/scaling/{pool} ÷ /health',
    1.5,
    ratio(['GET /v2/scaling/gpu', 'serverUs'], ['GET /health', 'serverUs']),
  ),
  atLeastAiming('cycle@64 ÷ BullMQ', 10, 12, ratio(['cycle orchd', 'perSec'], ['cycle bullmq', 'perSec'])),
  atLeastAiming(
    'enqueue, then drain ÷ BullMQ',
    2.5,
    4,
    ratio(['drain orchd', 'perSec'], ['drain bullmq', 'perSec']),
  ),
  atMost(
    'submit to start p50 ÷ BullMQ',
    1,
    ratio(['latency orchd', 'startP50Ms'], ['latency bullmq', 'startP50Ms']),
  ),
  atMost(
    'submit to start p99 ÷ BullMQ',
    1,
    ratio(['latency orchd', 'startP99Ms'], ['latency bullmq', 'startP99Ms']),
  ),
  // Decision 34: a run is compared with what does the same without an agent.
  atMost(
    'a step of an agent: CPU ÷ a plain job with the same call and answer',
    3,
    plain(['agent step', 'ratioToCall']),
  ),
  withoutBound('a step of an agent: CPU ÷ a plain job of 200 bytes', plain(['agent step', 'ratio'])),
  atLeast(
    'runs of agents ÷ LangGraph with its saver for PostgreSQL',
    5,
    ratio(['agent runs orchd', 'perSec'], ['agent runs LangGraph', 'perSec']),
  ),
  atLeast(
    '`true` as a command: jobs/s ÷ GNU parallel',
    0.5,
    ratio(['commands orchd', 'perSec'], ['commands parallel', 'perSec']),
  ),
  atMost(
    '`true` as a command: CPU ÷ GNU parallel',
    3,
    ratio(['commands orchd', 'cpuMs'], ['commands parallel', 'cpuMs']),
  ),
  atLeast(
    'spool, 4 agents with 16 jobs each: jobs/s ÷ 4 bare processes',
    1,
    ratio(['spool orchd', 'perSec'], ['spool bare', 'perSec']),
  ),
  atMost('spool: file syncs of a job', 4, plain(['spool orchd', 'fileSyncs'])),
  atMost('spool: folder syncs of a job', 2.5, plain(['spool orchd', 'folderSyncs'])),
  atMost(
    'spool: claim with 100k waiting ÷ with 100',
    2,
    ratio(['spool claim, many waiting', 'p50Ms'], ['spool claim, few waiting', 'p50Ms']),
  ),
  atMost(
    'spool: MiB of an agent with 100k waiting, over one with 100',
    64,
    difference(['spool memory, many waiting', 'rssMib'], ['spool memory, few waiting', 'rssMib']),
  ),
  withoutBound('spool: drop to start, p50 ms', plain(['spool drop to start', 'p50Ms'])),
  ...['submit@64', 'cycle@64'].flatMap((shape) => [
    ...['graphile-worker', 'pg-boss'].map((peer) =>
      atLeast(`${shape} on MariaDB ÷ ${peer}`, 1, onMariaDb(shape, peer)),
    ),
    withoutBound(`${shape} on MariaDB ÷ BullMQ always`, onMariaDb(shape, 'BullMQ always')),
  ]),
  ...['graphile-worker', 'pg-boss'].map((peer) =>
    atLeastAiming(
      `consumers on MariaDB and Redis, cycle@64 ÷ ${peer}`,
      1,
      2,
      ratio(['pulled cycle: consumers over Redis', 'perSec'], [`pulled cycle: ${peer}`, 'perSec']),
    ),
  ),
  atLeast(
    'consumers on MariaDB and Redis, cycle@64 ÷ functions in the brain',
    0.5,
    ratio(['pulled cycle: consumers over Redis', 'perSec'], ['pulled cycle: functions', 'perSec']),
  ),
  withoutBound(
    'consumers on MariaDB and Redis, cycle@64 ÷ BullMQ always',
    ratio(['pulled cycle: consumers over Redis', 'perSec'], ['pulled cycle: BullMQ always', 'perSec']),
  ),
  ...['P50', 'P99'].map((quantile) =>
    atMost(
      `consumers on MariaDB and Redis, submit to start ${quantile.toLowerCase()} ÷ graphile-worker`,
      1.5,
      ratio(
        ['pulled latency: consumers over Redis', `start${quantile}Ms`],
        ['pulled latency: graphile-worker', `start${quantile}Ms`],
      ),
    ),
  ),
  withoutBound(
    'consumers that hear of each job over Redis, submit to start p50 ÷ graphile-worker, 2 a second',
    ratio(
      ['pulled seldom: consumers over Redis', 'startP50Ms'],
      ['pulled seldom: graphile-worker', 'startP50Ms'],
    ),
  ),
  atMost(
    'an idle consumer: commands of Redis a second',
    1,
    plain(['pulled idle: consumers over Redis', 'redisPerSec']),
  ),
  atMost('an idle consumer: KiB in the brain', 30, plain(['pulled idle: consumers over Redis', 'kib'])),
  atMost(
    'submit over HTTP: CPU ÷ bare Fastify',
    1.6,
    ratio(['http submit', 'serverUs'], ['http bare fastify', 'serverUs']),
  ),
  atLeast('submit over HTTP, 1,000 a call: jobs/s', 40_000, plain(['http bulk', 'perSec'])),
  atLeast('a file of jobs ÷ bulk route', 0.8, ratio(['batch file', 'perSec'], ['batch bulk', 'perSec'])),
  atMost('a file of jobs: MiB of the command', 300, plain(['batch file', 'cliMib'])),
  atLeast(
    'results of a batch ÷ bare read of its rows',
    0.5,
    ratio(['batch results', 'perSec'], ['batch results', 'barePerSec']),
  ),
  atMost('results of a batch: longest stall, ms', 20, plain(['batch results', 'maxMs'])),
  atLeast(
    'relay, paced: tokens per CPU-second ÷ bare pipe',
    0.8,
    ratio(['paced orchd', 'perCpuSec'], ['paced pipe', 'perCpuSec']),
  ),
  atMost('relay, paced: tokens missing', 0, plain(['paced orchd', 'missing'])),
  atMost(
    'memory of a relayed stream ÷ bare pipe',
    1.5,
    ratio(['open stream orchd', 'rssKib'], ['open stream pipe', 'rssKib']),
  ),
  atMost(
    'KiB of a follower of a waiting job, with the job',
    25,
    plain(['follower of a waiting job', 'rssKib']),
  ),
  ...[1, 50, 200].map((clients) =>
    atMost(
      `first token of ${clients} streams: added p50 less a flush ÷ bare pipe`,
      1.5,
      firstToken(`orchd @${clients}`, `pipe @${clients}`, `flush @${clients}`),
    ),
  ),
  ...['', 'brain and '].flatMap(gatewayTargets),
  atMost('cancel to the last token: p99 ms', 250, plain(['cancel by order', 'p99Ms'])),
  atMost('stream left to the last token: p99 ms', 250, plain(['cancel by leaving', 'p99Ms'])),
  atMost('pick and claim, 1M ÷ 1k waiting', 2, ratio(['pick 1M', 'p50Us'], ['pick 1k', 'p50Us'])),
  atMost(
    'pick and claim, with 1,000 jobs that wait for 1,000 others each ÷ without',
    1.3,
    ratio(['pick 1k, after', 'p50Us'], ['pick 1k', 'p50Us']),
  ),
  atMost(
    'pick and claim, 1M waiting of which 999k are over a limit ÷ 1k waiting',
    2,
    ratio(['pick 1M, 999k over a limit', 'p50Us'], ['pick 1k, 1 over a limit', 'p50Us']),
  ),
  atMost(
    'decision with 100k jobs that wait for their seats, 1,000 ÷ 10 seats',
    2,
    ratio(['sticky, 1000 seats', 'p50Us'], ['sticky, 10 seats', 'p50Us']),
  ),
  atMost(
    'prompt tokens evaluated in five-turn conversations, affinity on ÷ off',
    0.4,
    ratio(['turns, affinity on', 'evaluatedTokens'], ['turns, affinity off', 'evaluatedTokens']),
  ),
  atMost(
    'decision among 1,000 workers, 100k waiting: p99 µs',
    1000,
    plain(['decide, least-loaded', 'p99Us']),
  ),
  atMost('a step that looks at 200 starved models: p50 µs', 1000, plain(['plan', 'p50Us'])),
  atMost('heap bytes per waiting job', 1331, plain(['heap', 'heapBytes'])),
  atMost('heap bytes per waiting job, reopened', 1331, plain(['heap reopened', 'heapBytes'])),
  atMost(
    'log and bodies of a run of 100 steps with results of 8 KiB ÷ what was said in it',
    3,
    plain(['long run, results of 8 KiB', 'ratio']),
  ),
  withoutBound(
    'log and bodies of a run of 100 steps with results of 2 KiB ÷ what was said in it',
    plain(['long run, results of 2 KiB', 'ratio']),
  ),
  atMost('heap bytes per waiting run, without its queued call', 2048, (results) =>
    difference(['waiting runs', 'heapBytes'], ['waiting calls', 'heapBytes'])(results),
  ),
  atMost(
    'restart from checkpoint, 100k waiting jobs ÷ as many queued ones: CPU',
    1.3,
    ratio(['waiting jobs', 'checkpointCpuMs'], ['waiting queued jobs', 'checkpointCpuMs']),
  ),
  withoutBound(
    'restart from log, 100k waiting jobs ÷ as many queued ones: CPU',
    ratio(['waiting jobs', 'logCpuMs'], ['waiting queued jobs', 'logCpuMs']),
  ),
  ...['log', 'checkpoint'].map((from) =>
    withoutBound(
      `restart from ${from}, 100k waiting runs and their calls ÷ 100k queued jobs: CPU`,
      ratio(['waiting runs', `${from}CpuMs`], ['waiting queued jobs', `${from}CpuMs`]),
    ),
  ),
  atMost('restart from log, 100k jobs, ms', 2000, plain(['restart from log', 'openMs'])),
  atMost('restart from checkpoint, 100k jobs, ms', 2000, plain(['restart from checkpoint', 'openMs'])),
  atMost(
    'stall added by a checkpoint, ms',
    20,
    difference(['with checkpoint', 'maxMs'], ['without checkpoint', 'maxMs']),
  ),
  atMost(
    'pauses of the event loop beside a module that spins ÷ alone: p99',
    1.2,
    ratio(['beside a module that spins', 'p99Ms'], ['beside nothing', 'p99Ms']),
  ),
  withoutBound(
    'pauses of the event loop beside a module that prints garbage ÷ alone: p99',
    ratio(['beside a module that prints garbage', 'p99Ms'], ['beside nothing', 'p99Ms']),
  ),
  ...['yearly', 'hourly'].map((kind) =>
    atMost(
      `10,000 ${kind} schedules on an idle brain: percent of a core`,
      1,
      difference([`${kind} schedules`, 'corePercent'], ['no schedules', 'corePercent']),
    ),
  ),
  atMost('usage of a month, 1M attempts: longest stall of the loop, ms', 20, plain(['usage', 'maxMs'])),
  atMost('take-over after kill -9 of the leader: p99 ms', 5000, plain(['take-over', 'p99Ms'])),
];

export function verdicts(results: Results): Verdict[] {
  return TARGETS.flatMap((target) => {
    const samples = target.samples(results);
    if (samples.length === 0) return [];
    const sign = target.better === 'more' ? '≥' : '≤';
    const bound = (limit: number | undefined): string => (limit === undefined ? '' : `${sign} ${limit}`);
    const got = summary(samples);
    return [
      {
        name: target.name,
        want: bound(target.bound),
        aim: bound(target.aim),
        got,
        mark: markOf(target, got.median),
      },
    ];
  });
}

function markOf({ better, bound, aim }: Target, value: number): Verdict['mark'] {
  const reaches = (limit: number): boolean => (better === 'more' ? value >= limit : value <= limit);
  if (bound === undefined) return '';
  if (!reaches(bound)) return 'MISS';
  return aim !== undefined && reaches(aim) ? 'pass, aim met' : 'pass';
}
