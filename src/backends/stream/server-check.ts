/** What is wrong with a Redis server, as far as it tells: found out at each connection, and from time to time after that. */
import type { Reply } from './client.ts';
import { BRAIN, CONTROL, DLQ, INGEST, jobsPlace, PRELOADS } from './names.ts';

/** `kind` names a problem in logs; `text` says what to do about it. */
export interface Problem {
  readonly kind: string;
  readonly text: string;
}

type Pipeline = (commands: readonly (readonly string[])[]) => Promise<Reply[]>;

const OLDEST = 7;

/** The commands that the brain must be allowed, each in a form that changes nothing: Redis checks the right before the arguments. */
const { key, group } = jobsPlace('default');
const NOBODY = 'cg:nobody';
const PROBES: readonly (readonly string[])[] = [
  ['XADD', key, '0-0', 'probe', '1'],
  ['XADD', DLQ, '0-0', 'probe', '1'],
  ['XADD', PRELOADS.key, '0-0', 'probe', '1'],
  ['XDEL', key, '0-1'],
  ...[key, PRELOADS.key, INGEST.key, CONTROL.key, DLQ].map((each) => ['XLEN', each]),
  ['XRANGE', key, '0-1', '0-1'],
  ['XACK', key, NOBODY, '0-1'],
  ['XGROUP', 'CREATE', key, group, 'no-id', 'MKSTREAM'],
  ['XAUTOCLAIM', key, NOBODY, BRAIN, '0', '0'],
  ['XPENDING', key, NOBODY, '-', '+', '1'],
  ['XINFO', 'GROUPS', key],
  ['XREADGROUP', 'GROUP', NOBODY, BRAIN, 'COUNT', '1', 'STREAMS', INGEST.key, '0'],
  ['XREADGROUP', 'GROUP', NOBODY, BRAIN, 'COUNT', '1', 'STREAMS', CONTROL.key, '0'],
  ['MULTI'],
  ['DISCARD'],
];

export async function problemsOf(pipeline: Pipeline): Promise<Problem[]> {
  const [info, ...probed] = await pipeline([['INFO'], ...PROBES]);
  const refused = (code: string): readonly (readonly string[])[] =>
    PROBES.filter((_, at) => codeOf(probed[at]) === code);
  const missing = new Set(refused('NOPERM').map(rightOf));
  const wrong = new Set(refused('WRONGTYPE').map(keyIn));
  return [
    ...(missing.size > 0
      ? [{ kind: 'NOPERM', text: `the user of Redis lacks rights: ${[...missing].join(', ')}` }]
      : []),
    ...(wrong.size > 0 ? [{ kind: 'WRONGTYPE', text: notStreams([...wrong].join(', ')) }] : []),
    ...(typeof info === 'string' ? problemsIn(info) : []),
  ];
}

const keyIn = (probe: readonly string[]): string | undefined =>
  probe.find((word) => word.startsWith('stream:'));

const notStreams = (keys: string): string =>
  `in Redis, ${keys} should be a stream and is of another type: delete it`;

/** Such as "XADD on stream:orchestrator:dlq". */
function rightOf(probe: readonly string[]): string {
  const place = keyIn(probe);
  return place === undefined ? probe.join(' ') : `${probe[0]} on ${place}`;
}

function problemsIn(info: string): Problem[] {
  const values = new Map(info.split(/\r?\n/).map((line) => line.split(':', 2) as [string, string]));
  const found: Problem[] = [];
  const version = values.get('redis_version') ?? '';
  if (version !== '' && Number.parseInt(version, 10) < OLDEST)
    found.push({ kind: 'version', text: `Redis ${version} is too old: it must be ${OLDEST}.0 or newer` });
  if (values.get('role') === 'slave') found.push(replica());
  const policy = values.get('maxmemory_policy') ?? 'noeviction';
  if (policy !== 'noeviction')
    found.push({
      kind: 'policy',
      text: `Redis may drop keys (maxmemory-policy ${policy}): set maxmemory-policy noeviction`,
    });
  const limit = Number(values.get('maxmemory') ?? 0);
  if (limit > 0 && Number(values.get('used_memory') ?? 0) >= limit) found.push(full());
  return found;
}

const replica = (): Problem => ({
  kind: 'READONLY',
  text: 'Redis is a read-only replica: redis.url must name the master, or redis.sentinels the sentinels',
});

const full = (): Problem => ({ kind: 'OOM', text: 'Redis is full: raise maxmemory, or delete keys' });

/** The code with which Redis begins an error. */
export const codeOf = (reply: unknown): string | undefined =>
  reply instanceof Error ? (/^[A-Z]+(?= )/.exec(reply.message)?.[0] ?? 'ERR') : undefined;

/** The problem that an error reply tells of. */
export function problemOf(error: Error): Problem {
  const code = codeOf(error) ?? 'ERR';
  return TOLD[code]?.() ?? { kind: code, text: `Redis refuses commands (${code})` };
}

const TOLD: Readonly<Record<string, () => Problem>> = {
  OOM: full,
  READONLY: replica,
  NOPERM: () => ({ kind: 'NOPERM', text: 'the user of Redis lacks rights' }),
  NOAUTH: () => ({ kind: 'NOAUTH', text: 'Redis wants a password: set redis.password' }),
  WRONGPASS: () => ({ kind: 'WRONGPASS', text: 'Redis refuses the user or the password' }),
  WRONGTYPE: () => ({ kind: 'WRONGTYPE', text: notStreams('a key') }),
  MISCONF: () => ({ kind: 'MISCONF', text: 'Redis cannot write its data to disk and refuses changes' }),
};
