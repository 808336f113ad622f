/** A model whose answers are written down: the n-th answer in a conversation is what the script says. */
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import type { FunctionBackendOptions } from '../../src/index.ts';

export interface Heard {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly tools?: readonly object[];
  readonly max_tokens?: number;
}

/** Arguments that are a text are sent as they are. */
type Call = readonly [id: string, tool: string, args: object | string];

/** What the model says, and the tools that it asks for. */
export interface Said {
  readonly text?: string;
  readonly calls?: readonly Call[];
  /** The beginning of `text`, where the script has emitted that already. */
  readonly emitted?: string;
}

export class ScriptedModel {
  /** The calls of the model, as it heard them. */
  readonly heard: Heard[] = [];
  readonly #script: (turn: number, heard: Heard, context: FunctionContext) => Said | Promise<Said>;

  constructor(script: (turn: number, heard: Heard, context: FunctionContext) => Said | Promise<Said>) {
    this.#script = script;
  }

  /** `turn`: how often the model has answered in this conversation. */
  async #answer(heard: Heard, context: FunctionContext): Promise<object> {
    this.heard.push(heard);
    const turn = heard.messages.filter(({ role }) => role === 'assistant').length;
    const { text = '', calls = [], emitted = '' } = await this.#script(turn, heard, context);
    for (const word of text.slice(emitted.length).split(/(?<= )/)) if (word !== '') context.emit(word);
    return {
      text,
      finish_reason: calls.length > 0 ? 'tool_calls' : 'stop',
      ...(calls.length > 0 && {
        tool_calls: calls.map(([id, name, args]) => ({
          id,
          type: 'function',
          function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
        })),
      }),
      usage: { prompt_tokens: 10, completion_tokens: 5 },
    };
  }

  backend(options: Partial<FunctionBackendOptions> = {}): FunctionBackendOptions {
    const inference = (heard: Heard, context: FunctionContext) => this.#answer(heard, context);
    return { name: 'scripted', slots: 4, models: ['scripted'], types: { inference }, ...options } as never;
  }
}
