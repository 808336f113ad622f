/** The request that registers a model, over HTTP or in a catalog file. */
import { type Static, Type } from 'typebox';

const optional = Type.Optional;
const MODEL_ID = '^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$';

export const RegisterModel = Type.Object(
  {
    model_id: Type.String({ pattern: MODEL_ID }),
    name: optional(Type.String({ minLength: 1, maxLength: 255 })),
    model_ref: Type.String({ minLength: 1, maxLength: 1024 }),
    aliases: optional(Type.Array(Type.String({ pattern: MODEL_ID }), { maxItems: 32 })),
    size_bytes: optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
    vram_bytes: optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
    context_length: optional(Type.Integer({ minimum: 1, maximum: 100_000_000 })),
    slots: optional(Type.Integer({ minimum: 1, maximum: 1024 })),
    sha256: optional(Type.String({ pattern: '^[0-9a-f]{64}$' })),
    signature: optional(Type.String({ pattern: '^[A-Za-z0-9+/]{86}==$' })),
    public_key: optional(Type.String({ pattern: '^[A-Za-z0-9+/]{43}=$' })),
  },
  { additionalProperties: false },
);

export type RegisterModel = Static<typeof RegisterModel>;
