/** The options and shared parts of a server, alone or as a node of a cluster. */
import type { Agents } from '../agents/agents.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { ResolvedConfig } from '../config/resolve.ts';
import type { Backend } from '../core/ports/backend.ts';
import type { ByteRoom } from '../kit/byte-room.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import type { ReloadReport } from '../model/http/reload.ts';
import type { LeftWork } from '../runtime/left-work.ts';
import type { Tally } from '../telemetry/tally.ts';
import type { TokenFile } from '../wire/token-file.ts';
import type { FolderMeter } from './folder-meter.ts';

export interface ServerOptions {
  readonly config: ResolvedConfig;
  readonly data: string;
  readonly version: string;
  readonly logger: Logger;
  readonly host?: string;
  readonly port?: number;
  /** Backends beside those of the configuration. */
  readonly backends?: readonly Backend[];
  /** Models that workers of this machine run: files, or references such as hf:org/repo. */
  readonly models?: readonly string[];
  /** The context length of these models, in tokens. */
  readonly contextLength?: number | undefined;
  /** Options for those workers. */
  readonly workerArgs?: readonly string[];
  /**
   * The data folder is a copy, or a restored backup: the brain goes on under an owner of its own. In a cluster only the
   * folders of this node's backends are copies, and the database keeps its owner.
   */
  readonly isCopy?: boolean;
  /** The file of the configuration, for reloads; undefined: it was not read from a file. */
  readonly configFile?: ConfigFile | undefined;
}

export interface ConfigFile {
  /** What `config` was made from. */
  readonly loaded: LoadedConfig;
  /** Reads it again, with the variables and options of the start. Throws CONFIG_INVALID. */
  read(): Promise<LoadedConfig>;
  /** Throws CONFIG_INVALID with everything that a start would refuse. */
  check(loaded: LoadedConfig): Promise<void>;
}

export interface ServerParts {
  readonly options: ServerOptions;
  readonly env: Env;
  readonly host: string;
  readonly tokens: TokenFile;
  readonly uptimeMs: () => number;
  /** Counts for the whole process: a node that leads again goes on counting. */
  readonly tally: Tally;
  readonly folderMeter: FolderMeter;
  /** The memory for large answers: the results that the brain reads for them, and what the server makes itself. */
  readonly answerRoom: ByteRoom;
  readonly agents: Agents;
  /** Whether agents have commands as tools, or had some in an earlier process. */
  readonly runsCommands: boolean;
}

/** A server that answers, whether it stands alone or is a node of several. */
export interface RunningServer {
  readonly url: string;
  /** Names of the models of ServerOptions.models. */
  readonly models?: readonly string[];
  /** Why it has stopped by itself. */
  readonly failure: Error | undefined;
  /** What it has left behind; known once it has stopped, if it had a brain until then. */
  readonly left?: LeftWork | undefined;
  /** Whether other nodes go on with what it leaves behind. */
  readonly hasNodes?: boolean;
  /** Reads the configuration again, and takes over what can be changed. Throws if it is refused. */
  reload?(by: string): Promise<ReloadReport>;
  stop(): Promise<void>;
}
