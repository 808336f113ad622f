/** The section `backends`: a key for each kind of backend that a configuration can ask for (backends/registry.ts). */
import { type Static, Type } from 'typebox';
import { section } from './section.ts';
import { UpstreamSchema } from './upstreams.ts';

const Name = Type.String({
  pattern: '^[A-Za-z0-9._-]{1,64}$',
  expected: 'a name of letters, digits and ._-',
});
const Labels = Type.Record(Type.String(), Type.String());

/** A backend that runs a command per job: the payload as JSON on standard input, the answer line by line. */
const CommandSchema = section({
  name: Name,
  slots: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000 })),
  paid: Type.Optional(Type.Boolean()),
  labels: Type.Optional(Labels),
  models: Type.Optional(Type.Array(Type.String())),
  types: Type.Record(
    Type.String({ pattern: '^[A-Za-z0-9._:/@-]{1,128}$' }),
    section({
      argv: Type.Array(Type.String(), { minItems: 1, expected: 'a list of words, the program first' }),
      cwd: Type.Optional(Type.String({ minLength: 1 })),
      // Keys of providers are given to commands so.
      env: Type.Optional(Type.Record(Type.String(), Type.String({ secret: true }))),
      split: Type.Optional(Type.Enum(['line', 'space'])),
    }),
    { expected: 'job types of letters, digits and ._:/@- with an argv each' },
  ),
});

export type CommandConfig = Static<typeof CommandSchema>;

export const BackendsSchema = section({
  demo: Type.Boolean({ default: true }),
  upstreams: Type.Array(UpstreamSchema, {
    default: [],
    expected: 'a list of servers with an OpenAI-compatible API, with a url each',
  }),
  commands: Type.Array(CommandSchema, { default: [], expected: 'a list of backends that run commands' }),
});
