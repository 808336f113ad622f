/** Converts a conversation from OpenAI's form to that of node-llama-cpp. */
import type {
  ChatHistoryItem,
  ChatModelFunctionCall,
  ChatModelFunctions,
  GbnfJsonSchema,
} from 'node-llama-cpp';
import type { ChatMessage, Tool } from '../execution/inference-request.ts';

/** The history ends with a model item, to which the generated answer is added. */
export function historyOf(messages: readonly ChatMessage[], instruction?: string): ChatHistoryItem[] {
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

function itemsOf(message: ChatMessage, calls: Map<string, ChatModelFunctionCall>): ChatHistoryItem[] {
  const { role, text, callId } = message;
  if (role === 'system' || role === 'user') return [{ type: role, text }];
  if (role === 'tool') {
    // The result is stored in its call; a result without a matching call is ignored.
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

/** Merges consecutive model items: after tool results the model continues its answer. */
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
