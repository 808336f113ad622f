/** The surface for clients of OpenAI: what they ask becomes a job like any other. */
import type { TSchema } from 'typebox';
import { OrchdError } from '../../model/errors.ts';
import { renderError } from '../../wire/render-error.ts';
import type { Answer, Call, Route, Stream } from '../../wire/route.ts';
import type { OpenStreams } from '../open-streams.ts';
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
import { CHAT, COMPLETION, embeddingList, type Head, type Pieces, type Shape } from './shapes.ts';
import { type Heard, wholeAnswer } from './whole-answer.ts';

export interface OpenAiParts extends AskParts {
  readonly models: ModelNames;
  readonly open: OpenStreams;
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
    429: 'The queue is full, or the caller has too many streams',
  },
  passedOn: true,
  handle,
});

function answer(parts: OpenAiParts, call: Call, wanted: Wanted, shape: Shape): Promise<Answer | Stream> {
  const created = Math.floor(parts.env.clock.now() / 1000);
  const headOf = ({ submitted }: Asked): Head => ({ jobId: submitted.job_id, created, model: wanted.model });
  if (wanted.stream)
    return streamed(parts, call, wanted, (asked) => shape.pieces(headOf(asked), wanted.includeUsage));
  return whole(parts, call, wanted, (asked, { result, text, tokens }) => {
    const completed = completedOf(result, tokens);
    return shape.whole(headOf(asked), completed.text ?? text, completed);
  });
}

const embed = (parts: OpenAiParts, call: Call, wanted: WantedEmbeddings): Promise<Answer> =>
  whole(parts, call, wanted, (_asked, { result }) => {
    const { embeddings, usage } = embeddingsOf(result, wanted);
    return embeddingList(wanted.model, embeddings, wanted.encoding, usage);
  });

async function streamed(
  parts: OpenAiParts,
  call: Call,
  wanted: Wanted,
  piecesOf: (asked: Asked) => Pieces,
): Promise<Stream> {
  // Before the job is taken: one that nobody may listen to is not begun.
  const onClose = parts.open.take(call.identity);
  try {
    const { asked } = await admit(parts, call, wanted);
    const { env, heartbeatMs } = parts;
    const { includeUsage } = wanted;
    const stream = new AnswerStream({
      asked,
      pieces: piecesOf(asked),
      includeUsage,
      env,
      heartbeatMs,
      onClose,
    });
    return { stream: (request, response) => stream.run(request, response) };
  } catch (error) {
    onClose();
    throw error;
  }
}

async function whole(
  parts: OpenAiParts,
  call: Call,
  wanted: Wanted,
  bodyOf: (asked: Asked, heard: Heard) => object,
): Promise<Answer> {
  const { asked, whenGone } = await admit(parts, call, wanted);
  try {
    const body = bodyOf(asked, await wholeAnswer(asked, whenGone));
    return { status: 200, headers: asked.headers, body };
  } catch (error) {
    if (!(error instanceof OrchdError)) throw error;
    // There is a job by now, and who asked for it is to find it.
    const { status, headers, body } = renderError(error, call.correlationId, 'openai');
    return { status, headers: { ...headers, ...asked.headers }, body };
  }
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
