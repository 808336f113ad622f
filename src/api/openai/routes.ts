/** The surface for clients of OpenAI: what they ask becomes a job like any other. */
import { OrchdError } from '../../model/errors.ts';
import {
  ChatCompletion,
  ChatRequest,
  CompletionRequest,
  EmbeddingList,
  EmbeddingRequest,
  TextCompletion,
} from '../../model/http/openai.ts';
import { AGENT, IDEMPOTENCY_KEY, PRIORITY, SESSION } from '../../wire/headers.ts';
import { type Answer, type Call, type Failure, type Route, route, type Stream } from '../../wire/route.ts';
import type { OpenStreams } from '../open-streams.ts';
import { AnswerStream } from './answer-stream.ts';
import { type Asked, type AskParts, ask } from './asked.ts';
import { type ModelNames, modelRoutes } from './models.ts';
import {
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

const ERRORS = {
  400: 'The request has not the required form',
  404: 'No such model',
  409: 'The Idempotency-Key was used with another request',
  422: 'The engine cannot do it',
  429: 'The queue is full, or the caller has too many streams',
} as const;

const JOB_OPTIONS = {
  [PRIORITY]: '`interactive` (the default here) or `batch`',
  [SESSION]: 'The `session_id` of the job',
  [AGENT]: 'The `agent` of the job',
  [IDEMPOTENCY_KEY]: 'The same key and request of the same caller give the same job and answer',
};

const STREAMED = 'With `"stream": true`: pieces as `data:` events in OpenAI\'s format, then `data: [DONE]`';

export const openAiRoutes = (parts: OpenAiParts): readonly Route[] => [
  chatRoute(parts),
  completionRoute(parts),
  embeddingRoute(parts),
  ...modelRoutes(parts.models),
];

const chatRoute = (parts: OpenAiParts): Route =>
  route({
    operationId: 'createChatCompletion',
    tag: 'openai',
    method: 'POST',
    path: '/v1/chat/completions',
    role: 'submit',
    summary: 'Chat as OpenAI does, streamed or not',
    ignoresQuery: true,
    requestHeaders: JOB_OPTIONS,
    body: ChatRequest,
    answers: { 200: { description: 'The answer', body: ChatCompletion, events: STREAMED }, ...ERRORS },
    passedOn: true,
    handle: (call) => answer(parts, call, wantedChat(call.body), CHAT),
  });

const completionRoute = (parts: OpenAiParts): Route =>
  route({
    operationId: 'createCompletion',
    tag: 'openai',
    method: 'POST',
    path: '/v1/completions',
    role: 'submit',
    summary: 'Complete a text as OpenAI does, streamed or not',
    ignoresQuery: true,
    requestHeaders: JOB_OPTIONS,
    body: CompletionRequest,
    answers: { 200: { description: 'The answer', body: TextCompletion, events: STREAMED }, ...ERRORS },
    passedOn: true,
    handle: (call) => answer(parts, call, wantedCompletion(call.body), COMPLETION),
  });

const embeddingRoute = (parts: OpenAiParts): Route =>
  route({
    operationId: 'createEmbedding',
    tag: 'openai',
    method: 'POST',
    path: '/v1/embeddings',
    role: 'submit',
    summary: 'Embed texts as OpenAI does',
    ignoresQuery: true,
    requestHeaders: JOB_OPTIONS,
    body: EmbeddingRequest,
    answers: { 200: { description: 'The embeddings', body: EmbeddingList }, ...ERRORS },
    passedOn: true,
    handle: (call) => embed(parts, call, wantedEmbeddings(call.body)),
  });

type JobAnswer<B> = Answer<200, B> | Failure;

function answer<B>(
  parts: OpenAiParts,
  call: Call,
  wanted: Wanted,
  shape: Shape<B>,
): Promise<JobAnswer<B> | Stream> {
  const created = Math.floor(parts.env.clock.now() / 1000);
  const headOf = ({ submitted }: Asked): Head => ({ jobId: submitted.job_id, created, model: wanted.model });
  if (wanted.stream)
    return streamed(parts, call, wanted, (asked) => shape.pieces(headOf(asked), wanted.includeUsage));
  return whole(parts, call, wanted, (asked, { result, text, tokens }) => {
    const completed = completedOf(result, tokens);
    return shape.whole(headOf(asked), completed.text ?? text, completed);
  });
}

const embed = (parts: OpenAiParts, call: Call, wanted: WantedEmbeddings): Promise<JobAnswer<EmbeddingList>> =>
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

async function whole<B>(
  parts: OpenAiParts,
  call: Call,
  wanted: Wanted,
  bodyOf: (asked: Asked, heard: Heard) => B,
): Promise<JobAnswer<B>> {
  const { asked, whenGone } = await admit(parts, call, wanted);
  try {
    const body = bodyOf(asked, await wholeAnswer(asked, whenGone));
    return { status: 200, headers: asked.headers, body };
  } catch (error) {
    if (!(error instanceof OrchdError)) throw error;
    // The job exists by now: its id in the headers lets the caller look at it.
    return { error, headers: asked.headers };
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
