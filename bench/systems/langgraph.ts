/**
 * LangGraph JS with its saver for PostgreSQL: a graph of a model and tools in this process, in its cheapest form. Both
 * tools are called by one plain function, and nothing checks their arguments.
 */
import { ANSWER, CALLS, INSTRUCTIONS, QUESTION, type RunSystem, TOOL_RESULT } from './agent-script.ts';
import { loadPeer } from './peer.ts';
import type { PostgresAddress } from './postgres.ts';

/** The part of LangGraph that is used here. */
interface Message {
  readonly content: unknown;
  readonly tool_calls?: readonly { readonly id?: string; readonly name: string }[];
}
interface State {
  readonly messages: readonly Message[];
}
interface Messages {
  readonly AIMessage: new (fields: object) => Message;
  readonly ToolMessage: new (fields: object) => Message;
  readonly HumanMessage: new (text: string) => Message;
  readonly SystemMessage: new (text: string) => Message;
}
interface Graph {
  addNode(name: string, run: (state: State) => Promise<State>): Graph;
  addEdge(from: string, to: string): Graph;
  addConditionalEdges(from: string, next: (state: State) => string): Graph;
  compile(options: { checkpointer: Saver }): { invoke(input: State, config: object): Promise<State> };
}
interface LangGraph {
  readonly StateGraph: new (state: unknown) => Graph;
  readonly MessagesAnnotation: unknown;
}
interface Saver {
  setup(): Promise<void>;
  end(): Promise<void>;
}
interface Savers {
  readonly PostgresSaver: new (pool: unknown) => Saver;
}
interface Pg {
  readonly default: { readonly Pool: new (options: object) => unknown };
}

export const LANGGRAPH = [
  '@langchain/core',
  '@langchain/langgraph',
  '@langchain/langgraph-checkpoint-postgres',
  'pg',
] as const;

export async function openLangGraph(
  at: PostgresAddress,
  server: number,
  inFlight: number,
): Promise<RunSystem> {
  const { StateGraph, MessagesAnnotation } = await loadPeer<LangGraph>('@langchain/langgraph');
  const { PostgresSaver } = await loadPeer<Savers>('@langchain/langgraph-checkpoint-postgres');
  const messages = await loadPeer<Messages>('@langchain/core/messages');
  const { default: pg } = await loadPeer<Pg>('pg');
  const saver = new PostgresSaver(new pg.Pool({ ...at, max: inFlight }));
  await saver.setup();
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('model', async (state) => ({ messages: [answerOf(state, messages)] }))
    .addNode('tools', async (state) => ({ messages: resultsOf(state, messages) }))
    .addEdge('__start__', 'model')
    .addConditionalEdges('model', ({ messages: said }) => (asked(said).length > 0 ? 'tools' : '__end__'))
    .addEdge('tools', 'model')
    .compile({ checkpointer: saver });
  let runs = 0;
  return {
    servers: [server],
    async run() {
      const { SystemMessage, HumanMessage } = messages;
      const input = { messages: [new SystemMessage(INSTRUCTIONS), new HumanMessage(QUESTION)] };
      const config = { configurable: { thread_id: `run-${++runs}` }, durability: 'sync' };
      const { messages: said } = await graph.invoke(input, config);
      if (said.at(-1)?.content !== ANSWER) throw new Error('LangGraph gave another answer');
    },
    close: () => saver.end(),
  };
}

const asked = (said: readonly Message[]) => said.at(-1)?.tool_calls ?? [];

function answerOf({ messages: said }: State, { AIMessage }: Messages): Message {
  const hasResults = said.length > 2;
  return new AIMessage(hasResults ? { content: ANSWER } : { content: '', tool_calls: CALLS });
}

const resultsOf = ({ messages: said }: State, { ToolMessage }: Messages): Message[] =>
  asked(said).map(({ id, name }) => new ToolMessage({ content: TOOL_RESULT, tool_call_id: id, name }));
