/** Schemas of the HTTP requests and answers in OpenAI's format, as far as orchd reads or writes them. */
import { type TProperties, type TSchema, Type } from 'typebox';
import { MAX_TOKENS } from '../submit.ts';
import { ToolCall } from '../worker-wire.ts';
import { AnyObject, answerObject, orNull, type Shape } from './shape.ts';

const MAX_INPUTS = 2048;

/** OpenAI's clients send null for a field that is not set. */
const nullable = <S extends TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]));

/** A request object whose unknown fields are passed on to the worker. */
const openRequest = <P extends TProperties>(title: string, properties: P) =>
  Type.Object(properties, { title, additionalProperties: true });

const shared = {
  model: Type.String({ minLength: 1, maxLength: 1024 }),
  user: nullable(Type.String({ description: 'Ignored; the header X-Orchd-Agent names the agent' })),
};

const generating = {
  ...shared,
  stream: nullable(Type.Boolean()),
  stream_options: nullable(
    Type.Object({ include_usage: nullable(Type.Boolean()) }, { additionalProperties: true }),
  ),
  n: nullable(Type.Integer({ minimum: 1, description: 'Only 1 is supported' })),
  max_tokens: nullable(Type.Integer({ minimum: 1, maximum: MAX_TOKENS })),
  temperature: nullable(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: nullable(Type.Number({ minimum: 0, maximum: 1 })),
  seed: nullable(Type.Integer()),
  stop: nullable(Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 64 })])),
};

const ChatMessage = Type.Object(
  { role: Type.String({ minLength: 1, maxLength: 64 }) },
  { additionalProperties: true },
);

export const ChatRequest = openRequest('ChatRequest', {
  ...generating,
  messages: Type.Array(ChatMessage, { minItems: 1, maxItems: 10_000 }),
  max_completion_tokens: nullable(Type.Integer({ minimum: 1, maximum: MAX_TOKENS })),
  tools: nullable(Type.Array(AnyObject, { maxItems: 1024 })),
  tool_choice: nullable(Type.Union([Type.String(), AnyObject])),
  response_format: nullable(AnyObject),
});
export type ChatRequest = Shape<typeof ChatRequest>;

const Texts = Type.Union([Type.String(), Type.Array(Type.Unknown(), { minItems: 1, maxItems: MAX_INPUTS })]);

export const CompletionRequest = openRequest('CompletionRequest', { ...generating, prompt: Texts });
export type CompletionRequest = Shape<typeof CompletionRequest>;

export const EmbeddingRequest = openRequest('EmbeddingRequest', {
  ...shared,
  input: Texts,
  encoding_format: nullable(Type.Enum(['float', 'base64'])),
  dimensions: nullable(Type.Integer({ minimum: 1, maximum: 2 ** 20 })),
});
export type EmbeddingRequest = Shape<typeof EmbeddingRequest>;

const UsageView = answerObject('Usage', {
  prompt_tokens: Type.Integer(),
  completion_tokens: Type.Integer(),
  total_tokens: Type.Integer(),
  prompt_tokens_details: Type.Optional(
    Type.Object({ cached_tokens: Type.Integer() }, { description: 'If the backend has told' }),
  ),
  completion_tokens_details: Type.Optional(
    Type.Object({ reasoning_tokens: Type.Integer() }, { description: 'If the backend has told' }),
  ),
});
export type UsageView = Shape<typeof UsageView>;

const head = {
  id: Type.String(),
  created: Type.Integer({ description: 'When the request arrived, in seconds since 1970' }),
  model: Type.String(),
};
const choice = { index: Type.Integer(), logprobs: Type.Null(), finish_reason: Type.String() };

export const ChatCompletion = answerObject('ChatCompletion', {
  ...head,
  object: Type.Literal('chat.completion'),
  choices: Type.Array(
    Type.Object({
      ...choice,
      message: Type.Object({
        role: Type.Literal('assistant'),
        content: orNull(Type.String()),
        refusal: Type.Null(),
        reasoning_content: Type.Optional(
          Type.String({ description: 'What the model has thought before its answer, if it shows it' }),
        ),
        tool_calls: Type.Optional(Type.Array(ToolCall)),
      }),
    }),
  ),
  usage: UsageView,
});
export type ChatCompletion = Shape<typeof ChatCompletion>;

export const TextCompletion = answerObject('TextCompletion', {
  ...head,
  object: Type.Literal('text_completion'),
  choices: Type.Array(Type.Object({ ...choice, text: Type.String() })),
  usage: UsageView,
});
export type TextCompletion = Shape<typeof TextCompletion>;

export const EmbeddingList = answerObject('EmbeddingList', {
  object: Type.Literal('list'),
  model: Type.String(),
  data: Type.Array(
    Type.Object({
      object: Type.Literal('embedding'),
      index: Type.Integer(),
      embedding: Type.Union([
        Type.Array(Type.Number()),
        Type.String({ description: 'With encoding_format base64: 32-bit little-endian floats' }),
      ]),
    }),
  ),
  usage: Type.Object({ prompt_tokens: Type.Integer(), total_tokens: Type.Integer() }),
});
export type EmbeddingList = Shape<typeof EmbeddingList>;

export const OpenAiModel = answerObject('OpenAiModel', {
  id: Type.String(),
  object: Type.Literal('model'),
  created: Type.Integer({
    description:
      'When the model was registered, in seconds since 1970; for a model outside the catalog, when the brain started',
  }),
  owned_by: Type.String({ description: 'Always "orchd"' }),
});
export type OpenAiModel = Shape<typeof OpenAiModel>;

export const OpenAiModelList = answerObject('OpenAiModelList', {
  object: Type.Literal('list'),
  data: Type.Array(OpenAiModel),
});
