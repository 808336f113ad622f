/** A language model of the AI SDK whose calls are jobs of the queue. */
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
} from '@ai-sdk/provider';
import { type JobOutput, OutputCollector } from '../api/openai/collect-output.ts';
import { JobSink } from '../api/openai/job-sink.ts';
import type { OrchdClient } from '../client/client.ts';
import { randomId } from '../client/submit-lines.ts';
import type { SubmitRequest } from '../model/submit.ts';
import { answerOf, contentOf, resultOf } from './answer.ts';
import { AnswerParts } from './answer-parts.ts';
import { callError } from './call-error.ts';
import { type CallIds, checkRun } from './call-ids.ts';
import { type CallJob, openJob } from './call-job.ts';
import { type CallRequest, callRequest, type JobOptions } from './request.ts';
import { NAMESPACE } from './warnings.ts';

export interface ModelSettings {
  readonly client: OrchdClient;
  readonly url: string;
  readonly ids: CallIds;
  readonly run: string | undefined;
  readonly job: JobOptions;
  readonly patienceMs: number | undefined;
  readonly supportedUrls: Record<string, RegExp[]>;
}

export class QueuedLanguageModel implements LanguageModelV4 {
  readonly specificationVersion = 'v4';
  readonly provider = NAMESPACE;
  readonly modelId: string;
  readonly supportedUrls: Record<string, RegExp[]>;
  readonly #settings: ModelSettings;

  constructor(modelId: string, settings: ModelSettings) {
    this.modelId = modelId;
    this.supportedUrls = settings.supportedUrls;
    this.#settings = settings;
  }

  async doGenerate(options: LanguageModelV4CallOptions): Promise<LanguageModelV4GenerateResult> {
    const request = callRequest(options);
    const job = await this.#open(request, options);
    const done = Promise.withResolvers<JobOutput>();
    const sink = new JobSink(new OutputCollector(done));
    // The error of a job is thrown by the wait below; without this it would also be an unhandled rejection.
    done.promise.catch(() => undefined);
    const output = await this.#failing(request, async () => {
      await this.#read(job, sink);
      return done.promise;
    });
    const answer = answerOf({ result: resultOf(output.result), cost: sink.cost }, output, job.id);
    const { finishReason, usage, providerMetadata } = answer;
    return {
      content: contentOf(answer),
      finishReason,
      usage,
      providerMetadata,
      request: { body: request.payload },
      response: { id: job.id.jobId, modelId: this.modelId },
      warnings: request.warnings.list,
    };
  }

  async doStream(options: LanguageModelV4CallOptions): Promise<LanguageModelV4StreamResult> {
    const request = callRequest(options);
    const job = await this.#open(request, options);
    const parts = this.#parts(job, request, options);
    const stream = new ReadableStream<LanguageModelV4StreamPart>({
      pull: async (controller) => {
        const { done, value } = await parts.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => {
        job.leave();
        job.id.release();
      },
    });
    return { stream, request: { body: request.payload } };
  }

  /** A call that is not read to its end has no answer: its number is given back. */
  async #read(job: CallJob, sink: JobSink): Promise<void> {
    try {
      for await (const _ of job.follow(sink));
    } catch (error) {
      job.id.release();
      throw error;
    }
  }

  async *#parts(
    job: CallJob,
    request: CallRequest,
    { includeRawChunks, abortSignal }: LanguageModelV4CallOptions,
  ): AsyncGenerator<LanguageModelV4StreamPart> {
    yield { type: 'stream-start', warnings: request.warnings.list };
    yield { type: 'response-metadata', id: job.id.jobId, modelId: this.modelId };
    const answer: AnswerParts = new AnswerParts(job.id, () => sink.cost);
    const sink = new JobSink(answer);
    try {
      for await (const event of job.follow(sink)) {
        if (includeRawChunks) yield { type: 'raw', rawValue: event };
        yield* answer.take();
        if (answer.error) break;
      }
    } catch (error) {
      job.id.release();
      if (abortSignal?.aborted) throw error;
      yield { type: 'error', error: this.#errorOf(error, request) };
      return;
    }
    if (!answer.error) return;
    // The job has an answer for whoever asks again.
    if (answer.isContradicted) job.id.release();
    yield { type: 'error', error: this.#errorOf(answer.error, request) };
  }

  #open(request: CallRequest, { abortSignal: signal }: LanguageModelV4CallOptions): Promise<CallJob> {
    const { client, ids, patienceMs } = this.#settings;
    const given = request.settings.run ?? this.#settings.run;
    const run = given === undefined ? `call-${randomId()}` : checkRun(given);
    const takeId = () => ids.take(run, this.modelId, request.payload);
    const job = this.#jobOf(request, given === undefined ? undefined : run);
    return this.#failing(request, () => openJob({ client, patienceMs, signal }, takeId, job));
  }

  #jobOf({ payload, settings }: CallRequest, run: string | undefined): SubmitRequest {
    const { job } = this.#settings;
    const tags = { ...(run !== undefined && { run }), ...job.tags, ...settings.job?.tags };
    return {
      priority: 'interactive',
      // Without a run nobody could ask for the answer again.
      on_disconnect: run === undefined ? 'cancel' : 'continue',
      after_output: 'retry',
      ...job,
      ...settings.job,
      ...(Object.keys(tags).length > 0 && { tags }),
      type: 'inference',
      model: this.modelId,
      payload,
    };
  }

  async #failing<T>(request: CallRequest, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#errorOf(error, request);
    }
  }

  #errorOf = (error: unknown, { payload }: CallRequest): unknown =>
    callError(error, { url: `${this.#settings.url}/v2/tasks`, payload });
}
