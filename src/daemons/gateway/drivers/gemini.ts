/**
 * Calls Gemini's `streamGenerateContent`, or `generateContent` where the answer is wanted as a whole. The provider keeps
 * nothing and takes no tag: an answer that was not read is lost, and charged for.
 */
import { OrchdError } from '../../../model/errors.ts';
import type { ExecutionResult } from '../../../model/worker-wire.ts';
import { geminiBody } from '../../../wire/dialects/gemini.ts';
import { GeminiAnswer } from '../../../wire/dialects/gemini-answer.ts';
import { protocolError } from '../../../wire/dialects/protocol-error.ts';
import type { StreamReply } from '../../../wire/outbound.ts';
import { pulledEvents } from '../../../wire/pulled-events.ts';
import type { Driver, DriverAbilities, DriverCall } from '../driver.ts';
import { MAX_EVENT_CHARS } from './anthropic-messages.ts';
import { isLost, type ProviderApi } from './provider-api.ts';

/** The key goes into a header only: Google also takes it in the URL, which ends up in logs. */
export const geminiHeaders = (key: string | undefined): Record<string, string> =>
  key === undefined ? {} : { 'x-goog-api-key': key };

export class GeminiDriver implements Driver {
  readonly abilities: DriverAbilities = {
    finds: 'nothing',
    keepsMs: 0,
    cancels: 'disconnect',
    billsWhenCut: true,
  };
  readonly #api: ProviderApi;
  readonly #isStreamed: boolean;

  constructor(api: ProviderApi, isStreamed: boolean) {
    this.#api = api;
    this.#isStreamed = isStreamed;
  }

  run(call: DriverCall): Promise<ExecutionResult> {
    return this.#api.guard(call.signal, async () => {
      const body = geminiBody(call.request);
      const answer = new GeminiAnswer(call);
      const path = pathOf(call.model);
      if (this.#isStreamed) {
        const request = { path: `${path}:streamGenerateContent?alt=sse`, body };
        await readToEnd(await this.#api.openStream(request, call.signal), answer);
      } else {
        answer.addChunk(await this.#api.create({ path: `${path}:generateContent`, body }, call.signal));
        if (!answer.finished) throw protocolError('sent an answer without a finish reason');
      }
      return answer.result();
    });
  }

  async resume(): Promise<ExecutionResult> {
    throw new OrchdError('UNKNOWN_OUTCOME', 'the provider keeps no answers');
  }

  close(): void {
    this.#api.close();
  }
}

/** The name is one segment of the path, whatever is in it; Google's lists show it with `models/` before it. */
const pathOf = (model: string): string =>
  `/v1beta/models/${encodeURIComponent(model.replace(/^models\//, ''))}`;

/** Reads up to the end of the stream. A connection that breaks after the finish reason has lost nothing of the answer. */
async function readToEnd(reply: StreamReply, answer: GeminiAnswer): Promise<void> {
  try {
    for await (const { data } of pulledEvents(reply, MAX_EVENT_CHARS)) answer.add(data);
  } catch (error) {
    if (answer.finished && isLost(error)) return;
    throw error;
  }
  if (!answer.finished) throw protocolError('ended its stream without an end', 'connection_lost');
}
