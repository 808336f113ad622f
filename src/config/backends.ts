/** The section `backends`: a key for each kind of backend that a configuration can ask for (backends/registry.ts). */
import { type Static, Type } from 'typebox';
import { isHttpUrl } from './address.ts';
import { argumentFaults } from './command-arguments.ts';
import { section } from './section.ts';
import { UpstreamSchema } from './upstreams.ts';

export const Name = Type.String({
  pattern: '^[A-Za-z0-9._-]{1,64}$',
  expected: 'a name of letters, digits and ._-',
});
const Labels = Type.Record(Type.String(), Type.String());

/** Names that a shell passes on to the programs it starts: it drops all others. Values may be keys of providers. */
export const Variables = Type.Record(
  Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$' }),
  Type.String({ secret: true }),
  {
    expected: 'names of letters, digits and _ with a text each',
  },
);

const OutputPath = Type.String({
  pattern: '^[^.]{1,128}([.][^.]{1,128}){0,15}$',
  expected: 'a dotted path into the output, such as usage.input_tokens',
});

/** Where the parts of an answer are in the JSON that a command prints. */
const OutputSchema = section({
  format: Type.Enum(['json']),
  text: OutputPath,
  thread: Type.Optional(OutputPath),
  usage: Type.Optional(section({ input: OutputPath, output: OutputPath })),
});

const Argv = Type.Array(Type.String(), { minItems: 1, expected: 'a list of words, the program first' });

/** A job type and the command that runs it. */
const CommandTypeSchema = section({
  argv: Argv,
  resume_argv: Type.Optional(Argv),
  cwd: Type.Optional(Type.String({ minLength: 1 })),
  env: Type.Optional(Variables),
  split: Type.Optional(Type.Enum(['line', 'space'])),
  output: Type.Optional(OutputSchema),
});

/** A backend that runs a command per job: the payload as JSON on standard input, the answer line by line. */
const CommandSchema = section({
  name: Name,
  slots: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000 })),
  paid: Type.Optional(Type.Boolean()),
  labels: Type.Optional(Labels),
  models: Type.Optional(Type.Array(Type.String())),
  max_output_bytes: Type.Optional(Type.Integer({ minimum: 1, maximum: 2 ** 40 })),
  keep_output_sec: Type.Optional(Type.Integer({ minimum: 0, maximum: 31_536_000 })),
  types: Type.Record(Type.String({ pattern: '^[A-Za-z0-9._:/@-]{1,128}$' }), CommandTypeSchema, {
    expected: 'job types of letters, digits and ._:/@- with an argv each',
  }),
});

/** A backend that puts jobs into a spool, for its agents to run. */
const SpoolSchema = section({
  name: Name,
  folder: Type.String({ minLength: 1, expected: 'the folder of a spool' }),
  types: Type.Optional(
    Type.Array(Type.String({ pattern: '^[A-Za-z0-9._:/@-]{1,128}$' }), {
      minItems: 1,
      expected: 'a list of job types of letters, digits and ._:/@-',
    }),
  ),
  models: Type.Optional(Type.Array(Type.String())),
  labels: Type.Optional(Labels),
  paid: Type.Optional(Type.Boolean()),
  keep_output_sec: Type.Optional(Type.Integer({ minimum: 0, maximum: 31_536_000 })),
});

export const SPOOL_KEYS = Object.keys(SpoolSchema.properties);
export type SpoolConfig = Static<typeof SpoolSchema>;

/** A gateway that somebody else runs: each of its seats becomes a backend called `NAME:SEAT`. */
const RemoteGatewaySchema = section({
  name: Name,
  url: Type.Refine(
    Type.String({
      expected: 'the address of a gateway, such as http://gateway-2:8000, without user name and password',
    }),
    isHttpUrl,
  ),
  token_env: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z_][A-Za-z0-9_]{0,255}$',
      expected: 'the name of the environment variable that holds the token of the gateway',
    }),
  ),
});

export const REMOTE_GATEWAY_KEYS = Object.keys(RemoteGatewaySchema.properties);
export type RemoteGatewayConfig = Static<typeof RemoteGatewaySchema>;

/** What the entry of a command may set, and what each of its types may; for the test of the example file. */
export const COMMAND_KEYS = Object.keys(CommandSchema.properties);
export const COMMAND_TYPE_KEYS = Object.keys(CommandTypeSchema.properties);

export type CommandConfig = Static<typeof CommandSchema>;

export const BackendsSchema = section({
  demo: Type.Boolean({ default: true }),
  upstreams: Type.Array(UpstreamSchema, {
    default: [],
    expected: 'a list of servers with an OpenAI-compatible API, with a url each',
  }),
  gateways: Type.Array(RemoteGatewaySchema, {
    default: [],
    maxItems: 64,
    expected: 'a list of up to 64 gateways that run already, with name and url each',
  }),
  spools: Type.Array(SpoolSchema, { default: [], expected: 'a list of spools, with name and folder each' }),
  commands: Type.Array(CommandSchema, { default: [], expected: 'a list of backends that run commands' }),
});

interface BackendFault {
  /** As in Issue. */
  readonly path: readonly string[];
  readonly message: string;
}

/** Rules between the keys of the commands; checked when each key is right by itself. */
export function commandFaults({ commands }: Static<typeof BackendsSchema>): BackendFault[] {
  return commands.flatMap(({ types }, at) =>
    Object.entries((types as CommandConfig['types']) ?? {}).flatMap(([type, { argv, resume_argv }]) =>
      argumentFaults(argv, resume_argv).map(({ key, message }) => ({
        path: ['backends', 'commands', `[${at}]`, 'types', type, key],
        message,
      })),
    ),
  );
}

/** Two entries for one gateway would give its accounts two jobs at a time; `poolUrl` is that of `pool.url`, if it is set. */
export function remoteGatewayFaults(
  { gateways }: Static<typeof BackendsSchema>,
  poolUrl: string | undefined,
): BackendFault[] {
  return gateways.flatMap(({ name, url }, at) => {
    const before = gateways.slice(0, at);
    const path = ['backends', 'gateways', `[${at}]`];
    const isKnown = [...before.map((each) => each.url), ...(poolUrl === undefined ? [] : [poolUrl])].some(
      (other) => gatewayBase(other) === gatewayBase(url),
    );
    return [
      ...(before.some((each) => each.name === name)
        ? [{ path: [...path, 'name'], message: `two gateways are called "${name}": rename one of them` }]
        : []),
      ...(isKnown
        ? [{ path: [...path, 'url'], message: 'this gateway is configured twice: remove one' }]
        : []),
    ];
  });
}

const gatewayBase = (url: string): string => url.replace(/\/+$/, '');
