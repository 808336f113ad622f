/** The catalog of models on the wire. */
import { Type } from 'typebox';
import { VerifyResult } from '../pool-wire.ts';
import { answerObject, Instant, orNull, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;
const MODEL_ID = '^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$';
const Bytes = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

export const RegisterModel = requestObject(
  {
    model_id: Type.String({ pattern: MODEL_ID }),
    name: optional(Type.String({ minLength: 1, maxLength: 255 })),
    model_ref: Type.String({ minLength: 1, maxLength: 1024 }),
    aliases: optional(Type.Array(Type.String({ pattern: MODEL_ID }), { maxItems: 32 })),
    size_bytes: optional(Bytes),
    vram_bytes: optional(Bytes),
    context_length: optional(Type.Integer({ minimum: 1, maximum: 100_000_000 })),
    slots: optional(Type.Integer({ minimum: 1, maximum: 1024 })),
    sha256: optional(Type.String({ pattern: '^[0-9a-f]{64}$' })),
    signature: optional(Type.String({ pattern: '^[A-Za-z0-9+/]{86}==$' })),
    public_key: optional(Type.String({ pattern: '^[A-Za-z0-9+/]{43}=$' })),
  },
  { title: 'RegisterModel' },
);
export type RegisterModel = Shape<typeof RegisterModel>;

export const SetModelState = requestObject({ state: Type.Enum(['Active', 'Retired', 'active', 'retired']) });

const Verified = Type.Object({
  verdict: Type.String(),
  at: Instant,
  pool: Type.String(),
  sha256: Type.String(),
});

export const ModelView = answerObject('Model', {
  model_id: Type.String(),
  name: Type.String(),
  model_ref: Type.String(),
  aliases: Type.Array(Type.String()),
  size_bytes: Type.Integer(),
  vram_bytes: Type.Integer(),
  context_length: Type.Integer(),
  lifecycle_state: Type.Union([Type.Literal('Active'), Type.Literal('Retired')]),
  slots: orNull(Type.Integer()),
  sha256: orNull(Type.String()),
  signed: Type.Boolean(),
  verified: orNull(Verified),
  created_at: Instant,
  updated_at: Instant,
});
export type ModelView = Shape<typeof ModelView>;

export const ModelList = answerObject('ModelList', { models: Type.Array(ModelView) });

export const VerificationView = answerObject('Verification', {
  verdict: Type.Union([Type.Literal('pass'), Type.Literal('warn'), Type.Literal('fail')]),
  ...VerifyResult.properties,
  pool: Type.String({ description: 'The pool that has read the file' }),
  model: ModelView,
});
export type VerificationView = Shape<typeof VerificationView>;
