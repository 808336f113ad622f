/** The list `backends.upstreams`: servers with an OpenAI-compatible API that run already. */
import { type Static, Type } from 'typebox';
import { MAX_UPSTREAM_MODELS, MAX_UPSTREAM_SLOTS } from '../model/upstream-limits.ts';
import { section } from './section.ts';
import { upstreamBase } from './upstream-address.ts';

const ModelName = Type.String({ minLength: 1, maxLength: 512 });

export const UpstreamSchema = section({
  url: Type.Refine(
    Type.String({ expected: 'an address such as http://127.0.0.1:11434, without user name and password' }),
    (value) => upstreamBase(value).problem === undefined,
  ),
  name: Type.Optional(
    Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$', expected: 'a name of letters, digits and ._-' }),
  ),
  key_env: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z_][A-Za-z0-9_]{0,255}$',
      expected: 'the name of the environment variable that holds the key',
    }),
  ),
  paid: Type.Optional(Type.Boolean()),
  slots: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_UPSTREAM_SLOTS })),
  models: Type.Optional(Type.Array(ModelName, { maxItems: MAX_UPSTREAM_MODELS })),
  rename: Type.Optional(
    Type.Record(Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._:/@=+-]{0,511}$' }), ModelName, {
      expected: 'names to offer, each with the name that the upstream has for the model',
    }),
  ),
  poll_sec: Type.Optional(Type.Number({ minimum: 0.01, maximum: 86_400 })),
});
export type UpstreamConfig = Static<typeof UpstreamSchema>;
