/** The engine that passes requests to a server with an OpenAI-compatible API, which it can start itself. */

import type { Env } from '../../kit/env/env.ts';
import type { Secret } from '../../kit/secret.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import { Outbound, type Target } from '../../wire/outbound.ts';
import type { Engine, EngineInfo, RunContext } from '../execution/engine.ts';
import type { InferenceRequest } from '../execution/inference-request.ts';
import { callOpenAi, openAiHeaders } from './openai-calls.ts';
import { awaitHealth, contextOf } from './openai-health.ts';
import { Upstream } from './openai-upstream.ts';

export interface OpenAiOptions {
  readonly env: Env;
  /** The server's name of the model. */
  readonly model: string;
  /** For the command that starts the server. */
  readonly variant?: string | undefined;
  /** The base URL without `/v1`. */
  readonly url: string | undefined;
  /** The command that starts the server, with placeholders: see upstreamArgv. */
  readonly command: readonly string[] | undefined;
  readonly key: Secret | undefined;
  readonly slots: number;
  readonly contextLength: number | undefined;
}

export class OpenAiEngine implements Engine {
  readonly #options: OpenAiOptions;
  readonly #outbound: Outbound;
  readonly #ended = Promise.withResolvers<OrchdError>();
  #target: Target | undefined;
  #upstream: Upstream | undefined;
  #stopping = false;

  constructor(options: OpenAiOptions) {
    this.#options = options;
    this.#outbound = new Outbound({ timers: options.env.timers });
  }

  get ended(): Promise<OrchdError> {
    return this.#ended.promise;
  }

  async load(signal: AbortSignal): Promise<EngineInfo> {
    const { env, model, variant, url, command, slots, contextLength } = this.#options;
    if (command) {
      this.#upstream = await Upstream.start(env, command, { model, variant, slots, contextLength });
      void this.#upstream.ended.then((error) => this.#stopping || this.#ended.resolve(error));
    }
    const port = this.#upstream?.port;
    const base = url ?? `http://127.0.0.1:${port}`;
    this.#target = this.#outbound.to(base.replaceAll('{port}', String(port)));
    const target = this.#target;
    await awaitHealth({ env, target, headers: this.#headers(), ended: this.#upstream?.ended, signal });
    const found = await contextOf(target, this.#headers(), model);
    return {
      model,
      // A server that was started here uses a device of this machine; how much of it, it does not say.
      vramBytes: command ? undefined : 0,
      slots,
      contextLength: contextLength ?? found ?? 0,
      features: ['chat', 'completions', 'embeddings', 'tools', 'json_schema'],
    };
  }

  async run(request: InferenceRequest, context: RunContext): Promise<ExecutionResult> {
    const server = { target: this.#server(), headers: this.#headers(), model: this.#options.model };
    return callOpenAi(server, request, context);
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#outbound.close();
    await this.#upstream?.stop();
  }

  #server(): Target {
    if (this.#target) return this.#target;
    throw new OrchdError('WORKER_BUSY', 'the upstream is not ready');
  }

  #headers(): Record<string, string> {
    return openAiHeaders(this.#options.key?.reveal());
  }
}
