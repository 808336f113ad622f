/** The section `gateway`: the service in front of scarce LLM accounts, and the accounts (seats) that it has. */
import { type Static, Type } from 'typebox';
import type { DriverName } from '../model/gateway-wire.ts';
import { parseBindAddress, splitList } from './address.ts';
import { isHostName } from './host-list.ts';
import { section } from './section.ts';
import { upstreamBase } from './upstream-address.ts';

const optional = Type.Optional;
const ModelName = Type.String({ minLength: 1, maxLength: 512 });
/** The names that callers use, as `rename` of an upstream allows them. */
const OfferedName = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._:/@=+-]{0,511}$' });
const MAX_MODELS = 1000;

interface Provider {
  /** Where the provider's API is, without its version, such as `/v1`; undefined where each seat has to say. */
  readonly url: string | undefined;
  /** The ways to call it; the first is the default. */
  readonly modes: Readonly<Record<string, DriverName>>;
}

/** By the value of `driver`. */
export const PROVIDERS = {
  openai: {
    url: 'https://api.openai.com',
    modes: { chat: 'openai-chat', responses: 'openai-responses' },
  },
  anthropic: {
    url: 'https://api.anthropic.com',
    modes: { messages: 'anthropic-messages', batches: 'anthropic-batches' },
  },
  browser: { url: undefined, modes: { page: 'browser' } },
  gemini: {
    url: 'https://generativelanguage.googleapis.com',
    modes: { stream: 'gemini-stream', generate: 'gemini-generate' },
  },
} as const satisfies Record<string, Provider>;

const modesOf = (driver: keyof typeof PROVIDERS): Readonly<Record<string, DriverName>> =>
  PROVIDERS[driver].modes;

const Selector = Type.String({ minLength: 1, maxLength: 1024, expected: 'a CSS selector' });
const Ms = Type.Integer({ minimum: 1, maximum: 7 * 86_400_000, expected: 'milliseconds, at least 1' });

/** The keys of the driver `browser`. */
const pageKeys = {
  selectors: optional(
    section({
      input: Selector,
      send: Selector,
      answer: Selector,
      busy: optional(Selector),
      login: optional(Selector),
      error: optional(Selector),
    }),
  ),
  profile: optional(Type.String({ minLength: 1, expected: 'the folder of a Chromium profile' })),
  executable: optional(Type.String({ minLength: 1, expected: 'the path of Chromium' })),
  args: optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 1024 }), {
      maxItems: 100,
      expected: 'a list of flags of Chromium',
    }),
  ),
  headless: optional(Type.Boolean()),
  stream: optional(Type.Boolean()),
  load_timeout_ms: optional(Ms),
  answer_timeout_ms: optional(Ms),
  settle_ms: optional(Ms),
};

/** The values of the keys of the driver `browser` that a seat does not set. */
export const PAGE_DEFAULTS = {
  args: [],
  headless: true,
  stream: true,
  load_timeout_ms: 30_000,
  answer_timeout_ms: 900_000,
  settle_ms: 1500,
} as const;

function isPageUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
}

export const SeatSchema = section({
  name: Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$', expected: 'a name of letters, digits and ._-' }),
  driver: Type.Enum(['openai', 'anthropic', 'gemini', 'browser']),
  mode: optional(Type.Enum(['chat', 'responses', 'messages', 'batches', 'stream', 'generate', 'page'])),
  url: optional(
    Type.Refine(
      Type.String({
        expected: 'the address of the API, such as https://api.openai.com, without user name and password',
      }),
      // A page may have a query, and a path that no API has.
      (value) => upstreamBase(value).problem === undefined || isPageUrl(value),
    ),
  ),
  key_env: optional(
    Type.String({
      pattern: '^[A-Za-z_][A-Za-z0-9_]{0,255}$',
      expected: 'the name of the environment variable that holds the key',
    }),
  ),
  key_file: optional(Type.String({ minLength: 1, expected: 'the path of the file that holds the key' })),
  models: Type.Union(
    [
      Type.Array(OfferedName, { minItems: 1, maxItems: MAX_MODELS }),
      Type.Record(OfferedName, ModelName, {
        minProperties: 1,
        maxProperties: MAX_MODELS,
        additionalProperties: false,
      }),
    ],
    { expected: "a list of models, or a map from the names to offer to the provider's names" },
  ),
  slots: optional(Type.Integer({ minimum: 1, maximum: 10_000 })),
  keep: optional(Type.Boolean()),
  preempt: optional(Type.Boolean()),
  ...pageKeys,
});
export type SeatConfig = Static<typeof SeatSchema>;

/** The keys of a seat in the configuration, for the test of the example file. */
export const SEAT_KEYS = Object.keys(SeatSchema.properties);
export const SEAT_DEFAULTS = { slots: 1, keep: true, preempt: false } as const;

/** No key `port`: Kubernetes sets a variable with the name that it would have beside a Service called `orchd-gateway`. */
export const GatewaySchema = section({
  bind_addr: Type.Refine(
    Type.String({
      default: '127.0.0.1:8000',
      expected: 'an address such as 127.0.0.1:8000 or [::1]:8000',
    }),
    (value) => parseBindAddress(value) !== undefined,
  ),
  allowed_hosts: Type.Refine(
    Type.Union([Type.String(), Type.Array(Type.String())], {
      default: [],
      list: true,
      expected: 'a list of host names under which the gateway is also reached, without scheme and port',
    }),
    (value) => splitList(value).every(isHostName),
  ),
  seats: Type.Array(SeatSchema, {
    default: [],
    expected: 'a list of accounts, with name, driver and models each',
  }),
});
export type GatewayConfig = Static<typeof GatewaySchema>;

/** The driver of a seat whose `mode` fits to its `driver`. */
export function driverOf({ driver, mode }: Pick<SeatConfig, 'driver' | 'mode'>): DriverName {
  const modes = modesOf(driver);
  const [first] = Object.values(modes);
  return (mode === undefined ? first : modes[mode]) as DriverName;
}

interface SeatFault {
  /** As in Issue. */
  readonly path: readonly string[];
  readonly message: string;
}

/** Rules between the keys of the section; checked when each key is right by itself. */
export function seatFaults({ seats }: GatewayConfig): SeatFault[] {
  return seats.flatMap((seat, at) => {
    const { name, driver, mode, key_env, key_file } = seat;
    const path = ['gateway', 'seats', `[${at}]`];
    const faults = pageFaults(seat, path);
    const modes = Object.keys(modesOf(driver));
    if (mode !== undefined && !modes.includes(mode))
      faults.push({
        path: [...path, 'mode'],
        message: `the driver ${driver} has no mode ${mode}: choose ${modes.join(' or ')}`,
      });
    if (seats.findIndex((other) => other.name === name) < at)
      faults.push({ path: [...path, 'name'], message: `two seats are called "${name}": rename one of them` });
    if (key_env !== undefined && key_file !== undefined)
      faults.push({
        path: [...path, 'key_file'],
        message: 'the key is given twice: remove key_file or key_env',
      });
    return faults;
  });
}

/** The keys of a page belong to the driver `browser`, and a key of an account does not. */
function pageFaults(seat: SeatConfig, path: readonly string[]): SeatFault[] {
  const fault = (key: string, message: string): SeatFault => ({ path: [...path, key], message });
  const isSet = (key: string): boolean => seat[key as keyof SeatConfig] !== undefined;
  if (seat.driver !== 'browser')
    return Object.keys(pageKeys)
      .filter(isSet)
      .map((key) => fault(key, `only the driver browser has ${key}: remove it`));
  return [
    ...['url', 'selectors']
      .filter((key) => !isSet(key))
      .map((key) => ({ path, message: `the driver browser needs \`${key}\`` })),
    ...['key_env', 'key_file']
      .filter(isSet)
      .map((key) => fault(key, `the driver browser has no key: a person logs in with orchd gateway login`)),
  ];
}
