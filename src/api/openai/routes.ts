/** The surface for clients of OpenAI: what they ask becomes a job like any other. */
import type { TSchema } from 'typebox';
import type { Answer, Call, Route, Stream } from '../../wire/route.ts';
import { AnswerStream } from './answer-stream.ts';
import { type Asked, type AskParts, ask } from './asked.ts';
import { type ModelNames, modelRoutes } from './models.ts';
import {
  ChatRequest,
  CompletionRequest,
  EmbeddingRequest,
  jobOf,
  type Wanted,
  type WantedEmbeddings,
  wantedChat,
  wantedCompletion,
  wantedEmbeddings,
} from './request.ts';
import { completedOf, embeddingsOf } from './result.ts';
import { CHAT, COMPLETION, embeddingList, type Head, type Shape } from './shapes.ts';
import { wholeAnswer } from './whole-answer.ts';

export interface OpenAiParts extends AskParts {
  readonly models: ModelNames;
}

export function openAiRoutes(parts: OpenAiParts): readonly Route[] {
  return [
    route('/v1/chat/completions', 'Chat as OpenAI does, streamed or not', ChatRequest, (call) =>
      answer(parts, call, wantedChat(call.body), CHAT),
    ),
    route('/v1/completions', 'Complete a text as OpenAI does, streamed or not', CompletionRequest, (call) =>
      answer(parts, call, wantedCompletion(call.body), COMPLETION),
    ),
    route('/v1/embeddings', 'Embed texts as OpenAI does', EmbeddingRequest, (call) =>
      embed(parts, call, wantedEmbeddings(call.body)),
    ),
    ...modelRoutes(parts.models),
  ];
}

const route = (
  path: string,
  summary: string,
  body: TSchema,
  handle: (call: Call) => Promise<Answer | Stream>,
): Route => ({
  method: 'POST',
  path,
  role: 'submit',
  summary,
  body,
  answers: {
    200: 'The answer, or the stream of it',
    400: 'The request has not the required form',
    404: 'No such model',
    409: 'The Idempotency-Key was used with another request',
    422: 'The engine cannot do it',
    429: 'The queue is full',
  },
  passedOn: true,
  handle,
});

async function answer(
  parts: OpenAiParts,
  call: Call,
  wanted: Wanted,
  shape: Shape,
): Promise<Answer | Stream> {
  const { asked, whenGone } = await admit(parts, call, wanted);
  const { env, heartbeatMs } = parts;
  const head: Head = {
    jobId: asked.submitted.job_id,
    created: Math.floor(env.clock.now() / 1000),
    model: wanted.model,
  };
  if (wanted.stream) {
    const { includeUsage } = wanted;
    const pieces = shape.pieces(head, includeUsage);
    const stream = new AnswerStream({ asked, pieces, includeUsage, env, heartbeatMs });
    return { stream: (request, response) => stream.run(request, response) };
  }
  const { result, text, tokens } = await wholeAnswer(asked, whenGone);
  const completed = completedOf(result, tokens);
  return {
    status: 200,
    headers: asked.headers,
    body: shape.whole(head, completed.text ?? text, completed),
  };
}

async function embed(parts: OpenAiParts, call: Call, wanted: WantedEmbeddings): Promise<Answer> {
  const { asked, whenGone } = await admit(parts, call, wanted);
  const { result } = await wholeAnswer(asked, whenGone);
  const { embeddings, usage } = embeddingsOf(result, wanted);
  const body = embeddingList(wanted.model, embeddings, wanted.encoding, usage);
  return { status: 200, headers: asked.headers, body };
}

interface Admitted {
  readonly asked: Asked;
  /** Runs at once where the caller left while the job was admitted. */
  readonly whenGone: (run: () => void) => void;
}

async function admit(parts: OpenAiParts, call: Call, wanted: Wanted): Promise<Admitted> {
  const request = jobOf(call, wanted);
  let isGone = false;
  let leave = (): void => {
    isGone = true;
  };
  call.onGone(() => leave());
  const asked = await ask(parts, call, request);
  const whenGone = (run: () => void): void => {
    leave = run;
    if (isGone) run();
  };
  return { asked, whenGone };
}
