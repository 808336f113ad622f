/** The routes for clients of OpenAI: chat, completions, embeddings, models. Each request becomes an ordinary job. */
import type { Agents } from '../../agents/agents.ts';
import { textInSlices } from '../../kit/json-writer.ts';
import { atOnce, ONE_TURN_BYTES, type Sliced } from '../../kit/slices.ts';
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
import {
  type Answer,
  type Call,
  type ErrorAnswer,
  type Route,
  route,
  type Stream,
} from '../../wire/route.ts';
import type { OpenStreams } from '../open-streams.ts';
import { answerByAgent } from './agent-answer.ts';
import { agentOf } from './agent-models.ts';
import { AnswerStream } from './answer-stream.ts';
import { collectOutput, type JobOutput } from './collect-output.ts';
import {
  type AnswerChunks,
  CHAT_FORMAT,
  COMPLETION_FORMAT,
  type CompletionHead,
  embeddingList,
  type OpenAiFormat,
} from './formats.ts';
import type { LargeResults } from './large-results.ts';
import { type ListedModels, modelRoutes } from './models.ts';
import {
  type ParsedEmbeddingRequest,
  type ParsedRequest,
  parseChatRequest,
  parseCompletionRequest,
  parseEmbeddingRequest,
  submitRequestOf,
} from './request.ts';
import { completionResultOf, embeddingsOf } from './result.ts';
import { type JobDependencies, type SubmittedJob, submitJob } from './submitted-job.ts';

export interface OpenAiDependencies extends JobDependencies {
  readonly agents: Agents;
  readonly models: ListedModels;
  readonly openStreams: OpenStreams;
  readonly results: LargeResults;
}

const ERRORS = {
  400: 'The request is malformed',
  404: 'No such model',
  409: 'The Idempotency-Key was used with another request',
  422: 'The engine does not support it',
  429: 'The queue is full, or the caller has too many streams',
} as const;

const JOB_OPTIONS = {
  [PRIORITY]: '`interactive` (the default here) or `batch`',
  [SESSION]: 'The `session_id` of the job',
  [AGENT]: 'The `agent` of the job',
  [IDEMPOTENCY_KEY]: 'The same key and request of the same caller give the same job and answer',
};

const STREAMED = 'With `"stream": true`: chunks as `data:` events in OpenAI\'s format, then `data: [DONE]`';

export const openAiRoutes = (dependencies: OpenAiDependencies): readonly Route[] => [
  chatRoute(dependencies),
  completionRoute(dependencies),
  embeddingRoute(dependencies),
  ...modelRoutes(dependencies.models),
];

const chatRoute = (dependencies: OpenAiDependencies): Route =>
  route({
    operationId: 'createChatCompletion',
    tag: 'openai',
    method: 'POST',
    path: '/v1/chat/completions',
    role: 'submit',
    summary: 'Chat in the format of OpenAI, streamed or not',
    ignoresQuery: true,
    requestHeaders: JOB_OPTIONS,
    body: ChatRequest,
    answers: { 200: { description: 'The answer', body: ChatCompletion, events: STREAMED }, ...ERRORS },
    isProxied: true,
    handle: (call) => {
      const parsed = parseChatRequest(call.body);
      const agent = agentOf(dependencies.agents, parsed.model);
      if (agent === undefined) return answer(dependencies, call, parsed, CHAT_FORMAT);
      return answerByAgent(dependencies, call, { agent, parsed, request: call.body });
    },
  });

const completionRoute = (dependencies: OpenAiDependencies): Route =>
  route({
    operationId: 'createCompletion',
    tag: 'openai',
    method: 'POST',
    path: '/v1/completions',
    role: 'submit',
    summary: 'Complete a text in the format of OpenAI, streamed or not',
    ignoresQuery: true,
    requestHeaders: JOB_OPTIONS,
    body: CompletionRequest,
    answers: { 200: { description: 'The answer', body: TextCompletion, events: STREAMED }, ...ERRORS },
    isProxied: true,
    handle: (call) => answer(dependencies, call, parseCompletionRequest(call.body), COMPLETION_FORMAT),
  });

const embeddingRoute = (dependencies: OpenAiDependencies): Route =>
  route({
    operationId: 'createEmbedding',
    tag: 'openai',
    method: 'POST',
    path: '/v1/embeddings',
    role: 'submit',
    summary: 'Embed texts in the format of OpenAI',
    ignoresQuery: true,
    requestHeaders: JOB_OPTIONS,
    body: EmbeddingRequest,
    answers: { 200: { description: 'The embeddings', body: EmbeddingList }, ...ERRORS },
    isProxied: true,
    handle: (call) => embed(dependencies, call, parseEmbeddingRequest(call.body)),
  });

type JobAnswer<B> = Answer<200, B> | ErrorAnswer;

function answer<B>(
  dependencies: OpenAiDependencies,
  call: Call,
  parsed: ParsedRequest,
  format: OpenAiFormat<B>,
): Promise<JobAnswer<B> | Stream> {
  const created = Math.floor(dependencies.env.clock.now() / 1000);
  const headOf = ({ submitted }: SubmittedJob): CompletionHead => ({
    jobId: submitted.job_id,
    created,
    model: parsed.model,
  });
  if (parsed.stream)
    return streamed(dependencies, call, parsed, (job) => format.chunks(headOf(job), parsed.includeUsage));
  return collected(dependencies, call, parsed, function* (job, result, { text, reasoning, tokens }) {
    const completed = yield* completionResultOf(result, tokens);
    const thought = completed.reasoning ?? reasoning;
    return format.whole(headOf(job), completed.text ?? text, { ...completed, reasoning: thought });
  });
}

const embed = (
  dependencies: OpenAiDependencies,
  call: Call,
  parsed: ParsedEmbeddingRequest,
): Promise<JobAnswer<EmbeddingList>> =>
  collected(dependencies, call, parsed, function* (_job, result) {
    const { embeddings, usage } = yield* embeddingsOf(result, parsed);
    return yield* embeddingList(parsed.model, embeddings, parsed.encoding, usage);
  });

async function streamed(
  dependencies: OpenAiDependencies,
  call: Call,
  parsed: ParsedRequest,
  chunksOf: (job: SubmittedJob) => AnswerChunks,
): Promise<Stream> {
  // Checked before the job is submitted: a caller with too many open streams must not start one it cannot read.
  const onClose = dependencies.openStreams.take(call.identity);
  try {
    const { job } = await admit(dependencies, call, parsed);
    const { env, heartbeatMs, results } = dependencies;
    const { includeUsage } = parsed;
    const stream = new AnswerStream({
      job,
      chunks: chunksOf(job),
      includeUsage,
      results,
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

async function collected<B>(
  dependencies: OpenAiDependencies,
  call: Call,
  parsed: ParsedRequest,
  bodyOf: (job: SubmittedJob, result: unknown, output: JobOutput) => Sliced<B>,
): Promise<JobAnswer<B>> {
  const { job, onDisconnect } = await admit(dependencies, call, parsed);
  try {
    const output = await collectOutput(job, onDisconnect);
    const { result, text } = output;
    if (!result.large && text.length <= ONE_TURN_BYTES)
      return { status: 200, headers: job.headers, body: atOnce(bodyOf(job, result.value, output)) };
    const json = await dependencies.results.answer(result, function* (value) {
      return yield* textInSlices(yield* bodyOf(job, value, output));
    });
    return { status: 200, headers: job.headers, json };
  } catch (error) {
    if (!(error instanceof OrchdError)) throw error;
    // The job exists by now: the headers carry its id so that the caller can look it up.
    return { error, headers: job.headers };
  }
}

interface Admitted {
  readonly job: SubmittedJob;
  /** Registers what runs when the caller disconnects; runs it at once if that happened during admission. */
  readonly onDisconnect: (run: () => void) => void;
}

async function admit(dependencies: OpenAiDependencies, call: Call, parsed: ParsedRequest): Promise<Admitted> {
  const request = submitRequestOf(call, parsed);
  let isDisconnected = false;
  let disconnected = (): void => {
    isDisconnected = true;
  };
  call.onDisconnect(() => disconnected());
  const job = await submitJob(dependencies, call, request);
  const onDisconnect = (run: () => void): void => {
    disconnected = run;
    if (isDisconnected) run();
  };
  return { job, onDisconnect };
}
