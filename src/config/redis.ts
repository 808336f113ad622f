/** The section `redis`: where consumers hear of work, and other programs leave jobs and orders (docs/redis.md). */
import { type Static, Type } from 'typebox';
import { Secret } from '../kit/secret.ts';
import { isRedisUrl, parseBindAddress, splitList } from './address.ts';
import { section } from './section.ts';

const DAY_MS = 86_400_000;

const secret = (expected: string) => Type.String({ default: '', secret: true, expected });

/** Fields of a job request. They are checked as requests are, when the first such event arrives. */
const JobFields = Type.Record(Type.String({ pattern: '^[a-z][a-z_]{0,63}$' }), Type.Unknown());

const EventSchema = section({
  event: Type.String({ minLength: 1, maxLength: 256, expected: 'the name of an event' }),
  job: JobFields,
});
export type EventRule = Static<typeof EventSchema>;

export const RedisSchema = section({
  url: Type.Refine(
    secret('a URL such as redis://host:6379, rediss://user:password@host:6380/1 for TLS and database 1'),
    (value) => value === '' || isRedisUrl(value),
  ),
  sentinels: section({
    name: Type.String({
      default: 'mymaster',
      minLength: 1,
      maxLength: 256,
      expected: 'the name of the master',
    }),
    hosts: Type.Refine(
      Type.Union([Type.String(), Type.Array(Type.String())], {
        default: [],
        list: true,
        expected: 'a list of sentinels such as 10.0.0.1:26379, separated by commas',
      }),
      (value) => splitList(value).every((each) => parseBindAddress(each) !== undefined),
    ),
    username: Type.String({ default: '', expected: 'the ACL user of the sentinels' }),
    password: secret('the password of the sentinels'),
  }),
  username: Type.String({ default: '', expected: 'an ACL user' }),
  password: secret('the password of the user'),
  tls: section({
    enabled: Type.Boolean({ default: false }),
    ca_file: Type.String({ default: '', expected: 'the path of a file with certificates' }),
  }),
  // 0: never.
  payload_bytes: Type.Integer({ default: 4096, minimum: 0, maximum: 1024 * 1024 }),
  claim_idle_ms: Type.Integer({ default: 60_000, minimum: 100, maximum: DAY_MS }),
  ingest: Type.Boolean({ default: true }),
  control: Type.Boolean({ default: false }),
  events: Type.Array(EventSchema, {
    default: [],
    maxItems: 1000,
    expected: 'a list of rules, with the name of an event and the fields of a job each',
  }),
});

export function redisOf({ redis }: { readonly redis: Static<typeof RedisSchema> }) {
  const { sentinels, tls } = redis;
  return {
    url: new Secret(redis.url),
    sentinels: {
      name: sentinels.name,
      hosts: splitList(sentinels.hosts).map((each) => parseBindAddress(each)!),
      username: sentinels.username,
      password: new Secret(sentinels.password),
    },
    username: redis.username,
    password: new Secret(redis.password),
    tls: { isOn: tls.enabled, caFile: tls.ca_file === '' ? undefined : tls.ca_file },
    payloadBytes: redis.payload_bytes,
    claimIdleMs: redis.claim_idle_ms,
    ingest: redis.ingest,
    control: redis.control,
    events: redis.events,
  };
}
