/** A fake OpenAI: chat completions, which it can store, and responses, which it can run in the background. */
import type { IncomingMessage } from 'node:http';
import { type Frame, play } from './frames.ts';
import { chatFrames, chatUsage, wholeChat } from './openai-chat.ts';
import { OpenAiResponses } from './openai-responses.ts';
import { type Exchange, FakeProvider, type Json, send } from './provider.ts';
import { scriptOf } from './script.ts';
import type { Fault } from './stage.ts';

const CHAT = '/v1/chat/completions';
const RESPONSES = '/v1/responses';

export class FakeOpenAi extends FakeProvider {
  protected readonly generationPaths = [CHAT, RESPONSES];
  protected readonly overloadedStatus = 503;
  readonly #stored = new Map<string, Json>();
  readonly #responses = new OpenAiResponses(this.stage);

  protected keyOf(request: IncomingMessage): string | undefined {
    return request.headers.authorization?.replace(/^Bearer /, '');
  }

  protected errorBody(type: string, message: string): Json {
    return { error: { message, type, param: null, code: type } };
  }

  protected tagOf(body: Json): string | null {
    return body.metadata?.orchd_token ?? null;
  }

  protected idPrefix(path: string): string {
    return path === CHAT ? 'chatcmpl-' : 'resp_';
  }

  protected async generate(exchange: Exchange, id: string, fault: Fault | undefined): Promise<void> {
    if (exchange.url.pathname === RESPONSES) return this.#responses.generate(exchange, id, fault);
    const { body, response } = exchange;
    const whole = wholeChat(id, body, scriptOf(body.messages, body));
    if (body.stream !== true) {
      await this.stage.at('before-end');
      if (body.store) this.#stored.set(id, whole);
      return send(response, 200, whole);
    }
    const error: Frame = {
      text: `data: ${JSON.stringify(this.errorBody('server_overloaded', 'Overloaded'))}\n\n`,
    };
    const frames = chatFrames(whole, chatUsage(body), fault?.name, error);
    // What was asked for is made also when nobody listens any more, and is stored.
    const ended = await play({ response, frames, stage: this.stage, fault, goesOn: body.store === true });
    if (ended && body.store) this.#stored.set(id, whole);
  }

  protected read(exchange: Exchange): boolean {
    const { method, url, response } = exchange;
    if (url.pathname.startsWith(`${RESPONSES}/`)) return this.#responses.read(exchange);
    if (method !== 'GET' || !url.pathname.startsWith(CHAT)) return false;
    const id = url.pathname.slice(CHAT.length + 1);
    const known = [...this.#stored.values()].filter((each) => !this.stage.expired.has(each.id));
    if (id === '') this.#list(exchange, known);
    else {
      const found = known.find((each) => each.id === id);
      if (!found) return false;
      send(response, 200, found);
    }
    return true;
  }

  #list({ url, response }: Exchange, known: readonly Json[]): void {
    const filters = [...url.searchParams].flatMap(([name, value]) => {
      const key = /^metadata\[(.+)\]$/.exec(name)?.[1];
      return key === undefined ? [] : [[key, value] as const];
    });
    const data = known.filter(
      ({ metadata }) =>
        this.stage.ignoresFilter || filters.every(([key, value]) => metadata?.[key] === value),
    );
    const ends = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
    send(response, 200, { object: 'list', data, ...ends, has_more: false });
  }
}
