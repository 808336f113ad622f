/**
 * Answers a chat request for `agent:NAME` with a run of that agent. The whole answer is the reply of the run. A stream
 * has the words of all calls of the model as they come, with a blank line between two calls: which call is the last one is
 * known only at its end.
 */
import type { Agents } from '../../agents/agents.ts';
import type { RunResult } from '../../agents/run.ts';
import type { StepNote } from '../../agents/run-state.ts';
import { isErrorCode, OrchdError } from '../../model/errors.ts';
import type { ChatCompletion, ChatRequest } from '../../model/http/openai.ts';
import { isListed } from '../../model/model-list.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import type { Answer, Call, ErrorAnswer, Stream } from '../../wire/route.ts';
import type { OpenStreams } from '../open-streams.ts';
import { callerOf } from '../tasks.ts';
import { runRequestOf } from './agent-request.ts';
import { AgentStream } from './agent-stream.ts';
import { collectOutput } from './collect-output.ts';
import { CHAT_FORMAT, type CompletionHead } from './formats.ts';
import type { ParsedRequest } from './request.ts';
import { type CompletionResult, type OpenAiUsage, usageIn } from './result.ts';
import { type JobDependencies, type SubmittedJob, submitJob } from './submitted-job.ts';

export interface AgentAnswerParts extends JobDependencies {
  readonly agents: Agents;
  readonly openStreams: OpenStreams;
}

/** A chat request for an agent. */
export interface AgentChat {
  readonly agent: string;
  readonly parsed: ParsedRequest;
  readonly request: ChatRequest;
}

type AgentAnswer = Answer<200, ChatCompletion> | ErrorAnswer;

export function answerByAgent(
  parts: AgentAnswerParts,
  call: Call,
  chat: AgentChat,
): Promise<AgentAnswer | Stream> {
  checkAllowed(call, chat.parsed.model);
  return chat.parsed.stream ? streamed(parts, call, chat) : whole(parts, call, chat);
}

/** As admission does it for models: whoever may use the agent may use it with whatever model it asks. */
function checkAllowed({ identity }: Call, model: string): void {
  if (isListed(identity.models, model)) return;
  throw new OrchdError('FORBIDDEN', `the token may not use the model "${model}"`, {
    reason: 'model_not_allowed',
    field: 'model',
  });
}

function start(parts: AgentAnswerParts, call: Call, { agent, parsed, request }: AgentChat) {
  const caller = { ...callerOf(call), models: undefined };
  return submitJob(parts, call, runRequestOf(call, parsed, agent, request), caller);
}

const headOf = (job: SubmittedJob, created: number, { parsed }: AgentChat): CompletionHead => ({
  jobId: job.submitted.job_id,
  created,
  model: parsed.model,
});

const nowInSeconds = ({ env }: AgentAnswerParts): number => Math.floor(env.clock.now() / 1000);

async function whole(parts: AgentAnswerParts, call: Call, chat: AgentChat): Promise<AgentAnswer> {
  const disconnected = Promise.withResolvers<void>();
  call.onDisconnect(() => disconnected.resolve());
  const created = nowInSeconds(parts);
  const job = await start(parts, call, chat);
  try {
    const { result } = await collectOutput(job, (run) => void disconnected.promise.then(run));
    const { orchestrator } = parts;
    const { tenant } = call.identity;
    const kept = result.large ? (await orchestrator.get(job.submitted.job_id, tenant)).result : result.value;
    const run = kept as RunResult;
    job.cost = run.cost;
    const completed = await completedRun(orchestrator, tenant, run, job.submitted.job_id);
    const body = CHAT_FORMAT.whole(headOf(job, created, chat), completed.text ?? '', completed);
    return { status: 200, headers: job.headers, body };
  } catch (error) {
    if (!(error instanceof OrchdError)) throw error;
    // The run exists by now: the headers carry its id so that the caller can look it up.
    return { error, headers: job.headers };
  }
}

async function streamed(parts: AgentAnswerParts, call: Call, chat: AgentChat): Promise<Stream> {
  // Checked before the run is submitted: a caller with too many open streams must not start one it cannot read.
  const onClose = parts.openStreams.take(call.identity);
  try {
    const job = await start(parts, call, chat);
    const { includeUsage } = chat.parsed;
    const { orchestrator, env, heartbeatMs } = parts;
    const stream = new AgentStream({
      job,
      chunks: CHAT_FORMAT.chunks(headOf(job, nowInSeconds(parts), chat), includeUsage),
      includeUsage,
      orchestrator,
      env,
      heartbeatMs,
      onClose,
      completed: (result) => completedRun(orchestrator, call.identity.tenant, result, job.submitted.job_id),
    });
    return { stream: (request, response) => void stream.run(request, response) };
  } catch (error) {
    onClose();
    throw error;
  }
}

/** The result of a run in the form of a model's. Throws the error of a run that has failed. */
async function completedRun(
  orchestrator: Orchestrator,
  tenant: string,
  { reply, steps, error }: RunResult,
  jobId: string,
): Promise<CompletionResult> {
  if (error) {
    const code = isErrorCode(error.code) ? error.code : 'EXECUTION_FAILED';
    throw new OrchdError(code, error.message, { jobId });
  }
  const calls = steps.flatMap(({ event, job_id }) =>
    NO_MODEL.includes(event) || job_id === undefined ? [] : [job_id],
  );
  const usage = await usageOf(orchestrator, tenant, calls);
  return { text: reply, reasoning: undefined, finishReason: 'stop', toolCalls: [], usage };
}

/** The steps that are no call of the model of the run. */
const NO_MODEL: readonly StepNote['event'][] = ['tool_call', 'branch', 'approval'];

/** The tokens of all calls of the model; a call that is no longer kept counts nothing. */
async function usageOf(
  orchestrator: Orchestrator,
  tenant: string,
  jobIds: readonly string[],
): Promise<OpenAiUsage> {
  let [prompt, completion] = [0, 0];
  for (const id of jobIds) {
    const job = await orchestrator.get(id, tenant).catch(() => undefined);
    const told = (job?.result as { usage?: unknown } | undefined)?.usage;
    const used = job?.usage ?? usageIn(told, 0);
    prompt += used.prompt_tokens;
    completion += used.completion_tokens;
  }
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}
