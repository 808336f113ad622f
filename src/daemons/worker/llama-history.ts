/** A conversation as OpenAI tells it, as the engine wants it. */
import type {
  ChatHistoryItem,
  ChatModelFunctionCall,
  ChatModelFunctions,
  GbnfJsonSchema,
} from 'node-llama-cpp';
import type { Message, Tool } from './ask.ts';

/** Ends with the answer that is to come. */
export function historyOf(messages: readonly Message[], instruction?: string): ChatHistoryItem[] {
  const calls = new Map<string, ChatModelFunctionCall>();
  const history = messages.flatMap((message) => itemsOf(message, calls));
  if (instruction !== undefined) history.unshift({ type: 'system', text: instruction });
  if (history.at(-1)?.type !== 'model') history.push({ type: 'model', response: [] });
  return merged(history);
}

export const functionsOf = (tools: readonly Tool[]): ChatModelFunctions =>
  Object.fromEntries(
    tools.map(({ name, description, parameters }) => [
      name,
      {
        ...(description !== undefined && { description }),
        ...(parameters && { params: parameters as GbnfJsonSchema }),
      },
    ]),
  );

function itemsOf(message: Message, calls: Map<string, ChatModelFunctionCall>): ChatHistoryItem[] {
  const { role, text, callId } = message;
  if (role === 'system' || role === 'user') return [{ type: role, text }];
  if (role === 'tool') {
    // The result belongs to the call; one of a call that nobody made says nothing.
    const call = calls.get(callId ?? '');
    if (call) call.result = text;
    return [];
  }
  const made = message.calls.map(({ id, name, arguments: given }) => {
    const call: ChatModelFunctionCall = { type: 'functionCall', name, params: parsed(given), result: '' };
    calls.set(id, call);
    return call;
  });
  return [{ type: 'model', response: text === '' ? made : [text, ...made] }];
}

/** Two answers in a row are one: after results of tools the model goes on. */
function merged(history: readonly ChatHistoryItem[]): ChatHistoryItem[] {
  const items: ChatHistoryItem[] = [];
  for (const item of history) {
    const last = items.at(-1);
    if (item.type === 'model' && last?.type === 'model') {
      items[items.length - 1] = { type: 'model', response: [...last.response, ...item.response] };
    } else items.push(item);
  }
  return items;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
