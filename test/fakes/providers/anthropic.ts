/** A fake Anthropic: messages, and message batches. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { AnthropicBatches } from './anthropic-batches.ts';
import { messageFrames, WRITTEN_TOKENS, wholeMessage } from './anthropic-messages.ts';
import { play } from './frames.ts';
import { type Exchange, FakeProvider, type Json, send } from './provider.ts';
import type { Fault } from './stage.ts';

const MESSAGES = '/v1/messages';
const BATCHES = '/v1/messages/batches';

export class FakeAnthropic extends FakeProvider {
  protected readonly generationPaths = [MESSAGES, BATCHES];
  protected readonly overloadedStatus = 529;
  protected override readonly writtenTokens = WRITTEN_TOKENS;
  readonly batches = new AnthropicBatches(this.stage, () => this.url);

  protected keyOf(request: IncomingMessage): string | undefined {
    const key = request.headers['x-api-key'];
    return typeof key === 'string' ? key : request.headers.authorization?.replace(/^Bearer /, '');
  }

  protected errorBody(type: string, message: string): Json {
    const known = type === 'insufficient_quota' ? 'billing_error' : type;
    return { type: 'error', error: { type: known, message }, request_id: 'req_1' };
  }

  protected tagOf(body: Json): string | null {
    return body.requests?.[0]?.custom_id ?? null;
  }

  protected idPrefix(path: string): string {
    return path === BATCHES ? 'msgbatch_' : 'msg_';
  }

  /** Both versions of the API want a limit; the newer one has no fields for sampling any more. */
  protected override invalid(body: Json, headers: IncomingHttpHeaders): string | undefined {
    const params: Json[] = body.requests?.map((request: Json) => request.params) ?? [body];
    if (params.some(({ max_tokens }) => max_tokens === undefined)) return 'max_tokens: Field required';
    const version = headers['anthropic-version'];
    if (version === '2023-06-01') return undefined;
    if (version !== '2026-10-21') return 'anthropic-version: header is required';
    const field = ['temperature', 'top_p', 'top_k'].find((name) => params.some((each) => name in each));
    return field === undefined ? undefined : `${field}: Extra inputs are not permitted`;
  }

  protected async generate(exchange: Exchange, id: string, fault: Fault | undefined): Promise<void> {
    const { body, response, url } = exchange;
    if (url.pathname === BATCHES) return this.batches.create(exchange, id, fault);
    const message = wholeMessage(id, body);
    if (body.stream !== true) {
      await this.stage.at('before-end');
      return send(response, 200, message);
    }
    const error = this.errorBody('overloaded_error', 'Overloaded');
    await play({ response, frames: messageFrames(message, fault?.name, error), stage: this.stage, fault });
  }

  protected read(exchange: Exchange): boolean {
    return exchange.url.pathname.startsWith(BATCHES) && this.batches.read(exchange);
  }
}
