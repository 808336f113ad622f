/** Calls Anthropic's `/v1/messages`. The provider keeps nothing: an answer that was not read is lost, and charged for. */
import { OrchdError } from '../../../model/errors.ts';
import type { ExecutionResult } from '../../../model/worker-wire.ts';
import {
  ANTHROPIC_VERSION,
  messagesBody,
  VERSION_HEADER,
  versionFor,
} from '../../../wire/dialects/anthropic-messages.ts';
import { MessageAnswer } from '../../../wire/dialects/anthropic-stream.ts';
import { protocolError } from '../../../wire/dialects/protocol-error.ts';
import type { StreamReply } from '../../../wire/outbound.ts';
import { pulledEvents } from '../../../wire/pulled-events.ts';
import type { Driver, DriverAbilities, DriverCall } from '../driver.ts';
import { isLost, type ProviderApi } from './provider-api.ts';

export const MAX_EVENT_CHARS = 4 * 2 ** 20;

export const anthropicHeaders = (key: string | undefined): Record<string, string> => ({
  [VERSION_HEADER]: ANTHROPIC_VERSION,
  ...(key !== undefined && { 'x-api-key': key }),
});

export class AnthropicMessagesDriver implements Driver {
  readonly abilities: DriverAbilities = {
    finds: 'nothing',
    keepsMs: 0,
    cancels: 'disconnect',
    billsWhenCut: true,
  };
  readonly #api: ProviderApi;

  constructor(api: ProviderApi) {
    this.#api = api;
  }

  run(call: DriverCall): Promise<ExecutionResult> {
    return this.#api.guard(call.signal, async () => {
      const body = messagesBody(call.request, call.model, { stream: true });
      const headers = { [VERSION_HEADER]: versionFor(body) };
      const reply = await this.#api.openStream({ path: '/v1/messages', body, headers }, call.signal);
      const answer = new MessageAnswer(call);
      await readToEnd(reply, answer);
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

/** Reads up to the last event. A connection that breaks after the reason for the end has lost nothing of the answer. */
async function readToEnd(reply: StreamReply, answer: MessageAnswer): Promise<void> {
  try {
    for await (const { data } of pulledEvents(reply, MAX_EVENT_CHARS)) {
      answer.add(data);
      if (answer.ended) return;
    }
  } catch (error) {
    if (answer.finished && isLost(error)) return;
    throw error;
  }
  if (!answer.finished) throw protocolError('ended its stream without an end', 'connection_lost');
}
