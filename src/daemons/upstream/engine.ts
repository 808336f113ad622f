/** The engine of an upstream's executor: each call goes to the model that the job names. */
import { type ErrorCode, OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import { asChat } from '../../wire/dialects/as-chat.ts';
import type { Engine, EngineInfo, RunContext } from '../execution/engine.ts';
import type { InferenceRequest } from '../execution/inference-request.ts';
import { callOpenAi } from '../worker/openai-calls.ts';
import type { UpstreamWatch } from './watch.ts';

/** Errors of a server that is there and has the model. */
const SAYS_NOTHING: ReadonlySet<ErrorCode> = new Set(['RATE_LIMITED', 'CONTEXT_TOO_LONG', 'INVALID_PARAMS']);

export class UpstreamEngine implements Engine {
  readonly #watch: UpstreamWatch;

  constructor(watch: UpstreamWatch) {
    this.#watch = watch;
  }

  /** Never called: the executor takes offers as the state of the watch allows. */
  async load(): Promise<EngineInfo> {
    throw new OrchdError('UNSUPPORTED');
  }

  async run(request: InferenceRequest, context: RunContext): Promise<ExecutionResult> {
    const server = this.#watch.serverOf(request.body.model);
    try {
      return await callOpenAi(server, asChat(request), context);
    } catch (error) {
      if (error instanceof OrchdError && !context.signal.aborted) this.#noteFailure(error);
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.#watch.stop();
  }

  #noteFailure(error: OrchdError): void {
    if (error.details.reason === 'unreachable') this.#watch.unreachable(error);
    else if (!SAYS_NOTHING.has(error.code)) this.#watch.suspect();
  }
}
