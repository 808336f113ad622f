/** Schemas of the HTTP requests and answers about the models of the catalog. */
import { Type } from 'typebox';
import { VerifyResult } from '../pool-wire.ts';
import { answerObject, Instant, instant, orNull, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;
const MODEL_ID = '^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$';
const bytes = (description: string) =>
  Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description });

/** Descriptions of the fields that a registration and an answer have in common. */
const TEXT = {
  id: 'Id of the model; jobs name it in `model`',
  name: 'Human-readable name; by default the id',
  ref: 'Reference, such as hf:org/repo@rev::file=model.gguf',
  aliases: 'Other names by which jobs may name the model',
  size: 'Size of the model file',
  vram: 'Device memory that a worker with this model needs',
  context: 'Maximum number of tokens of prompt and answer together',
  slots: 'Jobs that one worker runs at a time; by default the engine decides',
  sha256: 'SHA-256 of the model file, in hexadecimal',
};

export const RegisterModel = requestObject(
  {
    model_id: Type.String({ pattern: MODEL_ID, description: TEXT.id }),
    name: optional(Type.String({ minLength: 1, maxLength: 255, description: TEXT.name })),
    model_ref: Type.String({ minLength: 1, maxLength: 1024, description: TEXT.ref }),
    aliases: optional(
      Type.Array(Type.String({ pattern: MODEL_ID }), { maxItems: 32, description: TEXT.aliases }),
    ),
    size_bytes: optional(bytes(TEXT.size)),
    vram_bytes: optional(bytes(TEXT.vram)),
    context_length: optional(Type.Integer({ minimum: 1, maximum: 100_000_000, description: TEXT.context })),
    slots: optional(Type.Integer({ minimum: 1, maximum: 1024, description: TEXT.slots })),
    sha256: optional(Type.String({ pattern: '^[0-9a-f]{64}$', description: TEXT.sha256 })),
    signature: optional(
      Type.String({
        pattern: '^[A-Za-z0-9+/]{86}==$',
        description: 'Ed25519 signature of the 32 bytes of the SHA-256 of the file, in base64',
      }),
    ),
    public_key: optional(
      Type.String({
        pattern: '^[A-Za-z0-9+/]{43}=$',
        description: 'The 32 bytes of the Ed25519 public key to check `signature` with, in base64',
      }),
    ),
  },
  { title: 'RegisterModel' },
);
export type RegisterModel = Shape<typeof RegisterModel>;

export const SetModelState = requestObject({
  state: Type.Enum(['Active', 'Retired', 'active', 'retired'], {
    description:
      'Jobs for a retired model are refused. Answers spell the state with a capital; both spellings are accepted',
  }),
});

const VERDICT =
  '"warn" if the model has neither checksum nor signature; a mismatch is "fail" with verify_policy block, else "warn"';

/** The last verification of the file. */
const Verified = Type.Object({
  verdict: Type.String({ description: VERDICT }),
  at: Instant,
  pool: Type.String({ description: 'The pool that has read the file' }),
  sha256: Type.String({ description: 'SHA-256 of the file that was read, in hexadecimal' }),
});

export const ModelView = answerObject('Model', {
  model_id: Type.String({ description: TEXT.id }),
  name: Type.String({ description: TEXT.name }),
  model_ref: Type.String({ description: 'Reference with its revision and file pinned' }),
  aliases: Type.Array(Type.String(), { description: TEXT.aliases }),
  base: orNull(
    Type.String({ description: 'The model of which a worker pool has made it, by an adapter or a variant' }),
  ),
  size_bytes: Type.Integer({ description: TEXT.size }),
  vram_bytes: Type.Integer({ description: TEXT.vram }),
  context_length: Type.Integer({ description: TEXT.context }),
  lifecycle_state: Type.Union([Type.Literal('Active'), Type.Literal('Retired')], {
    description: 'Jobs for a retired model are refused',
  }),
  slots: orNull(Type.Integer({ description: TEXT.slots })),
  sha256: orNull(Type.String({ description: 'SHA-256 that the file must have, in hexadecimal' })),
  signed: Type.Boolean({ description: 'Whether the model was registered with a signature' }),
  verified: orNull(Verified),
  created_at: Instant,
  updated_at: instant('When the entry was last changed'),
});
export type ModelView = Shape<typeof ModelView>;

export const ModelList = answerObject('ModelList', { models: Type.Array(ModelView) });

export const VerificationView = answerObject('Verification', {
  verdict: Type.Union([Type.Literal('pass'), Type.Literal('warn'), Type.Literal('fail')], {
    description: VERDICT,
  }),
  ...VerifyResult.properties,
  pool: Type.String({ description: 'The pool that has read the file' }),
  model: ModelView,
});
export type VerificationView = Shape<typeof VerificationView>;
